//! What a verifier keeps on disk, and the effects by which it asks for it.
//!
//! Order is data: effects are carried out one by one, and a [`VerifierEffect::Persist`] is durable
//! before the next one begins. Records are canonical CBOR and are only ever replaced whole.

use minicbor::{Decode, Encode};
use redlatch_types::records::SealSheetV1;
use redlatch_types::{
    Bytes, Canonical, Digest, Envelope, IntentDigest, KeyEpoch, OrganismId, PublicKey, VerifierId,
};
use zeroize::Zeroizing;

use crate::messages::CeremonyId;
use crate::verifier::Answer;

/// Counts the boots of a verifier. Written once per boot, before anything is said.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BootRecordV1 {
    /// The organism.
    #[n(0)]
    pub organism_id: OrganismId,
    /// The verifier.
    #[n(1)]
    pub verifier_id: VerifierId,
    /// Number of this boot, from 1.
    #[n(2)]
    pub generation: u64,
    /// Highest key epoch of which this store has ever held a share; 0 for none.
    #[n(3)]
    pub key_epoch: KeyEpoch,
}

/// One burned issue of commitments: their nonces may live only in the boot that names them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct IssueV1 {
    /// Boot in which the nonces live.
    #[n(0)]
    pub boot_generation: u64,
    /// Term of the coordinator that asked.
    #[n(1)]
    pub term: u64,
    /// Signed commitments as they were handed out.
    #[n(2)]
    pub commitments: Envelope,
}

/// One released share: for ever the only answer to its package.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReleasedV1 {
    /// The package.
    #[n(0)]
    pub package_digest: Digest,
    /// The signed share.
    #[n(1)]
    pub share: Envelope,
}

/// Everything a verifier remembers of one ballot, for ever.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BallotRecordV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Its canonical bytes.
    #[n(1)]
    pub intent: Bytes,
    /// State time at freezing.
    #[n(2)]
    pub frozen_at: u64,
    /// The one vote, signed.
    #[n(3)]
    pub vote: Envelope,
    /// Burned issues, ascending.
    #[n(4)]
    pub issues: Vec<IssueV1>,
    /// The one sheet it opened.
    #[n(5)]
    pub opened_sheet: Option<SealSheetV1>,
    /// Released shares.
    #[n(6)]
    pub released: Vec<ReleasedV1>,
}

/// A ceremony that this verifier began. Never resumed: its secrets were in memory (FAULTS 38).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CeremonyRecordV1 {
    /// Which.
    #[n(0)]
    pub ceremony: CeremonyId,
}

/// A share with the place where it is kept.
pub struct ShareRow {
    /// Version of the key.
    pub quorum_key_epoch: KeyEpoch,
    /// The group's key: shares of an epoch's failed ceremonies are kept beside it.
    pub group_key: PublicKey,
    /// Header and share, as [`crate::SealedShare::from_bytes`] reads them. Erased on drop.
    pub bytes: Zeroizing<Vec<u8>>,
}

/// One row of a verifier's store.
pub enum Row {
    /// The boot counter; one row.
    Boot(BootRecordV1),
    /// One ballot, by intent.
    Ballot(Box<BallotRecordV1>),
    /// One begun ceremony, by its id.
    Ceremony(CeremonyRecordV1),
    /// One key share, by epoch and group key.
    Share(ShareRow),
}

impl Row {
    /// First byte of the keys of ballots.
    pub const BALLOTS: u8 = b'v';
    /// First byte of the keys of ceremonies.
    pub const CEREMONIES: u8 = b'c';
    /// First byte of the keys of shares.
    pub const SHARES: u8 = b's';

    /// Key of the boot counter.
    pub fn boot_key() -> Vec<u8> {
        b"boot".to_vec()
    }

    /// Key of a ballot.
    pub fn ballot_key(intent: &IntentDigest) -> Vec<u8> {
        [&[Row::BALLOTS], &intent.0.0[..]].concat()
    }

    /// Key of a ceremony.
    pub fn ceremony_key(ceremony: &CeremonyId) -> Vec<u8> {
        let id = Digest::of(&ceremony.to_canonical());
        [&[Row::CEREMONIES], &id.0[..]].concat()
    }

    /// Key of a share; the keys of one epoch stand together.
    pub fn share_key(epoch: KeyEpoch, group_key: &PublicKey) -> Vec<u8> {
        [&[Row::SHARES], &epoch.0.to_be_bytes()[..], &group_key.0[..]].concat()
    }

    /// The key under which this row is written.
    pub fn key(&self) -> Vec<u8> {
        match self {
            Row::Boot(_) => Row::boot_key(),
            Row::Ballot(ballot) => Row::ballot_key(&ballot.intent_digest),
            Row::Ceremony(begun) => Row::ceremony_key(&begun.ceremony),
            Row::Share(share) => Row::share_key(share.quorum_key_epoch, &share.group_key),
        }
    }

    /// The value that replaces what stood there. Erased on drop, because it may be a share.
    pub fn value(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Row::Boot(boot) => Zeroizing::new(boot.to_canonical()),
            Row::Ballot(ballot) => Zeroizing::new(ballot.to_canonical()),
            Row::Ceremony(begun) => Zeroizing::new(begun.to_canonical()),
            Row::Share(share) => share.bytes.clone(),
        }
    }
}

/// What the driver does next, in order.
pub enum VerifierEffect {
    /// Write all rows in one transaction and sync. If that fails, the process ends: nothing
    /// after it may happen, and the machine is not used again.
    Persist(Vec<Row>),
    /// Answer the caller.
    Send(Answer),
}
