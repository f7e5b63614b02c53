//! Key shares at rest: sealed under a key that only the operator's passphrase opens (ADR 0017).
//!
//! ```text
//!   passphrase ── Argon2id(salt, cost) ──▶ wrapping key ── opens ──▶ data key ── opens ──▶ each share
//!                 └──────── vault row, beside the shares ───────┘    XChaCha20-Poly1305 under the row's key
//! ```
//!
//! A share is bound to its organism, its verifier and its row, so that no row can be moved to another place.
//! The vault is made before the first boot is counted; a store with a boot and no vault is not one of ours.

use std::sync::{Mutex, PoisonError};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use minicbor::{Decode, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_link::passphrase::Passphrase;
use redlatch_types::{Bytes, Canonical, OrganismId, VerifierId};
use zeroize::{Zeroize, Zeroizing};

const SALT_LEN: usize = 32;
const NONCE_LEN: usize = 24;
const KEY_LEN: usize = 32;
/// What a vault on disk may ask for at most: more is no cost of ours.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 64;

/// What stretching a passphrase costs whoever tries one. Kept beside the salt, so that it may be raised for
/// vaults that are made later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StretchCost {
    /// Memory, in KiB.
    #[n(0)]
    pub memory_kib: u32,
    /// Passes over it.
    #[n(1)]
    pub passes: u32,
}

impl StretchCost {
    /// RFC 9106 §4, second recommendation, in one lane: 64 MiB, three passes.
    pub const STANDARD: StretchCost = StretchCost {
        memory_kib: 64 * 1024,
        passes: 3,
    };
}

/// Why the vault does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The data key does not open under this passphrase.
    #[error("the passphrase does not open the key shares of this verifier")]
    WrongPassphrase,
    /// What is kept is none of ours, or was altered.
    #[error("the vault of the key shares cannot be read")]
    Unreadable,
    /// Something is kept here, and the vault that must have come before it is gone.
    #[error("the store knows of earlier boots, and the vault of the key shares is gone")]
    Gone,
    /// A share does not open under the data key, or stands in another row than it was sealed for.
    #[error("a sealed key share was altered or moved")]
    Altered,
}

/// What is kept of the vault itself: one row.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct VaultV1 {
    #[n(0)]
    salt: Bytes,
    #[n(1)]
    cost: StretchCost,
    /// The data key, sealed under the stretched passphrase.
    #[n(2)]
    wrapped: Bytes,
}

/// What opens and seals the shares of one verifier. No `Clone`, `Debug` or serde.
pub(crate) struct Vault {
    data_key: Zeroizing<[u8; KEY_LEN]>,
    owner: Vec<u8>,
    rng: Mutex<ChaCha20Rng>,
}

impl Vault {
    /// A new vault, with the row that must be durable before anything is sealed in it.
    ///
    /// # Errors
    /// [`VaultError::Unreadable`] if the cost is none.
    pub(crate) fn create(
        passphrase: &Passphrase,
        cost: StretchCost,
        owner: (OrganismId, &VerifierId),
        mut rng: ChaCha20Rng,
    ) -> Result<(Vault, VaultV1), VaultError> {
        let mut salt = [0; SALT_LEN];
        rng.fill_bytes(&mut salt);
        let mut data_key = Zeroizing::new([0; KEY_LEN]);
        rng.fill_bytes(&mut data_key[..]);
        let owner = label(owner);
        let wrapping = stretch(passphrase, &salt, cost)?;
        let wrapped = seal(&wrapping, &owner, &data_key[..], &mut rng)?;
        let kept = VaultV1 {
            salt: Bytes(salt.to_vec()),
            cost,
            wrapped: Bytes(wrapped),
        };
        let rng = Mutex::new(rng);
        let vault = Vault {
            data_key,
            owner,
            rng,
        };
        Ok((vault, kept))
    }

    /// The vault that is kept.
    ///
    /// # Errors
    /// [`VaultError::WrongPassphrase`] or [`VaultError::Unreadable`].
    pub(crate) fn open(
        kept: &VaultV1,
        passphrase: &Passphrase,
        owner: (OrganismId, &VerifierId),
        rng: ChaCha20Rng,
    ) -> Result<Vault, VaultError> {
        let owner = label(owner);
        let wrapping = stretch(passphrase, &kept.salt.0, kept.cost)?;
        let opened = open(&wrapping, &owner, &kept.wrapped.0).ok_or(VaultError::WrongPassphrase)?;
        let mut data_key = Zeroizing::new([0; KEY_LEN]);
        if opened.len() != data_key.len() {
            return Err(VaultError::Unreadable);
        }
        data_key.copy_from_slice(&opened);
        let rng = Mutex::new(rng);
        Ok(Vault {
            data_key,
            owner,
            rng,
        })
    }

    /// Seals a share for the row in which it will stand.
    ///
    /// # Errors
    /// [`VaultError::Unreadable`] if it is longer than the cipher takes.
    pub(crate) fn seal(&self, row: &[u8], share: &[u8]) -> Result<Vec<u8>, VaultError> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        seal(&self.data_key, &self.place(row), share, &mut rng)
    }

    /// Opens the share that stands in a row.
    ///
    /// # Errors
    /// [`VaultError::Altered`].
    pub(crate) fn unseal(
        &self,
        row: &[u8],
        bytes: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        open(&self.data_key, &self.place(row), bytes).ok_or(VaultError::Altered)
    }

    fn place(&self, row: &[u8]) -> Vec<u8> {
        [&self.owner[..], row].concat()
    }
}

