//! Finds the product's binaries beside the test executable and refuses stale ones.
//!
//! The identity of a build is what the compiler wrote beside the binary: its dep-info, the list of
//! every source file that went into it. A binary is fresh if each of those files lies in *this*
//! checkout and none changed after the binary was linked. Two checkouts that share a target
//! directory can therefore not test each other's binaries.
//!
//! Nothing here builds: `make test` does that first.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The root of the checkout that this crate was built from.
pub fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("the test crate lies one folder below the root")
        .to_path_buf()
}

/// The product binary `name`, from the folder above the running test executable.
///
/// # Panics
/// With what to do, if the binary is missing or [`Stale`].
pub fn binary(name: &str) -> PathBuf {
    let executable = std::env::current_exe().expect("a running test has a path");
    let profile = executable
        .parent()
        .and_then(Path::parent)
        .expect("a test executable lies in <target>/<profile>/deps");
    let path = profile.join(name);
    let dep_info = std::fs::read_to_string(profile.join(format!("{name}.d"))).ok();
    if let Err(stale) = freshness(&path, dep_info.as_deref(), &repository(), &modified) {
        panic!(
            "{}: {stale}; build the binaries first: make build",
            path.display()
        );
    }
    path
}

/// Why a binary is not a build of this checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stale {
    /// There is no such binary.
    Missing,
    /// The compiler's list of sources is missing or names none.
    Unlisted,
    /// It was built from a source outside this checkout.
    Foreign(PathBuf),
    /// A source of it no longer exists.
    Gone(PathBuf),
    /// A source changed after the binary was linked.
    Older(PathBuf),
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stale::Missing => write!(f, "there is no such binary"),
            Stale::Unlisted => write!(f, "its dep-info (.d) is missing or empty"),
            Stale::Foreign(source) => {
                write!(f, "built from another checkout: {}", source.display())
            }
            Stale::Gone(source) => write!(f, "a source is gone: {}", source.display()),
            Stale::Older(source) => write!(f, "older than its source {}", source.display()),
        }
    }
}

/// Checks one binary against its dep-info. `modified` answers a file's time of change, `None` if
/// there is no such file.
pub fn freshness(
    binary: &Path,
    dep_info: Option<&str>,
    root: &Path,
    modified: &dyn Fn(&Path) -> Option<SystemTime>,
) -> Result<(), Stale> {
    let linked = modified(binary).ok_or(Stale::Missing)?;
    let sources = dep_info.map(listed_sources).unwrap_or_default();
    if sources.is_empty() {
        return Err(Stale::Unlisted);
    }
    for source in sources {
        // Generated code lies in the target directory and follows from the listed sources.
        let generated = source.components().any(|part| part.as_os_str() == "out");
        if generated && !source.starts_with(root) {
            continue;
        }
        if !source.starts_with(root) {
            return Err(Stale::Foreign(source));
        }
        match modified(&source) {
            None => return Err(Stale::Gone(source)),
            Some(changed) if changed > linked => return Err(Stale::Older(source)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The right-hand side of a dep-info line; a space inside a path is written `\ `.
fn listed_sources(dep_info: &str) -> Vec<PathBuf> {
    let Some((_, list)) = dep_info
        .lines()
        .next()
        .and_then(|line| line.split_once(": "))
    else {
        return Vec::new();
    };
    list.replace("\\ ", "\0")
        .split_whitespace()
        .map(|path| PathBuf::from(path.replace('\0', " ")))
        .collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|it| it.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A world with one binary linked at second 10 and the given sources.
    fn judge(dep_info: Option<&str>, files: &[(&str, u64)]) -> Result<(), Stale> {
        let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let modified = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, second)| at(*second))
        };
        freshness(
            Path::new("/t/node"),
            dep_info,
            Path::new("/repo"),
            &modified,
        )
    }

    #[test]
    fn a_binary_newer_than_all_its_sources_is_fresh() {
        let dep_info = "/t/node: /repo/a.rs /repo/b\\ c.rs /t/build/x/out/gen.rs\n";
        let files = [("/t/node", 10), ("/repo/a.rs", 9), ("/repo/b c.rs", 10)];
        assert_eq!(judge(Some(dep_info), &files), Ok(()));
    }

    #[test]
    fn a_changed_source_makes_it_stale() {
        let files = [("/t/node", 10), ("/repo/a.rs", 11)];
        let stale = Stale::Older("/repo/a.rs".into());
        assert_eq!(judge(Some("/t/node: /repo/a.rs"), &files), Err(stale));
    }

    #[test]
    fn another_checkout_in_the_same_target_directory_is_refused() {
        let files = [("/t/node", 10), ("/clone/a.rs", 1)];
        let stale = Stale::Foreign("/clone/a.rs".into());
        assert_eq!(judge(Some("/t/node: /clone/a.rs"), &files), Err(stale));
    }

    #[test]
    fn missing_files_are_named() {
        assert_eq!(judge(None, &[]), Err(Stale::Missing));
        assert_eq!(judge(None, &[("/t/node", 10)]), Err(Stale::Unlisted));
        let gone = Stale::Gone("/repo/a.rs".into());
        assert_eq!(
            judge(Some("/t/node: /repo/a.rs"), &[("/t/node", 10)]),
            Err(gone)
        );
    }
}
