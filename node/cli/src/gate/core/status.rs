//! What the nodes' signed statuses amount to (DESIGN §8): one authentic stop denies, whatever the majority
//! says; only a majority's *outstanding* and *free* permits.

use std::collections::BTreeMap;

use redlatch_types::records::{EffectState, ScopeState, StatusV1};
use redlatch_types::{NodeId, Refusal, RosterEpoch};

use super::token::Token;
use crate::gate::refusal::Refused;

/// What was asked, and of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The token that is to be honoured.
    pub(crate) token: Token,
    /// The roster that this gate knows.
    pub(crate) roster: RosterEpoch,
    /// How many of its voters are more than half.
    pub(crate) majority: usize,
}

/// How long the gate still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For all: a stop that one node knows of shall be heard.
    ForAll,
    /// For a majority: the short deadline is over.
    ForMajority,
    /// For nobody: everyone has answered or failed, or the time is up.
    Over,
}

/// What follows from what was heard so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Keep listening.
    Wait,
    /// The effect may be made within the freshness bound.
    Permit,
    /// It must not.
    Deny(Refused),
    /// Too few said anything.
    TooFew,
}

/// Judges the voters' statuses, each of them opened, of this question and signed by that voter.
pub(crate) fn judge(
    question: &Question,
    heard: &BTreeMap<NodeId, StatusV1>,
    waiting: Waiting,
) -> Judgement {
    if let Some(stop) = heard.values().find_map(|status| stop(question, status)) {
        return Judgement::Deny(stop);
    }
    let free = heard.values().filter(|it| permits(question, it)).count();
    let current = heard
        .values()
        .filter(|it| it.history == question.token.history);
    let not_outstanding = current.count() - free;
    match waiting {
        Waiting::ForAll => Judgement::Wait,
        _ if free >= question.majority => Judgement::Permit,
        Waiting::ForMajority => Judgement::Wait,
        Waiting::Over if not_outstanding >= question.majority => {
            Judgement::Deny(Refused::NotOutstanding)
        }
        Waiting::Over => Judgement::TooFew,
    }
}

/// Why this one status denies by itself.
fn stop(question: &Question, status: &StatusV1) -> Option<Refused> {
    match status.scope {
        ScopeState::Latched | ScopeState::RedHeld => {
            return Some(Refused::Journal(Refusal::RedLatched));
        }
        ScopeState::Frozen => return Some(Refused::Journal(Refusal::Frozen)),
        ScopeState::Free => {}
    }
    // A later history may have been raised by a restore that lost this marker.
    if status.history > question.token.history {
        return Some(Refused::StaleToken);
    }
    (status.roster_epoch > question.roster).then_some(Refused::StaleRoster)
}

fn permits(question: &Question, status: &StatusV1) -> bool {
    status.scope == ScopeState::Free
        && status.effect == EffectState::Outstanding
        && status.marker == question.token.marker
        && status.history == question.token.history
        && status.roster_epoch == question.roster
}

#[cfg(test)]
mod tests {
    use redlatch_types::records::Mode;
    use redlatch_types::*;

    use super::*;

    fn question() -> Question {
        Question {
            token: Token {
                history: 1,
                marker: MarkerNumber(7),
            },
            roster: RosterEpoch(1),
            majority: 2,
        }
    }

    fn free() -> StatusV1 {
        StatusV1 {
            node_id: NodeId(1),
            nonce: Digest::ZERO,
            intent_digest_optional: None,
            scope: ScopeState::Free,
            effect: EffectState::Outstanding,
            marker: MarkerNumber(7),
            active_mode: Mode::PolicyAutonomous,
            autonomy_epoch: AutonomyEpoch(2),
            constitution_epoch: ConstitutionEpoch(1),
            roster_epoch: RosterEpoch(1),
            quorum_key_epoch: KeyEpoch(1),
            latch_epoch: LatchNumber(0),
            history: 1,
            tree_size: 9,
            tick: TickNumber(1),
            state_time: 1,
        }
    }

    fn with(change: fn(&mut StatusV1)) -> StatusV1 {
        let mut status = free();
        change(&mut status);
        status
    }

    fn judged(statuses: &[StatusV1], waiting: Waiting) -> Judgement {
        let heard = statuses
            .iter()
            .zip(1..)
            .map(|(it, n)| (NodeId(n), it.clone()));
        judge(&question(), &heard.collect(), waiting)
    }

    #[test]
    fn all_are_waited_for_then_a_majority_then_nobody() {
        use Waiting::{ForAll, ForMajority, Over};
        let table = [
            (0, ForAll, Judgement::Wait),
            (2, ForAll, Judgement::Wait),
            (3, ForAll, Judgement::Wait),
            (1, ForMajority, Judgement::Wait),
            (2, ForMajority, Judgement::Permit),
            (3, Over, Judgement::Permit),
            (2, Over, Judgement::Permit),
            (1, Over, Judgement::TooFew),
            (0, Over, Judgement::TooFew),
        ];
        for (count, waiting, expected) in table {
            let statuses = vec![free(); count];
            assert_eq!(judged(&statuses, waiting), expected, "{count} {waiting:?}");
        }
    }

    #[test]
    fn one_authentic_stop_denies_whatever_the_majority_says() {
        type Change = fn(&mut StatusV1);
        let stops: [(Change, Refused); 5] = [
            (
                |it| it.scope = ScopeState::Latched,
                Refused::Journal(Refusal::RedLatched),
            ),
            (
                |it| it.scope = ScopeState::RedHeld,
                Refused::Journal(Refusal::RedLatched),
            ),
            (
                |it| it.scope = ScopeState::Frozen,
                Refused::Journal(Refusal::Frozen),
            ),
            (|it| it.history = 2, Refused::StaleToken),
            (|it| it.roster_epoch = RosterEpoch(2), Refused::StaleRoster),
        ];
        for (change, expected) in stops {
            for waiting in [Waiting::ForAll, Waiting::ForMajority, Waiting::Over] {
                for place in 0..3 {
                    let mut statuses = vec![free(); 3];
                    statuses[place] = with(change);
                    assert_eq!(
                        judged(&statuses, waiting),
                        Judgement::Deny(expected.clone()),
                        "{waiting:?} {place}"
                    );
                }
            }
        }
        // Also from a node that does not know the effect.
        let latched = with(|it| {
            it.scope = ScopeState::Latched;
            it.effect = EffectState::NotOutstanding;
        });
        assert!(matches!(
            judged(&[latched], Waiting::ForAll),
            Judgement::Deny(_)
        ));
    }

    #[test]
    fn only_this_effect_under_this_token_counts() {
        type Change = fn(&mut StatusV1);
        let others: [Change; 5] = [
            |it| it.effect = EffectState::NotOutstanding,
            |it| it.effect = EffectState::NotAsked,
            |it| it.marker = MarkerNumber(6),
            |it| it.marker = MarkerNumber(8),
            |it| it.history = 0,
        ];
        for change in others {
            let other = with(change);
            let mix = [free(), other.clone(), other.clone()];
            assert_ne!(judged(&mix, Waiting::Over), Judgement::Permit);
            let mix = [free(), free(), other];
            assert_eq!(judged(&mix, Waiting::Over), Judgement::Permit);
        }
        let reported = with(|it| it.effect = EffectState::NotOutstanding);
        let mix = [free(), reported.clone(), reported];
        assert_eq!(
            judged(&mix, Waiting::Over),
            Judgement::Deny(Refused::NotOutstanding)
        );
        let behind = with(|it| it.history = 0);
        assert_eq!(
            judged(&[behind.clone(), behind], Waiting::Over),
            Judgement::TooFew
        );
    }
}
