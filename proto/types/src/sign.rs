//! Signatures: one verify function, one domain separation, one way to a [`Signed`] record.
//!
//! Signed is `"redlatch/v1/" || type || 0x00 || organism id || organism epoch || sha256(body)`
//! (DESIGN D6), so a signature says what kind of statement it is, for whom and since when, and
//! serves nowhere else (FAULTS 56). Ed25519 is checked strictly (DESIGN D5): S below the group
//! order, canonical A and R, no small-order point (FAULTS 44, 45). There is no batch
//! verification, because its acceptance differs.
//!
//! This module does not know whose key may sign what: that is state.

use std::fmt;

use curve25519_dalek::edwards::CompressedEdwardsY;
use ed25519_dalek::Signer as _;
use minicbor::{Decode, Encode};

use crate::bytes::{Bytes, Digest, PublicKey, Signature};
use crate::codec::{Canonical, NotCanonical};
use crate::ids::OrganismId;

/// The signature does not hold for this key and message under the strict rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not hold under strict Ed25519")]
pub struct BadSignature;

/// The bytes are no acceptable Ed25519 public key: no point, another spelling, or small order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an acceptable Ed25519 public key (no point, not canonical, or of small order)")]
pub struct BadKey;

/// The one Ed25519 verification of redlatch (DESIGN D5).
///
/// # Errors
/// [`BadSignature`] unless S < L, A and R are canonical points that are not of small order,
/// and the cofactorless equation holds.
pub fn verify(key: &PublicKey, message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
    check_point(&key.0).ok_or(BadSignature)?;
    let (r, _) = signature.0.split_first_chunk::<32>().ok_or(BadSignature)?;
    check_point(r).ok_or(BadSignature)?;
    let key = ed25519_dalek::VerifyingKey::from_bytes(&key.0).map_err(|_| BadSignature)?;
    key.verify_strict(message, &ed25519_dalek::Signature::from_bytes(&signature.0))
        .map_err(|_| BadSignature)
}

/// Checks that `key` may stand in a configuration, a roster or a registry (FAULTS 44).
///
/// # Errors
/// [`BadKey`] if it is no point, not canonical, or of small order.
pub fn check_key(key: &PublicKey) -> Result<(), BadKey> {
    check_point(&key.0).ok_or(BadKey)
}

/// `Some` if the bytes are the canonical encoding of a point that is not of small order.
/// `verify_strict` alone accepts other spellings of A and R.
fn check_point(bytes: &[u8; 32]) -> Option<()> {
    let point = CompressedEdwardsY(*bytes).decompress()?;
    (point.compress().0 == *bytes && !point.is_small_order()).then_some(())
}

/// A private key. Erased on drop; prints only its public half.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// The key of an RFC 8032 seed. The caller draws the seed from a cryptographic generator.
    pub fn from_seed(seed: [u8; 32]) -> SigningKey {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// The RFC 8032 seed, to be written to a protected file and nowhere else.
    pub fn seed(&self) -> zeroize::Zeroizing<[u8; 32]> {
        zeroize::Zeroizing::new(self.0.to_bytes())
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs `message` as it is (RFC 8032 §5.1.6). Records go through [`Envelope::seal`].
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

impl Clone for SigningKey {
    fn clone(&self) -> Self {
        SigningKey::from_seed(*self.seed())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public_key())
    }
}

/// A kind of record that can be signed.
pub trait Record: Canonical {
    /// The record's name inside the signed bytes; never used for another kind.
    const TYPE: &'static str;
}

/// For whom, and since when, a signature is meant (DESIGN D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Scope {
    /// The organism: SHA-256 of its genesis.
    #[n(0)]
    pub organism_id: OrganismId,
    /// Raised by restore, recover and RootAct; 1 at genesis.
    #[n(1)]
    pub organism_epoch: u64,
}

/// The exact bytes that a signature over a record of `record_type` covers (DESIGN D6).
pub fn preimage(record_type: &str, scope: &Scope, body_digest: &Digest) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96 + record_type.len());
    bytes.extend_from_slice(b"redlatch/v1/");
    bytes.extend_from_slice(record_type.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&scope.organism_id.0.0);
    bytes.extend_from_slice(&scope.organism_epoch.to_be_bytes());
    bytes.extend_from_slice(&body_digest.0);
    bytes
}

/// A signed record as it travels and as it is stored. The kind is known from where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Envelope {
    /// For whom and since when.
    #[n(0)]
    pub scope: Scope,
    /// Who signed.
    #[n(1)]
    pub key: PublicKey,
    /// Canonical bytes of the record, never re-encoded by a carrier.
    #[n(2)]
    pub body: Bytes,
    /// Signature over [`preimage`].
    #[n(3)]
    pub signature: Signature,
}

/// Why an [`Envelope`] is not a signed record of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The body is not the canonical encoding of the record.
    #[error("the record is not canonical: {0}")]
    NotCanonical(#[from] NotCanonical),
    /// The signature does not hold.
    #[error(transparent)]
    BadSignature(#[from] BadSignature),
}

impl Envelope {
    /// Signs `record` with `key` for `scope`.
    pub fn seal<T: Record>(scope: Scope, key: &SigningKey, record: &T) -> Envelope {
        let body = record.to_canonical();
        let signature = key.sign(&preimage(T::TYPE, &scope, &Digest::of(&body)));
        Envelope {
            scope,
            key: key.public_key(),
            body: Bytes(body),
            signature,
        }
    }

    /// SHA-256 of the body: the record's digest.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.body.0)
    }

    /// SHA-256 of the signed record as it travels and lies in files: by this an intent names its evidence.
    pub fn evidence_digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }

    /// Checks the signature, then decodes: the only way to a [`Signed`] record.
    ///
    /// # Errors
    /// [`OpenError`] if the signature does not hold for the named key or the body is not the
    /// canonical encoding of a `T`.
    pub fn open<T: Record>(&self) -> Result<Signed<T>, OpenError> {
        let digest = self.digest();
        verify(
            &self.key,
            &preimage(T::TYPE, &self.scope, &digest),
            &self.signature,
        )?;
        Ok(Signed {
            record: T::from_canonical(&self.body.0)?,
            envelope: self.clone(),
            digest,
        })
    }

    /// Checks only the signature, for records that are read leniently once they are authentic
    /// (a RED whose body this build cannot read still stops everything).
    ///
    /// # Errors
    /// [`BadSignature`] if the signature does not hold for `T`'s kind and the named key.
    pub fn open_leniently<T: Record>(&self) -> Result<SignedBytes, BadSignature> {
        let digest = self.digest();
        verify(
            &self.key,
            &preimage(T::TYPE, &self.scope, &digest),
            &self.signature,
        )?;
        Ok(SignedBytes(self.clone()))
    }
}

/// Proof that these bytes were signed as a record of the expected kind; they may not decode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SignedBytes(Envelope);

impl SignedBytes {
    /// The envelope: scope, key and bytes.
    pub fn envelope(&self) -> &Envelope {
        &self.0
    }
}

/// Proof that a record was signed by the key it names. Whether that key may sign is state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Signed<T> {
    record: T,
    envelope: Envelope,
    digest: Digest,
}

impl<T> Signed<T> {
    /// The record.
    pub fn record(&self) -> &T {
        &self.record
    }

    /// Who signed.
    pub fn key(&self) -> &PublicKey {
        &self.envelope.key
    }

    /// For whom and since when.
    pub fn scope(&self) -> &Scope {
        &self.envelope.scope
    }

    /// SHA-256 of the record's canonical bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The record as it travelled, to be kept in an event.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }
}

#[cfg(test)]
mod tests;
