//! Files that must survive power loss: replaced whole or not at all, and private ones kept private.
//!
//! [`replace_file`] is the only way this product replaces a file (FAULTS 11): temporary file beside the
//! target, fsync, rename, fsync of the folder. When it returns, the new bytes are what a restart finds.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::exit::{ExitCode, Fails};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody may read it (mode 0644).
    Public,
    /// Its owner alone (mode 0600).
    Private,
}

impl Access {
    const fn mode(self) -> u32 {
        match self {
            Access::Public => 0o644,
            Access::Private => 0o600,
        }
    }
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is one already, and it is not to be replaced.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A private file that others can read.
    #[error("{} can be read by others (mode {mode:04o})", path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The system refused.
    #[error("cannot {verb} {}", path.display())]
    Io {
        /// What was being done.
        verb: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::NotFound if verb == "read" => FileError::Missing { path },
            _ => FileError::Io { verb, path, source },
        }
    }
}

impl Fails for FileError {
    fn code(&self) -> ExitCode {
        match self {
            FileError::Missing { .. } | FileError::TooOpen { .. } => ExitCode::Usage,
            FileError::Exists { .. } | FileError::Io { .. } => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            FileError::TooOpen { path, .. } => Some(format!("chmod 600 {}", path.display())),
            FileError::Exists { .. } => Some("move it away first if it is to be made anew".into()),
            FileError::Missing { .. } | FileError::Io { .. } => None,
        }
    }
}

/// Replaces or creates a file, durably and whole.
///
/// # Errors
/// [`FileError::Io`]; the file is then either as it was or new, never in between.
pub fn replace_file(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    let staged = stage(path, bytes, access)?;
    fs::rename(&staged, path).map_err(FileError::io("rename into", path))?;
    sync_folder(path)
}

/// Creates a file, durably and whole, if there is none.
///
/// # Errors
/// [`FileError::Exists`] without a change, or [`FileError::Io`].
pub fn create_file(path: &Path, bytes: &[u8], access: Access) -> Result<(), FileError> {
    let staged = stage(path, bytes, access)?;
    // A hard link, unlike a rename, refuses a name that is taken.
    let linked = fs::hard_link(&staged, path);
    let _ = fs::remove_file(&staged);
    match linked {
        Ok(()) => sync_folder(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FileError::Exists {
            path: path.to_owned(),
        }),
        Err(error) => Err(FileError::io("create", path)(error)),
    }
}

/// Writes and syncs the temporary file beside `path`.
fn stage(path: &Path, bytes: &[u8], access: Access) -> Result<PathBuf, FileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let staged = path.with_file_name(name);
    // A process of the same id that was killed here left one behind, perhaps with other permissions.
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError::io("remove", &staged)(error));
        }
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(access.mode())
        .open(&staged)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(|error| {
        let _ = fs::remove_file(&staged);
        FileError::io("write", &staged)(error)
    })?;
    Ok(staged)
}

/// The path of the file with `ending` appended to its name: `a.one` and `a.two` stay apart.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Makes the name of a file as durable as its bytes.
///
/// # Errors
/// [`FileError::Io`].
pub fn sync_folder(path: &Path) -> Result<(), FileError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(FileError::io("sync", folder))
}

/// Reads a file.
///
/// # Errors
/// [`FileError::Missing`] or [`FileError::Io`].
pub fn read_file(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(FileError::io("read", path))
}

/// Reads a file that only its owner may read; the bytes are erased from memory when dropped.
///
/// # Errors
/// [`FileError::TooOpen`] if group or others have any permission, [`FileError::Missing`], [`FileError::Io`].
pub fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let mut file = File::open(path).map_err(FileError::io("read", path))?;
    // Asked of the open file, so that a swap of the name in between changes nothing.
    let metadata = file.metadata().map_err(FileError::io("read", path))?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(FileError::TooOpen {
            path: path.to_owned(),
            mode,
        });
    }
    // Room for all of it at once: growing would leave copies behind that nobody erases.
    let room = usize::try_from(metadata.size())
        .unwrap_or(0)
        .saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.read_to_end(&mut bytes)
        .map_err(FileError::io("read", path))?;
    Ok(bytes)
}

/// Makes a folder, and those above it, for its owner alone.
///
/// # Errors
/// [`FileError::Io`].
pub fn create_private_folder(path: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(FileError::io("create", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("readable");
        entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .into_string()
                    .expect("name")
            })
            .collect()
    }

    #[test]
    fn fault_011_a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("epoch");
        for bytes in [&b"one"[..], b"three"] {
            replace_file(&path, bytes, Access::Private).expect("replaced");
            assert_eq!(fs::read(&path).expect("read"), bytes);
        }
        assert_eq!(mode(&path), 0o600);
        assert_eq!(names(folder.path()), ["epoch"]);
    }

    #[test]
    fn fault_011_a_leftover_of_a_killed_process_is_not_trusted() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        let left = folder
            .path()
            .join(format!("key.{}.new", std::process::id()));
        fs::write(&left, "half").expect("written");
        fs::set_permissions(&left, fs::Permissions::from_mode(0o666)).expect("opened up");
        replace_file(&path, b"whole", Access::Private).expect("replaced");
        assert_eq!(
            (fs::read(&path).expect("read"), mode(&path)),
            (b"whole".to_vec(), 0o600)
        );
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("taken");
        fs::create_dir(&path).expect("a folder stands in the way");
        assert!(matches!(
            replace_file(&path, b"x", Access::Public),
            Err(FileError::Io { .. })
        ));
        assert!(path.is_dir());
    }

    #[test]
    fn create_refuses_what_exists() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        create_file(&path, b"first", Access::Private).expect("created");
        assert!(matches!(
            create_file(&path, b"second", Access::Private),
            Err(FileError::Exists { .. })
        ));
        assert_eq!(fs::read(&path).expect("read"), b"first");
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn a_private_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        replace_file(&path, b"secret", Access::Private).expect("written");
        assert_eq!(read_private(&path).expect("private").as_slice(), b"secret");
        for open in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).expect("changed");
            assert!(
                matches!(read_private(&path), Err(FileError::TooOpen { mode, .. }) if mode == open),
                "{open:o}"
            );
        }
        assert!(matches!(
            read_private(&folder.path().join("no")),
            Err(FileError::Missing { .. })
        ));
    }
}
