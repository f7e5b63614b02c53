//! What a ballot is judged by: the terms in force, the verifier's own seat, the frozen intent.
//!
//! These are inputs, and those of the genesis only as long as nothing else is in force ([`InForceV1`]). Whoever makes them has verified the genesis or the receipts they come
//! from; nothing here reads a wire.

use std::collections::BTreeSet;

use redlatch_types::event::Event;
use redlatch_types::in_force::InForceV1;
use redlatch_types::records::{
    CANONICALIZATION_VERSION, GenesisV1, IndependenceSpecV1, KeyConfirmationV1, RosterV1,
    RosterVerifier, SovereignActionIntentV1,
};
use redlatch_types::sign::check_key;
use redlatch_types::{
    Bytes, Canonical, Digest, IntentDigest, KeyEpoch, PublicKey, Scope, SigningKey, VerifierId,
};

use crate::tally::Floors;

/// The quorum key in force: what a journaled activation says (D13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumKey {
    /// Its version.
    pub epoch: KeyEpoch,
    /// The group's Ed25519 key.
    pub group_key: PublicKey,
    /// Digest of the public key package.
    pub public_key_package_digest: Digest,
}

impl QuorumKey {
    /// The key that these confirmations activated. The caller read them from the journal.
    pub fn of(confirmation: &KeyConfirmationV1) -> QuorumKey {
        QuorumKey {
            epoch: confirmation.quorum_key_epoch,
            group_key: confirmation.group_key,
            public_key_package_digest: confirmation.public_key_package_digest,
        }
    }
}

/// The terms are no four distinct verifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTerms {
    /// Not exactly four verifiers with the identifiers 1 to 4 in order.
    #[error("the roster does not have four verifiers with identifiers 1 to 4")]
    Seats,
    /// One key stands in two places (FAULTS 43).
    #[error("one key stands for two verifiers or for the sentinel too")]
    RepeatedKey,
    /// One name stands in two places.
    #[error("one name stands for two verifiers")]
    RepeatedName,
    /// A key is no acceptable point (FAULTS 44).
    #[error("a key is not an acceptable Ed25519 key")]
    BadKey,
}

/// Roster, floors and keys in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    scope: Scope,
    roster: RosterV1,
    independence: IndependenceSpecV1,
    floors: Floors,
    constitution_digest: Digest,
    quorum_signature_required: bool,
    quorum_key: Option<QuorumKey>,
    last_key_epoch: KeyEpoch,
}

impl Terms {
    /// The terms of a genesis whose signature the caller has verified.
    ///
    /// # Errors
    /// [`BadTerms`] unless four distinct verifiers with distinct good keys stand in it.
    pub fn of_genesis(genesis: &GenesisV1) -> Result<Terms, BadTerms> {
        Terms::in_force(&InForceV1::of_genesis(genesis))
    }

    /// The terms of what is in force, as far as it is proven: roster, kernel, constitution, key.
    ///
    /// # Errors
    /// [`BadTerms`] as for [`Terms::of_genesis`].
    pub fn in_force(known: &InForceV1) -> Result<Terms, BadTerms> {
        check_verifiers(&known.roster)?;
        let independence = known.constitution.independence_spec.clone();
        let key = known.quorum_key.as_ref();
        Ok(Terms {
            scope: known.scope,
            roster: known.roster.clone(),
            floors: Floors::of(&known.kernel, &independence),
            independence,
            constitution_digest: known.constitution.digest(),
            quorum_signature_required: known.constitution.quorum_signature_required,
            quorum_key: key.map(|key| QuorumKey {
                epoch: key.epoch,
                group_key: key.group_key,
                public_key_package_digest: key.public_key_package_digest,
            }),
            last_key_epoch: known.last_key_epoch,
        })
    }

    /// Whether an intent was frozen under these terms. A vote on any other would name terms that
    /// do not hold for it.
    pub fn govern(&self, intent: &SovereignActionIntentV1) -> bool {
        intent.constitution_digest == self.constitution_digest
            && intent.independence_spec_digest == self.independence.digest()
            && intent.quorum_policy_digest == self.quorum_policy_digest()
    }

    /// The same terms with this quorum key in force.
    #[must_use]
    pub fn with_key(mut self, key: QuorumKey) -> Terms {
        self.last_key_epoch = self.last_key_epoch.max(key.epoch);
        self.quorum_key = Some(key);
        self
    }

    /// The same terms under a later roster of the same organism.
    ///
    /// # Errors
    /// [`BadTerms`] as for [`Terms::of_genesis`].
    pub fn with_roster(mut self, roster: RosterV1) -> Result<Terms, BadTerms> {
        check_verifiers(&roster)?;
        self.roster = roster;
        Ok(self)
    }

    /// Organism and organism epoch.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The roster in force.
    pub fn roster(&self) -> &RosterV1 {
        &self.roster
    }

    /// The independence rule in force.
    pub fn independence(&self) -> &IndependenceSpecV1 {
        &self.independence
    }

    /// How many must approve, from how many domains.
    pub fn floors(&self) -> Floors {
        self.floors
    }

    /// The quorum key in force.
    pub fn quorum_key(&self) -> Option<&QuorumKey> {
        self.quorum_key.as_ref()
    }

    /// The epoch that the quorum's next key will have: no epoch comes twice, though its key is void.
    pub fn next_key_epoch(&self) -> KeyEpoch {
        self.last_key_epoch.next()
    }

