//! The key share: sealed until its key is journaled, kept with a header, erased on drop.
//!
//! ```text
//!  magic ‖ suite ‖ organism ‖ group key hash ‖ epochs ‖ id ‖ group key ‖ transcript ‖ public shares ‖ share ‖ sum
//! ```
//!
//! Every header field is compared before any arithmetic (FAULTS 42). A [`SealedShare`] cannot
//! sign; only [`SealedShare::activate`], which wants the journaled key, makes a [`KeyShare`]
//! (FAULTS 38). Neither has `Clone`, `Debug` or serde.

use frost_ed25519::keys::{KeyPackage, SigningShare, VerifyingShare};
use redlatch_types::records::KeyConfirmationV1;
use redlatch_types::{Bytes, Digest, Envelope, KeyEpoch, OrganismId, PublicKey, RosterEpoch};
use zeroize::Zeroizing;

use crate::group;
use crate::messages::{PublicKeyPackageV1, VerifyingShareV1};
use crate::tally::{MEMBERS, THRESHOLD};
use crate::terms::{OwnSeat, QuorumKey, Terms};

const MAGIC: &[u8; 8] = b"RLQSHARE";
const SUITE: &[u8; 23] = b"FROST-ED25519-SHA512-v1";
const HEADER_LEN: usize = 8 + 23 + 32 + 32 + 8 + 8 + 2;
const LEN: usize = HEADER_LEN + 32 + 32 + 4 * 32 + 32 + 32;

/// Why bytes are not the share that is wanted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// No share of this build.
    #[error("not a key share of this build (magic, length or checksum)")]
    NotAShare,
    /// A share of another ciphersuite.
    #[error("a share of another ciphersuite")]
    OtherSuite,
    /// A share of another organism.
    #[error("a share of another organism")]
    OtherOrganism,
    /// Another member's share.
    #[error("another member's share")]
    OtherMember,
    /// A share of another key epoch: void (D13).
    #[error("a share of another key epoch")]
    StaleEpoch,
    /// A share of another group, or of a ceremony that was not activated.
    #[error("a share of another group key")]
    OtherGroup,
    /// Header and share contradict each other.
    #[error("the share does not fit its own public share")]
    Contradiction,
    /// Three of the four could not sign for the group: the key would hang on the one that is left out.
    #[error("the shares without member {0}'s do not make the group key")]
    Subset(u16),
}

/// A share whose key is not known to be in force. It can be stored and it can wait.
pub struct SealedShare {
    organism_id: OrganismId,
    identifier: u16,
    roster_epoch: RosterEpoch,
    transcript_digest: Digest,
    public: PublicKeyPackageV1,
    secret: Zeroizing<[u8; 32]>,
}

impl SealedShare {
    pub(crate) fn of_ceremony(
        organism_id: OrganismId,
        identifier: u16,
        roster_epoch: RosterEpoch,
        transcript_digest: Digest,
        public: PublicKeyPackageV1,
        package: &KeyPackage,
    ) -> Result<SealedShare, ShareError> {
        let bytes = Zeroizing::new(package.signing_share().serialize());
        let mut secret = Zeroizing::new([0; 32]);
        if bytes.len() != secret.len() {
            return Err(ShareError::Contradiction);
        }
        secret.copy_from_slice(&bytes);
        Ok(SealedShare {
            organism_id,
            identifier,
            roster_epoch,
            transcript_digest,
            public,
            secret,
        })
    }

    /// Version of the key that the share belongs to.
    pub fn epoch(&self) -> KeyEpoch {
        self.public.quorum_key_epoch
    }

    /// The group's key.
    pub fn group_key(&self) -> PublicKey {
        self.public.group_key
    }

    /// Digest of the ceremony.
    pub fn transcript_digest(&self) -> Digest {
        self.transcript_digest
    }

    /// The public key package, for whoever aggregates.
    pub fn public(&self) -> &PublicKeyPackageV1 {
        &self.public
    }

    /// Roster under which the ceremony was held.
    pub fn roster_epoch(&self) -> RosterEpoch {
        self.roster_epoch
    }

    /// Tests the share before its member says that it has it: it fits its own public share, and every three of the four
    /// public shares make the group key. With the same test passed by the three others over the same public shares,
    /// every three of the secret ones sign for the group.
    ///
    /// # Errors
    /// [`ShareError::Contradiction`], or [`ShareError::Subset`] with the member that would be indispensable.
    pub fn self_test(&self) -> Result<(), ShareError> {
        self.open()?;
        let shares = group::points(&self.public).map_err(|_| ShareError::Contradiction)?;
        for left_out in 1..=MEMBERS {
            if group::combined_without(left_out, &shares) != self.public.group_key {
                return Err(ShareError::Subset(left_out));
            }
        }
        Ok(())
    }

    /// This member's signed confirmation of the ceremony; the same after a restart.
    ///
    /// # Errors
    /// As [`SealedShare::self_test`]: nothing is confirmed that would not sign.
    pub fn confirm(&self, terms: &Terms, seat: &OwnSeat) -> Result<Envelope, ShareError> {
        self.self_test()?;
        let confirmation = KeyConfirmationV1 {
            verifier_id: seat.verifier_id.clone(),
            quorum_key_epoch: self.epoch(),
            roster_epoch: self.roster_epoch,
            transcript_digest: self.transcript_digest,
            group_key: self.group_key(),
            public_key_package_digest: self.public.digest(),
        };
        Ok(Envelope::seal(terms.scope(), &seat.key, &confirmation))
    }

