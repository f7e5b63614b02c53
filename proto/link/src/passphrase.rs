//! A passphrase as an operator hands it over: in a file of its own, or as a credential of the service manager.
//!
//! What it opens, and how it is stretched, is decided by whoever asks for it. It can be neither copied nor
//! printed, and it is erased from memory when it is dropped.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::exit::{ExitCode, Fails};
use crate::file::{self, FileError};
use crate::supervisor::{self, CREDENTIALS};

/// Shortest passphrase, in bytes: stretching makes a good one better and saves no bad one.
pub const PASSPHRASE_LEN_MIN: usize = 16;

/// Why there is no passphrase.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    /// The file cannot be read, or others can read it.
    #[error(transparent)]
    File(#[from] FileError),
    /// What was handed over is too short.
    #[error("{} holds fewer than {PASSPHRASE_LEN_MIN} bytes", path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
    },
    /// The service manager hands no credentials over.
    #[error("{CREDENTIALS} is not set: the service manager hands no credential over")]
    NoCredentials,
    /// A credential's name is a name in one folder.
    #[error("{name:?} is no name of a credential")]
    NotAName {
        /// What was given.
        name: String,
    },
}

impl Fails for PassphraseError {
    fn code(&self) -> ExitCode {
        match self {
            PassphraseError::File(error) => error.code(),
            _ => ExitCode::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            PassphraseError::File(error) => error.hint(),
            PassphraseError::TooShort { .. } => {
                Some("draw it: head -c 32 /dev/urandom | base64".into())
            }
            PassphraseError::NoCredentials => {
                Some("set LoadCredentialEncrypted= in the unit, or name a file".into())
            }
            PassphraseError::NotAName { .. } => None,
        }
    }
}

/// A passphrase. No `Clone`, `Debug` or serde.
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// A passphrase that is at hand. Whoever asks an operator for one reads it from where it is kept instead.
    pub fn new(bytes: Vec<u8>) -> Passphrase {
        Passphrase(Zeroizing::new(bytes))
    }

    /// Reads a file that its owner alone may read. One line end at its end does not count.
    ///
    /// # Errors
    /// [`PassphraseError::File`] or [`PassphraseError::TooShort`].
    pub fn read(path: &Path) -> Result<Passphrase, PassphraseError> {
        Passphrase::taken(file::read_private(path)?, path)
    }

    /// Reads a credential by its name. Who may read it is the service manager's to see to: it shows the one
    /// user by an access list, which a file's mode does not tell.
    ///
    /// # Errors
    /// [`PassphraseError`].
    pub fn of_credential(name: &str) -> Result<Passphrase, PassphraseError> {
        Passphrase::of_credential_in(supervisor::credentials().as_deref(), name)
    }

    fn of_credential_in(folder: Option<&Path>, name: &str) -> Result<Passphrase, PassphraseError> {
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        if !plain {
            return Err(PassphraseError::NotAName {
                name: name.to_owned(),
            });
        }
        let path = folder.ok_or(PassphraseError::NoCredentials)?.join(name);
        Passphrase::taken(Zeroizing::new(file::read_file(&path)?), &path)
    }

    fn taken(mut bytes: Zeroizing<Vec<u8>>, path: &Path) -> Result<Passphrase, PassphraseError> {
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.len() < PASSPHRASE_LEN_MIN {
            return Err(PassphraseError::TooShort {
                path: path.to_owned(),
            });
        }
        Ok(Passphrase(bytes))
    }

    /// Its bytes, for whoever stretches it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::file::Access;

    const TEXT: &[u8] = b"correct horse battery";

    #[test]
    fn a_file_is_read_without_its_line_end_if_it_is_private_and_long_enough() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("passphrase");
        let with_line_end = [TEXT, b"\n"].concat();
        file::create_file(&path, &with_line_end, Access::Private).expect("written");
        assert_eq!(Passphrase::read(&path).expect("read").bytes(), TEXT);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("opened up");
        let open = Passphrase::read(&path).err().expect("refused");
        assert!(matches!(
            open,
            PassphraseError::File(FileError::TooOpen { .. })
        ));

        let short = folder.path().join("short");
        file::create_file(&short, b"fifteen bytes..\n", Access::Private).expect("written");
        let refused = Passphrase::read(&short).err().expect("refused");
        assert!(matches!(refused, PassphraseError::TooShort { .. }));
    }

    #[test]
    fn a_credential_is_a_name_in_the_managers_folder() {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("share"), TEXT).expect("written");
        let read = |name| Passphrase::of_credential_in(Some(folder.path()), name);
        assert_eq!(read("share").expect("read").bytes(), TEXT);
        for name in ["", ".", "..", "../share", "/etc/hostname", "a/b"] {
            let refused = read(name).err().expect("refused");
            assert!(
                matches!(refused, PassphraseError::NotAName { .. }),
                "{name}"
            );
        }
        let none = Passphrase::of_credential_in(None, "share").err();
        assert!(matches!(none, Some(PassphraseError::NoCredentials)));
    }
}