    /// `quorum_policy_digest` of SPEC C.20: the constitution's terms on quorum decisions.
    pub fn quorum_policy_digest(&self) -> Digest {
        let terms = (
            self.independence.quorum_threshold,
            self.independence.minimum_failure_domains,
            self.quorum_signature_required,
        );
        Digest::of(&terms.to_canonical())
    }

    /// The verifier with this FROST identifier.
    pub fn by_identifier(&self, identifier: u16) -> Option<&RosterVerifier> {
        self.roster
            .verifiers
            .iter()
            .find(|v| v.identifier == identifier)
    }
}

fn check_verifiers(roster: &RosterV1) -> Result<(), BadTerms> {
    let identifiers: Vec<u16> = roster.verifiers.iter().map(|v| v.identifier).collect();
    if identifiers != [1, 2, 3, 4] {
        return Err(BadTerms::Seats);
    }
    let mut keys: Vec<&PublicKey> = vec![&roster.sentinel.key];
    for verifier in &roster.verifiers {
        keys.extend([&verifier.vote_key, &verifier.witness_key]);
    }
    if keys.iter().any(|k| check_key(k).is_err()) {
        return Err(BadTerms::BadKey);
    }
    if keys.iter().collect::<BTreeSet<_>>().len() != keys.len() {
        return Err(BadTerms::RepeatedKey);
    }
    let names: BTreeSet<_> = roster.verifiers.iter().map(|v| &v.verifier_id).collect();
    (names.len() == roster.verifiers.len())
        .then_some(())
        .ok_or(BadTerms::RepeatedName)
}

/// One verifier's own seat and its vote key.
#[derive(Debug, Clone)]
pub struct OwnSeat {
    /// Its name in the roster.
    pub verifier_id: VerifierId,
    /// Its FROST identifier.
    pub identifier: u16,
    /// Signs votes, commitments, shares and ceremony messages.
    pub key: SigningKey,
}

impl OwnSeat {
    /// The seat whose vote key this is; `None` if the roster has none.
    pub fn find(terms: &Terms, key: SigningKey) -> Option<OwnSeat> {
        let found = terms.roster().verifier_by_vote_key(&key.public_key())?;
        Some(OwnSeat {
            verifier_id: found.verifier_id.clone(),
            identifier: found.identifier,
            key,
        })
    }
}

/// What a verified freeze receipt says (M1-I24): the bytes are durable, and this was the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreezeProof {
    intent_digest: IntentDigest,
    canonicalization_version: u64,
    state_time: u64,
}

impl FreezeProof {
    /// Reads the leaf of a receipt. The caller has verified that receipt under the trust
    /// policy's node group, for this organism's origin.
    ///
    /// # Errors
    /// [`NotAFreeze`] if the leaf is not a canonical `Frozen` event.
    pub fn of_verified_leaf(leaf: &[u8]) -> Result<FreezeProof, NotAFreeze> {
        match Event::from_canonical(leaf) {
            Ok(Event::Frozen(digest, state_time, intent, _)) => Ok(FreezeProof {
                intent_digest: digest,
                canonicalization_version: intent.intent_canonicalization_version,
                state_time,
            }),
            _ => Err(NotAFreeze),
        }
    }

    /// The intent.
    pub fn intent_digest(&self) -> IntentDigest {
        self.intent_digest
    }

    /// State time at freezing, in milliseconds.
    pub fn state_time(&self) -> u64 {
        self.state_time
    }
}

/// The leaf is no freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the leaf is not a Frozen event")]
pub struct NotAFreeze;

/// Why intent bytes and freeze proof do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FreezeMismatch {
    /// The bytes are not canonical.
    #[error("the intent's bytes are not canonical")]
    NotCanonical,
    /// The bytes hash to something else than what was frozen.
    #[error("the intent's bytes are not the frozen ones")]
    OtherBytes,
    /// Another canonicalization rule than this build's.
    #[error("the intent follows another canonicalization rule")]
    OtherRule,
}

/// Intent bytes that were re-hashed and found to be the frozen ones. [`FrozenIntent::check`] is
/// the only way to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenIntent {
    intent: SovereignActionIntentV1,
    bytes: Bytes,
    digest: IntentDigest,
    state_time: u64,
}

impl FrozenIntent {
    /// Re-hashes the intent's bytes and compares with what was frozen.
    ///
    /// # Errors
    /// [`FreezeMismatch`] if they are not canonical, not the frozen ones, or of another rule.
    pub fn check(proof: &FreezeProof, bytes: &[u8]) -> Result<FrozenIntent, FreezeMismatch> {
        let digest = IntentDigest(Digest::of(bytes));
        if digest != proof.intent_digest {
            return Err(FreezeMismatch::OtherBytes);
        }
        let intent = SovereignActionIntentV1::from_canonical(bytes)
            .map_err(|_| FreezeMismatch::NotCanonical)?;
        let rule = intent.intent_canonicalization_version;
        if rule != CANONICALIZATION_VERSION || rule != proof.canonicalization_version {
            return Err(FreezeMismatch::OtherRule);
        }
        Ok(FrozenIntent {
            intent,
            bytes: Bytes(bytes.to_vec()),
            digest,
            state_time: proof.state_time,
        })
    }

    /// The intent.
    pub fn intent(&self) -> &SovereignActionIntentV1 {
        &self.intent
    }

    /// Its canonical bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its digest.
    pub fn digest(&self) -> IntentDigest {
        self.digest
    }

    /// State time at freezing, in milliseconds.
    pub fn state_time(&self) -> u64 {
        self.state_time
    }
}
