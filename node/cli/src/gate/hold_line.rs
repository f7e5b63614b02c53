//! The hold line, where a gate is told of one: the actuator's permit beat, fresh by the gate's own nonce
//! (DESIGN §8). With it a RED counts at the gate without any node.
//!
//! ```text
//!   nonce ─▶ actuator ─▶ permit beat: its key? this nonce? ─▶ sentinel beats ∧ nothing held covers the intent
//! ```
//!
//! No answer is no permission. A held scope is for good as far as this push goes; silence may pass.

use std::time::Duration;

use redlatch_journal::IndexKey;
use redlatch_link::transport::{self, Dialer, Failed, Link};
use redlatch_link::world::{self, Monotonic};
use redlatch_link::{PeerIdentity, Role};
use redlatch_proto::v1;
use redlatch_proto::v1::hold_line_client::HoldLineClient;
use redlatch_types::event::Event;
use redlatch_types::mandate::covers;
use redlatch_types::records::{PermitBeatV1, RosterV1, SentinelLine, SovereignActionIntentV1};
use redlatch_types::{Canonical, Digest, Envelope, OrganismId, PublicKey, Refusal};

use super::config::Gate;
use super::core::binding::Permit;
use super::journal::nonce;
use super::refusal::{GateError, Refused};

/// The actuator as a gate knows it.
pub(crate) struct HoldLine {
    link: Link,
    key: PublicKey,
    organism: OrganismId,
}

impl HoldLine {
    /// The line to the roster's actuator at this address. Nothing is connected yet.
    ///
    /// # Errors
    /// A sentence about the address.
    pub(crate) fn new(
        dialer: &Dialer,
        roster: &RosterV1,
        address: &str,
    ) -> Result<HoldLine, String> {
        let (actuator, organism) = (&roster.actuator, dialer.identity().organism);
        let peer = PeerIdentity::new(organism, Role::Actuator, actuator.name.as_str())
            .map_err(|error| error.to_string())?;
        let link = dialer
            .channel(address, &peer)
            .map_err(|error| error.to_string())?;
        let key = actuator.key;
        Ok(HoldLine {
            link,
            key,
            organism,
        })
    }

    /// Asks whether the actuator holds nothing that covers `intent`, and hears the sentinel.
    ///
    /// # Errors
    /// [`GateError::Refused`] if the intent's scope is held, [`GateError::Unavailable`] if there is no answer
    /// `within` that time that permits.
    pub(crate) async fn permits(
        &self,
        intent: &SovereignActionIntentV1,
        within: Duration,
    ) -> Result<(), GateError> {
        let nonce = nonce();
        let request = v1::PermitRequest {
            nonce: nonce.0.to_vec(),
        };
        let (channel, introduction) = (self.link.channel(), self.link.introduction());
        let mut client = HoldLineClient::with_interceptor(channel, introduction);
        let answer = match world::timeout(within, client.permit(request)).await {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return Err(silent(&status)),
            Err(late) => return Err(missing(&late.to_string())),
        };
        let beat = own_beat(&self.key, &self.organism, &answer.permit_beat, nonce);
        let beat = beat.ok_or_else(|| missing("the answer is not the actuator's own"))?;
        judge(&beat, intent)
    }
}

/// The beat in these bytes, if the actuator of this organism signed it for this nonce.
fn own_beat(
    key: &PublicKey,
    organism: &OrganismId,
    bytes: &[u8],
    nonce: Digest,
) -> Option<PermitBeatV1> {
    let envelope = Envelope::from_canonical(bytes).ok()?;
    let own = envelope.key == *key && envelope.scope.organism_id == *organism;
    let signed = envelope.open::<PermitBeatV1>().ok().filter(|_| own)?;
    (signed.record().nonce == nonce).then(|| signed.record().clone())
}

