//! Bytes of our records as values of the FROST library, and back. No state, no secrets.
//!
//! Points and scalars are decoded here and nowhere else, after every header, epoch and
//! signature has been compared.

use std::collections::BTreeMap;

use curve25519_dalek::Scalar;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use frost_ed25519::keys::{PublicKeyPackage, VerifyingShare};
use frost_ed25519::round1::{NonceCommitment, SigningCommitments};
use frost_ed25519::round2::SignatureShare;
use frost_ed25519::{CheaterDetection, Identifier, SigningPackage, VerifyingKey, aggregate_custom};
use redlatch_types::{Bytes, PublicKey, Signature};

use crate::messages::{NonceCommitmentV1, PublicKeyPackageV1, VerifyingShareV1};
use crate::tally::{MEMBERS, THRESHOLD};

/// The bytes are no point, no scalar or not of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bytes are not a valid element of the group")]
pub(crate) struct NotOfTheGroup;

impl From<frost_ed25519::Error> for NotOfTheGroup {
    fn from(_: frost_ed25519::Error) -> Self {
        NotOfTheGroup
    }
}

pub(crate) fn identifier(number: u16) -> Result<Identifier, NotOfTheGroup> {
    Ok(Identifier::try_from(number)?)
}

/// The member with this FROST identifier.
pub(crate) fn number(identifier: Identifier) -> Option<u16> {
    (1..=MEMBERS).find(|n| Identifier::try_from(*n) == Ok(identifier))
}

pub(crate) fn group_key(key: &VerifyingKey) -> Result<PublicKey, NotOfTheGroup> {
    let bytes = key.serialize()?;
    bytes.try_into().map(PublicKey).map_err(|_| NotOfTheGroup)
}

/// The public key package of our record: exactly the four members, threshold three.
pub(crate) fn public_key_package(
    record: &PublicKeyPackageV1,
) -> Result<PublicKeyPackage, NotOfTheGroup> {
    let numbers: Vec<u16> = record
        .verifying_shares
        .iter()
        .map(|s| s.identifier)
        .collect();
    if numbers != [1, 2, 3, 4] {
        return Err(NotOfTheGroup);
    }
    let mut shares = BTreeMap::new();
    for line in &record.verifying_shares {
        shares.insert(
            identifier(line.identifier)?,
            VerifyingShare::deserialize(&line.share.0)?,
        );
    }
    let key = VerifyingKey::deserialize(&record.group_key.0)?;
    Ok(PublicKeyPackage::new(shares, key, Some(THRESHOLD)))
}

/// The four public shares as lines of our record, ascending.
pub(crate) fn verifying_shares(
    package: &PublicKeyPackage,
) -> Result<Vec<VerifyingShareV1>, NotOfTheGroup> {
    let mut lines = Vec::new();
    for member in 1..=MEMBERS {
        let share = package
            .verifying_shares()
            .get(&identifier(member)?)
            .ok_or(NotOfTheGroup)?;
        lines.push(VerifyingShareV1 {
            identifier: member,
            share: Bytes(share.serialize()?),
        });
    }
    Ok(lines)
}

/// The four public shares as points of the curve.
pub(crate) fn points(
    record: &PublicKeyPackageV1,
) -> Result<BTreeMap<u16, EdwardsPoint>, NotOfTheGroup> {
    let point = |line: &VerifyingShareV1| {
        let bytes = CompressedEdwardsY::from_slice(&line.share.0).map_err(|_| NotOfTheGroup)?;
        let point = bytes.decompress().ok_or(NotOfTheGroup)?;
        Ok((line.identifier, point))
    };
    record.verifying_shares.iter().map(point).collect()
}

/// What three public shares make of the group key: Lagrange's interpolation at 0 (RFC 9591 §4.2), in the exponent.
pub(crate) fn combined_without(left_out: u16, shares: &BTreeMap<u16, EdwardsPoint>) -> PublicKey {
    let three = || shares.iter().filter(|(member, _)| **member != left_out);
    let sum: EdwardsPoint = three()
        .map(|(member, share)| {
            let others = three().filter(|(other, _)| *other != member);
            let coefficient: Scalar = others
                .map(|(other, _)| {
                    let (at, other) = (Scalar::from(*member), Scalar::from(*other));
                    other * (other - at).invert()
                })
                .product();
            share * coefficient
        })
        .sum();
    PublicKey(sum.compress().0)
}

/// The library's signing package over a message that the caller rebuilt itself.
pub(crate) fn signing_package(
    commitments: &[(u16, &NonceCommitmentV1)],
    message: &[u8],
) -> Result<SigningPackage, NotOfTheGroup> {
    let mut lines = BTreeMap::new();
    for (member, commitment) in commitments {
        let pair = SigningCommitments::new(
            NonceCommitment::deserialize(&commitment.hiding.0)?,
            NonceCommitment::deserialize(&commitment.binding.0)?,
        );
        lines.insert(identifier(*member)?, pair);
    }
    if lines.len() != usize::from(THRESHOLD) {
        return Err(NotOfTheGroup);
    }
    Ok(SigningPackage::new(lines, message))
}

/// Why three shares did not make a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AggregateFault {
    /// These members' shares are wrong.
    Culprits(Vec<u16>),
    /// The shares cannot be combined, and nobody can be named.
    Nobody,
}

/// Sums the shares, checks the sum, and names every member whose share is wrong.
pub(crate) fn aggregate(
    package: &SigningPackage,
    shares: &BTreeMap<u16, Bytes>,
    keys: &PublicKeyPackage,
) -> Result<Signature, AggregateFault> {
    let mut decoded = BTreeMap::new();
    for (member, bytes) in shares {
        let identifier = identifier(*member).map_err(|_| AggregateFault::Nobody)?;
        let share = SignatureShare::deserialize(&bytes.0)
            .map_err(|_| AggregateFault::Culprits(vec![*member]))?;
        decoded.insert(identifier, share);
    }
    let signature = aggregate_custom(package, &decoded, keys, CheaterDetection::AllCheaters)
        .map_err(|e| {
            let culprits: Vec<u16> = e.culprits().into_iter().filter_map(number).collect();
            if culprits.is_empty() {
                AggregateFault::Nobody
            } else {
                AggregateFault::Culprits(culprits)
            }
        })?;
    let bytes = signature.serialize().map_err(|_| AggregateFault::Nobody)?;
    bytes
        .try_into()
        .map(Signature)
        .map_err(|_| AggregateFault::Nobody)
}