/// Whose shares these are: the same in every row, and of the same length for one verifier.
fn label((organism, verifier): (OrganismId, &VerifierId)) -> Vec<u8> {
    let owner = (organism, verifier.clone()).to_canonical();
    [&b"redlatch/v1/share-vault\0"[..], &owner].concat()
}

fn stretch(
    passphrase: &Passphrase,
    salt: &[u8],
    cost: StretchCost,
) -> Result<Zeroizing<[u8; KEY_LEN]>, VaultError> {
    if cost.memory_kib > MEMORY_KIB_MAX || cost.passes > PASSES_MAX {
        return Err(VaultError::Unreadable);
    }
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(KEY_LEN))
        .map_err(|_| VaultError::Unreadable)?;
    let mut memory = vec![Block::default(); params.block_count()];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut key = Zeroizing::new([0; KEY_LEN]);
    let stretched =
        argon2.hash_password_into_with_memory(passphrase.bytes(), salt, &mut key[..], &mut memory);
    memory.iter_mut().for_each(Zeroize::zeroize);
    stretched.map_err(|_| VaultError::Unreadable)?;
    Ok(key)
}

/// Nonce and ciphertext. A nonce of 24 random bytes never comes twice.
fn seal(
    key: &[u8; KEY_LEN],
    place: &[u8],
    plain: &[u8],
    rng: &mut ChaCha20Rng,
) -> Result<Vec<u8>, VaultError> {
    let mut nonce = [0; NONCE_LEN];
    rng.fill_bytes(&mut nonce);
    let payload = Payload {
        msg: plain,
        aad: place,
    };
    let sealed = XChaCha20Poly1305::new(key.into())
        .encrypt(XNonce::from_slice(&nonce), payload)
        .map_err(|_| VaultError::Unreadable)?;
    Ok([&nonce[..], &sealed].concat())
}

fn open(key: &[u8; KEY_LEN], place: &[u8], bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
    let payload = Payload {
        msg: sealed,
        aad: place,
    };
    let opened = XChaCha20Poly1305::new(key.into()).decrypt(XNonce::from_slice(nonce), payload);
    opened.ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;
    use redlatch_types::Digest;

    use super::*;

    const CHEAP: StretchCost = StretchCost {
        memory_kib: 8,
        passes: 1,
    };

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.into())
    }

    fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    fn organism() -> OrganismId {
        OrganismId(Digest([7; 32]))
    }

    fn made() -> (Vault, VaultV1) {
        let name = "va".parse().unwrap();
        Vault::create(&passphrase("one"), CHEAP, (organism(), &name), rng(1)).unwrap()
    }

    #[test]
    fn a_share_opens_under_the_passphrase_again_and_its_bytes_show_nothing() {
        let (vault, kept) = made();
        let share = [0xab; 64];
        let sealed = vault.seal(b"row", &share).unwrap();
        assert!(!sealed.windows(8).any(|bytes| bytes == &share[..8]));
        assert_ne!(sealed, vault.seal(b"row", &share).unwrap());
        let kept = VaultV1::from_canonical(&kept.to_canonical()).unwrap();
        let name = "va".parse().unwrap();
        let again = Vault::open(&kept, &passphrase("one"), (organism(), &name), rng(2)).unwrap();
        assert_eq!(again.unseal(b"row", &sealed).unwrap()[..], share);
    }

    #[test]
    fn another_passphrase_organism_or_verifier_opens_nothing() {
        let (_, kept) = made();
        let open = |text: &str, organism, name: &str| {
            let name = name.parse().unwrap();
            Vault::open(&kept, &passphrase(text), (organism, &name), rng(2)).err()
        };
        let wrong = Some(VaultError::WrongPassphrase);
        assert_eq!(open("one", organism(), "va"), None);
        assert_eq!(open("two", organism(), "va"), wrong);
        assert_eq!(open("one", OrganismId(Digest::ZERO), "va"), wrong);
        assert_eq!(open("one", organism(), "vb"), wrong);
    }

    #[test]
    fn fault_042_a_share_that_was_altered_or_moved_does_not_open() {
        let (vault, _) = made();
        let sealed = vault.seal(b"row", b"share").unwrap();
        let altered = Some(VaultError::Altered);
        assert_eq!(vault.unseal(b"another", &sealed).err(), altered);
        assert_eq!(vault.unseal(b"row", &sealed[..20]).err(), altered);
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert_eq!(vault.unseal(b"row", &flipped).err(), altered, "{at}");
        }
    }

    #[test]
    fn a_vault_that_asks_for_too_much_is_none() {
        let (_, kept) = made();
        for cost in [
            StretchCost {
                memory_kib: MEMORY_KIB_MAX + 1,
                ..CHEAP
            },
            StretchCost {
                passes: PASSES_MAX + 1,
                ..CHEAP
            },
            StretchCost { passes: 0, ..CHEAP },
        ] {
            let kept = VaultV1 {
                cost,
                ..kept.clone()
            };
            let name = "va".parse().unwrap();
            let opened = Vault::open(&kept, &passphrase("one"), (organism(), &name), rng(2));
            assert_eq!(opened.err(), Some(VaultError::Unreadable));
        }
    }
}
