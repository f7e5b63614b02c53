//! Authentic REDs and beats: signed by the one pinned sentinel, for this organism. A RED that is latched may be of one
//! before it.
//!
//! ```text
//!   Envelope ─▶ organism? key? signature? ─▶ AuthenticRed ─▶ scopes to hold (mandate)
//! ```
//!
//! Refused are only the wrong key, the wrong organism and a signature that does not hold. What
//! is authentic but cannot be read, names something unknown or comes from an earlier organism
//! epoch holds everything: it is widened by the same `mandate()` that the journal calls.

use redlatch_types::mandate::{Mandate, mandate};
use redlatch_types::records::{
    RedScope, SentinelBeatV1, SentinelRedOutboxV1, SovereignActionIntentV1,
};
use redlatch_types::sign::SignedBytes;
use redlatch_types::{Canonical, Digest, Envelope, IntentDigest, PublicKey, Scope, Signed};

/// Why an envelope counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthentic {
    /// For another organism.
    #[error("signed for another organism")]
    WrongOrganism,
    /// By another key than the pinned one.
    #[error("not signed by the pinned sentinel")]
    WrongKey,
    /// The signature does not hold.
    #[error("the signature does not hold")]
    BadSignature,
}

/// Knows the one sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedVerifier {
    /// The organism and its epoch in force.
    pub scope: Scope,
    /// The pinned key of the sentinel.
    pub sentinel: PublicKey,
    /// Those that the root has replaced. What they say is not heard; what was latched of it is ended.
    pub former: Vec<PublicKey>,
}

/// A RED of the pinned sentinel, or one latched of a sentinel before. Only [`RedVerifier`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticRed {
    signed: SignedBytes,
    entry: Option<SentinelRedOutboxV1>,
    in_epoch: bool,
}

/// A beat of the pinned sentinel. Only [`RedVerifier::beat`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticBeat(SentinelBeatV1);

impl RedVerifier {
    /// Checks a RED.
    ///
    /// # Errors
    /// [`NotAuthentic`]; nothing is held for it.
    pub fn red(&self, envelope: &Envelope) -> Result<AuthenticRed, NotAuthentic> {
        self.is_for_us(envelope)?;
        read(
            envelope,
            envelope.scope.organism_epoch == self.scope.organism_epoch,
        )
    }

    /// Checks the RED of a proven latch. The root may have acted since it was latched: it may be of a sentinel
    /// before, and is read as it was in the epoch in which it was signed.
    ///
    /// # Errors
    /// [`NotAuthentic`]; no attempt is made for it.
    pub fn latched(&self, envelope: &Envelope) -> Result<AuthenticRed, NotAuthentic> {
        match self.former.contains(&envelope.key) {
            true => self.is_of_organism(envelope)?,
            false => self.is_for_us(envelope)?,
        }
        read(envelope, true)
    }

    /// Checks a beat. Beats of another organism epoch count for nothing: they permit.
    ///
    /// # Errors
    /// [`NotAuthentic`]; the sentinel stays as silent as it was.
    pub fn beat(&self, envelope: &Envelope) -> Result<AuthenticBeat, NotAuthentic> {
        self.is_for_us(envelope)?;
        if envelope.scope != self.scope {
            return Err(NotAuthentic::WrongOrganism);
        }
        let signed: Signed<SentinelBeatV1> =
            envelope.open().map_err(|_| NotAuthentic::BadSignature)?;
        Ok(AuthenticBeat(signed.record().clone()))
    }

    fn is_for_us(&self, envelope: &Envelope) -> Result<(), NotAuthentic> {
        self.is_of_organism(envelope)?;
        match envelope.key == self.sentinel {
            true => Ok(()),
            false => Err(NotAuthentic::WrongKey),
        }
    }

    fn is_of_organism(&self, envelope: &Envelope) -> Result<(), NotAuthentic> {
        match envelope.scope.organism_id == self.scope.organism_id {
            true => Ok(()),
            false => Err(NotAuthentic::WrongOrganism),
        }
    }
}

fn read(envelope: &Envelope, in_epoch: bool) -> Result<AuthenticRed, NotAuthentic> {
    let signed = envelope
        .open_leniently::<SentinelRedOutboxV1>()
        .map_err(|_| NotAuthentic::BadSignature)?;
    let entry = SentinelRedOutboxV1::from_canonical(&envelope.body.0).ok();
    Ok(AuthenticRed {
        signed,
        entry: entry.filter(SentinelRedOutboxV1::root_holds),
        in_epoch,
    })
}

impl AuthenticRed {
    /// The entry, if this build can read it and its root follows from it.
    pub fn entry(&self) -> Option<&SentinelRedOutboxV1> {
        self.entry.as_ref()
    }

    /// SHA-256 of the signed body.
    pub fn digest(&self) -> Digest {
        self.signed.envelope().digest()
    }

    /// The intent whose frozen bytes are needed to hold less than everything, if one is named.
    pub fn source(&self) -> Option<IntentDigest> {
        self.entry.as_ref()?.source_intent_digest_optional
    }

    /// The mandate of this RED. `source` are the bytes of the intent that it names, if they
    /// are at hand; without them a RED that needs them stops everything.
    pub fn mandate(&self, source: Option<&SovereignActionIntentV1>) -> Mandate {
        let readable = self.entry.as_ref().filter(|_| self.in_epoch);
        let Some(entry) = readable else {
            return Mandate::everything();
        };
        let named = entry.source_intent_digest_optional;
        let source = source.filter(|intent| named == Some(intent.digest()));
        mandate(&entry.red_verdict, source)
    }

    /// The scopes to hold.
    pub fn scopes(&self, source: Option<&SovereignActionIntentV1>) -> Vec<RedScope> {
        self.mandate(source).scopes
    }
}

impl AuthenticBeat {
    /// The beat.
    pub fn record(&self) -> &SentinelBeatV1 {
        &self.0
    }
}
