//! The bounds of one call on the cluster: its time, and when certificates make going on pointless.

use std::time::Duration;

use super::call::Heard;
use crate::transport::NotTrusted;
use crate::world::{self, Monotonic};

/// First pause before asking again; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// Whether any node and this process accept each other, as one call finds out. One node alone may be wrong about
/// a certificate, by its clock or its pins; if all that can be reached agree, asking again helps nobody.
pub(super) struct Trust {
    /// Nodes that were not asked yet.
    unasked: usize,
    /// Whether a node's service was reached.
    given: bool,
    withheld: Option<NotTrusted>,
}

impl Trust {
    pub(super) fn new(nodes: usize) -> Trust {
        Trust {
            unasked: nodes,
            given: false,
            withheld: None,
        }
    }

    pub(super) fn note<T>(&mut self, heard: &Heard<T>) {
        self.unasked = self.unasked.saturating_sub(1);
        match heard {
            Heard::NotTrusted(reason) => {
                self.withheld.get_or_insert_with(|| reason.clone());
            }
            Heard::NeverSent(_) => {}
            _ => self.given = true,
        }
    }

    /// Why the call ends here, once every node was asked or there is no time to ask more.
    pub(super) fn verdict(&self, round: &Round) -> Option<NotTrusted> {
        let over = self.unasked == 0 || round.left() == Duration::ZERO;
        self.withheld.clone().filter(|_| over && !self.given)
    }
}

/// The time of one call with all its repeats.
pub(super) struct Round {
    until: Monotonic,
    pause: Duration,
}

impl Round {
    pub(super) fn new(deadline: Duration) -> Round {
        Round {
            until: Monotonic::now().plus(deadline),
            pause: PAUSE_MIN,
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.until.since(Monotonic::now())
    }

    /// Waits before the next attempt; false if there is no time for one. A hint needs no wait the first time.
    pub(super) async fn pause(&mut self, hinted: bool) -> bool {
        let first = self.pause == PAUSE_MIN;
        if !(hinted && first) {
            world::sleep(self.pause.min(self.left())).await;
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.left() > Duration::ZERO
    }
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;

    #[test]
    fn certificates_end_a_call_only_if_no_node_accepts_or_is_accepted() {
        let stranger = || NotTrusted::TheirCertificate {
            peer: "node/n1 at h:1".to_owned(),
            reason: "it has expired".to_owned(),
        };
        let no = || Heard::<()>::NotTrusted(stranger());
        let down = || Heard::<()>::NeverSent("refused".to_owned());
        let not_led = || Heard::<()>::NotLeader(None, String::new());
        let round = Round::new(Duration::from_secs(3600));
        let after = |heard: &[Heard<()>]| {
            let mut trust = Trust::new(3);
            heard.iter().for_each(|it| trust.note(it));
            trust.verdict(&round)
        };
        assert_eq!(after(&[no(), no()]), None, "one was not asked");
        assert_eq!(after(&[no(), no(), no()]), Some(stranger()));
        assert_eq!(after(&[down(), no(), down()]), Some(stranger()));
        assert_eq!(after(&[no(), not_led(), no()]), None, "one accepts us");
        assert_eq!(after(&[down(), down(), down()]), None);
        let late = Round::new(Duration::ZERO);
        let mut trust = Trust::new(3);
        trust.note(&no());
        assert_eq!(
            trust.verdict(&late),
            Some(stranger()),
            "no time to ask more"
        );
    }

    #[tokio::test]
    async fn a_round_ends_at_its_deadline() {
        let mut round = Round::new(Duration::ZERO);
        assert!(!round.pause(true).await);
        let mut round = Round::new(Duration::from_secs(3600));
        assert!(round.pause(true).await);
    }
}