impl Gate {
    /// Asks the hold line, if there is one. The answer is as old as the returned point, which lies before the
    /// question.
    ///
    /// # Errors
    /// [`GateError::Refused`] if the intent's scope is held, [`GateError::Unavailable`] if there is no answer
    /// that permits.
    pub(crate) async fn not_held(&self, permit: &Permit) -> Result<Option<Monotonic>, GateError> {
        let Some(line) = &self.hold_line else {
            return Ok(None);
        };
        let frozen = self.leaf(IndexKey::Frozen(permit.intent)).await?;
        let intent = match frozen {
            Some(Event::Frozen(_, _, intent, _)) if intent.digest() == permit.intent => intent,
            _ => return Err(Refusal::UnknownIntent.into()),
        };
        let asked = Monotonic::now();
        line.permits(&intent, self.freshness).await?;
        Ok(Some(asked))
    }
}

/// A certificate that is not accepted is for good; anything else may pass.
fn silent(status: &tonic::Status) -> GateError {
    match transport::failed(status) {
        Failed::NotTrusted(reason) => GateError::Failed(reason.into()),
        Failed::NeverConnected | Failed::CutOff => missing(&transport::words(status)),
    }
}

fn missing(why: &str) -> GateError {
    GateError::Unavailable(format!("hold_line_missing: {why}"))
}

fn judge(beat: &PermitBeatV1, intent: &SovereignActionIntentV1) -> Result<(), GateError> {
    if beat.held.iter().any(|scope| covers(scope, intent)) {
        return Err(Refused::Held.into());
    }
    if beat.sentinel != SentinelLine::Beating {
        let text = format!(
            "sentinel_silent: the actuator hears of it: {}",
            beat.sentinel
        );
        return Err(GateError::Unavailable(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlatch_types::records::{ActionClass, RedScope};
    use redlatch_types::{OutboxEpoch, Scope, SigningKey};

    use super::*;
    use crate::gate::core::binding::tests::intent;

    fn beat(held: Vec<RedScope>, sentinel: SentinelLine) -> PermitBeatV1 {
        PermitBeatV1 {
            nonce: Digest::of(b"nonce"),
            held,
            sentinel,
            seen_outbox_epoch: OutboxEpoch(0),
        }
    }

    #[test]
    fn only_fresh_beats_and_nothing_held_in_scope_permit() {
        let other = RedScope::ActionClass(ActionClass::ReleasePromote);
        let permits = beat(vec![other], SentinelLine::Beating);
        assert!(judge(&permits, &intent()).is_ok());
        for scope in [
            RedScope::Everything,
            RedScope::Intent(intent().digest()),
            RedScope::Subject(intent().proposer_subject_id),
        ] {
            let held = judge(&beat(vec![scope], SentinelLine::Beating), &intent());
            assert!(matches!(held, Err(GateError::Refused(Refused::Held))));
        }
        for line in SentinelLine::ALL {
            let judged = judge(&beat(vec![], *line), &intent());
            assert_eq!(judged.is_ok(), *line == SentinelLine::Beating, "{line}");
        }
    }

    #[test]
    fn fault_062_only_the_actuators_answer_to_this_nonce_counts() {
        let (key, stranger) = (
            SigningKey::from_seed([3; 32]),
            SigningKey::from_seed([4; 32]),
        );
        let organism = OrganismId(Digest::of(b"organism"));
        let scope = |organism_id| Scope {
            organism_id,
            organism_epoch: 1,
        };
        let record = beat(vec![], SentinelLine::Beating);
        let nonce = record.nonce;
        let is_own = |envelope: &Envelope, nonce| {
            own_beat(
                &key.public_key(),
                &organism,
                &envelope.to_canonical(),
                nonce,
            )
            .is_some()
        };
        let good = Envelope::seal(scope(organism), &key, &record);
        assert!(is_own(&good, nonce));
        assert!(!is_own(&good, Digest::ZERO));
        let strange = Envelope::seal(scope(organism), &stranger, &record);
        assert!(!is_own(&strange, nonce));
        let elsewhere = Envelope::seal(scope(OrganismId(Digest::ZERO)), &key, &record);
        assert!(!is_own(&elsewhere, nonce));
        let mut altered = good;
        altered.body.0[10] ^= 1;
        assert!(!is_own(&altered, nonce));
    }
}
