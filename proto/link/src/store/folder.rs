//! A process's data folder, held by one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::StoreError;
use crate::file::{self, FileError};

const LOCK: &str = "LOCK";

/// An exclusively held folder. The hold ends when this is dropped or the process dies, however it dies.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if there is none (for its owner alone) and takes hold of it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the holder's process id, or [`StoreError::Folder`].
    pub fn open(path: &Path) -> Result<DataFolder, StoreError> {
        file::create_private_folder(path)?;
        let lock = path.join(LOCK);
        let refuse = |source| FileError::Io {
            verb: "lock",
            path: lock.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock)
            .map_err(refuse)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(StoreError::Locked {
                    path: path.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(refuse(error).into()),
        }
        // Who holds it is a courtesy to the reader of an error, not part of the lock.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(DataFolder {
            path: path.to_owned(),
            _lock: file,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{ExitCode, Fails};

    #[test]
    fn a_second_holder_is_refused_by_name_until_the_first_lets_go() {
        let parent = tempfile::tempdir().expect("folder");
        let path = parent.path().join("a/b");
        let first = DataFolder::open(&path).expect("held");
        let refused = DataFolder::open(&path).expect_err("held by the first");
        assert_eq!(refused.code(), ExitCode::Unavailable);
        let expected = format!(
            "{} is in use by another process (process {})",
            path.display(),
            std::process::id()
        );
        assert_eq!(refused.to_string(), expected);
        drop(first);
        assert_eq!(DataFolder::open(&path).expect("free again").path(), path);
    }
}