    /// The bytes for the store. Erased on drop.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(LEN));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(SUITE);
        bytes.extend_from_slice(&self.organism_id.0.0);
        bytes.extend_from_slice(&Digest::of(&self.public.group_key.0).0);
        bytes.extend_from_slice(&self.public.quorum_key_epoch.0.to_be_bytes());
        bytes.extend_from_slice(&self.roster_epoch.0.to_be_bytes());
        bytes.extend_from_slice(&self.identifier.to_be_bytes());
        bytes.extend_from_slice(&self.public.group_key.0);
        bytes.extend_from_slice(&self.transcript_digest.0);
        for line in &self.public.verifying_shares {
            bytes.extend_from_slice(&line.share.0);
        }
        bytes.extend_from_slice(&self.secret[..]);
        let sum = Digest::of(&bytes);
        bytes.extend_from_slice(&sum.0);
        bytes
    }

    /// Reads a share of this member of this organism.
    ///
    /// # Errors
    /// [`ShareError`] names the first field that does not fit; no arithmetic is done before.
    pub fn from_bytes(
        bytes: &[u8],
        organism_id: OrganismId,
        identifier: u16,
    ) -> Result<SealedShare, ShareError> {
        let mut reader = Reader(bytes);
        if reader.take::<8>()? != *MAGIC {
            return Err(ShareError::NotAShare);
        }
        if reader.take::<23>()? != *SUITE {
            return Err(ShareError::OtherSuite);
        }
        let sum_at = LEN - 32;
        if bytes.len() != LEN || bytes[sum_at..] != Digest::of(&bytes[..sum_at]).0 {
            return Err(ShareError::NotAShare);
        }
        if reader.take::<32>()? != organism_id.0.0 {
            return Err(ShareError::OtherOrganism);
        }
        let group_key_hash = reader.take::<32>()?;
        let quorum_key_epoch = KeyEpoch(u64::from_be_bytes(reader.take()?));
        let roster_epoch = RosterEpoch(u64::from_be_bytes(reader.take()?));
        if u16::from_be_bytes(reader.take()?) != identifier {
            return Err(ShareError::OtherMember);
        }
        let group_key = PublicKey(reader.take()?);
        if group_key_hash != Digest::of(&group_key.0).0 {
            return Err(ShareError::OtherGroup);
        }
        let transcript_digest = Digest(reader.take()?);
        let mut verifying_shares = Vec::new();
        for member in 1..=MEMBERS {
            verifying_shares.push(VerifyingShareV1 {
                identifier: member,
                share: Bytes(reader.take::<32>()?.to_vec()),
            });
        }
        Ok(SealedShare {
            organism_id,
            identifier,
            roster_epoch,
            transcript_digest,
            public: PublicKeyPackageV1 {
                quorum_key_epoch,
                group_key,
                verifying_shares,
            },
            secret: Zeroizing::new(reader.take()?),
        })
    }

    /// Opens the share for signing, once the journal holds the activation of exactly its key.
    ///
    /// # Errors
    /// [`ShareError::StaleEpoch`] or [`ShareError::OtherGroup`] if another key is in force (the
    /// share stays in the store); [`ShareError::Contradiction`] if it does not fit itself.
    pub fn activate(&self, key: &QuorumKey) -> Result<KeyShare, ShareError> {
        if self.public.quorum_key_epoch != key.epoch {
            return Err(ShareError::StaleEpoch);
        }
        if self.public.group_key != key.group_key
            || self.public.digest() != key.public_key_package_digest
        {
            return Err(ShareError::OtherGroup);
        }
        Ok(KeyShare {
            epoch: key.epoch,
            public: self.public.clone(),
            package: self.open()?,
        })
    }

    /// The share as the library takes it, if it fits its own public share.
    fn open(&self) -> Result<KeyPackage, ShareError> {
        let keys =
            group::public_key_package(&self.public).map_err(|_| ShareError::Contradiction)?;
        let identifier =
            group::identifier(self.identifier).map_err(|_| ShareError::Contradiction)?;
        let secret =
            SigningShare::deserialize(&self.secret[..]).map_err(|_| ShareError::Contradiction)?;
        let own = VerifyingShare::from(secret);
        if keys.verifying_shares().get(&identifier) != Some(&own) {
            return Err(ShareError::Contradiction);
        }
        let group = *keys.verifying_key();
        Ok(KeyPackage::new(identifier, secret, own, group, THRESHOLD))
    }
}

/// A share of the key in force. It signs, and it can be neither copied nor printed.
pub struct KeyShare {
    epoch: KeyEpoch,
    public: PublicKeyPackageV1,
    package: KeyPackage,
}

impl KeyShare {
    /// Version of the key.
    pub fn epoch(&self) -> KeyEpoch {
        self.epoch
    }

    /// The public key package.
    pub fn public(&self) -> &PublicKeyPackageV1 {
        &self.public
    }

    pub(crate) fn package(&self) -> &KeyPackage {
        &self.package
    }
}

/// Cuts fixed pieces from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ShareError> {
        let (piece, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(ShareError::NotAShare)?;
        self.0 = rest;
        Ok(*piece)
    }
}
