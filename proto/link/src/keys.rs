//! Ed25519 keys on disk: a PEM file with a PKCS#8 private key (RFC 8410), readable by its owner alone.
//!
//! The format is what `openssl genpkey -algorithm ed25519` writes. Keys never leave this module except as
//! [`SigningKey`]; what a key is allowed to sign is not decided here.

use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use rand_core::{CryptoRng, RngCore};
use redlatch_types::SigningKey;
use zeroize::Zeroizing;

use crate::exit::{ExitCode, Fails};
use crate::file::{self, Access, FileError};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written, or others can read it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file holds something else.
    #[error("{} is not an Ed25519 private key in PKCS#8 PEM form", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
}

impl Fails for KeyError {
    fn code(&self) -> ExitCode {
        match self {
            KeyError::File(error) => error.code(),
            KeyError::NotAKey { .. } => ExitCode::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            KeyError::File(error) => error.hint(),
            KeyError::NotAKey { .. } => {
                Some("a key begins with -----BEGIN PRIVATE KEY-----".into())
            }
        }
    }
}

/// Reads a key.
///
/// # Errors
/// [`KeyError::File`] if the file is missing or not private, [`KeyError::NotAKey`] if it holds something else.
pub fn load_key(path: &Path) -> Result<SigningKey, KeyError> {
    let refuse = || KeyError::NotAKey {
        path: path.to_owned(),
    };
    let bytes = file::read_private(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refuse())?;
    let key = ed25519_dalek::SigningKey::from_pkcs8_pem(text).map_err(|_| refuse())?;
    Ok(SigningKey::from_seed(*Zeroizing::new(key.to_bytes())))
}

/// Draws a key and writes it, durably, to a file that must not exist yet.
///
/// # Errors
/// [`KeyError::File`]; a key that exists is never overwritten.
pub fn create_key(
    path: &Path,
    rng: &mut (impl RngCore + CryptoRng),
) -> Result<SigningKey, KeyError> {
    let mut seed = Zeroizing::new([0u8; 32]);
    rng.fill_bytes(seed.as_mut_slice());
    store_key(path, &SigningKey::from_seed(*seed))?;
    Ok(SigningKey::from_seed(*seed))
}

/// Writes a key, durably, to a file that must not exist yet.
///
/// # Errors
/// [`KeyError::File`]; a key that exists is never overwritten.
pub fn store_key(path: &Path, key: &SigningKey) -> Result<(), KeyError> {
    let dalek = ed25519_dalek::SigningKey::from_bytes(&key.seed());
    let pem = dalek
        .to_pkcs8_pem(LineEnding::LF)
        .map_err(|_| KeyError::NotAKey {
            path: path.to_owned(),
        })?;
    Ok(file::create_file(path, pem.as_bytes(), Access::Private)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn a_key_survives_the_disk_and_is_never_overwritten() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("log.key");
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let key = create_key(&path, &mut rng).expect("created");
        assert_eq!(
            load_key(&path).expect("loaded").public_key(),
            key.public_key()
        );
        let again = create_key(&path, &mut rng).expect_err("exists");
        assert!(matches!(again, KeyError::File(FileError::Exists { .. })));
        assert_eq!(
            load_key(&path).expect("loaded").public_key(),
            key.public_key()
        );
    }

    #[test]
    fn a_readable_or_foreign_file_is_no_key() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("log.key");
        create_key(&path, &mut ChaCha20Rng::from_seed([4; 32])).expect("created");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("opened up");
        assert!(matches!(
            load_key(&path),
            Err(KeyError::File(FileError::TooOpen { .. }))
        ));
        let other = folder.path().join("other");
        file::replace_file(
            &other,
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            Access::Private,
        )
        .expect("written");
        assert!(matches!(load_key(&other), Err(KeyError::NotAKey { .. })));
    }
}
