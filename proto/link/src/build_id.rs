//! Which build is running: the digest of the executable itself.
//!
//! A test asks a running process for it and compares it with the file that it meant to start, so that a
//! stale binary is refused instead of tested.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

const CHUNK_BYTES: usize = 1 << 16;

/// SHA-256 of the running executable as lower-case hex; `unknown` if the system does not let it be read.
///
/// Computed once, when first asked for.
pub fn build_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    // Through /proc the bytes are those that run, even after the file was replaced by a newer build.
    ID.get_or_init(|| {
        build_id_of(Path::new("/proc/self/exe")).unwrap_or_else(|_| "unknown".to_owned())
    })
}

/// SHA-256 of an executable file as lower-case hex.
///
/// # Errors
/// What the system says when the file cannot be read.
pub fn build_id_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&chunk[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_build_is_the_file_it_was_started_from() {
        let path = std::env::current_exe().expect("this test's file");
        assert_eq!(build_id(), build_id_of(&path).expect("readable"));
        let other = build_id_of(Path::new("/dev/null")).expect("readable");
        assert_eq!(
            other,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_ne!(build_id(), other);
    }
}
