//! Folders for a test's processes, and waiting for what they do.
//!
//! Does not start, watch or stop processes: a test owns the children it starts.

use std::path::Path;
use std::time::Duration;

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(20);

/// A folder of one test. It is removed at the end, and kept and named if the test failed.
pub struct StateFolder {
    folder: Option<tempfile::TempDir>,
}

impl StateFolder {
    /// An empty folder whose name begins with `redlatch-<what>-`.
    pub fn new(what: &str) -> StateFolder {
        let folder = tempfile::Builder::new()
            .prefix(&format!("redlatch-{what}-"))
            .tempdir()
            .expect("the system's temporary folder is writable");
        StateFolder {
            folder: Some(folder),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        let folder = self.folder.as_ref();
        folder.expect("taken in drop only").path()
    }

    /// A fresh folder inside it, for one process.
    pub fn process(&self, name: &str) -> std::path::PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(&path).expect("the folder of this test is writable");
        path
    }
}

impl Drop for StateFolder {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("state kept in {}", folder.keep().display());
        }
    }
}

/// Waits until `probe` answers `Some`; the condition decides, the limit only ends a hung test.
///
/// # Panics
/// With `what` was waited for, once `limit` is over.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes are observed from outside, there is nothing to await"
)]
pub fn eventually<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let rounds = limit.as_millis() / POLL.as_millis();
    for _ in 0..=rounds {
        if let Some(answer) = probe() {
            return answer;
        }
        std::thread::sleep(POLL);
    }
    panic!("{what}: not within {limit:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_is_gone_after_use_and_kept_after_a_failure() {
        let used = StateFolder::new("gone");
        let path = used.process("node-1");
        assert!(path.is_dir());
        drop(used);
        assert!(!path.exists());

        let (send, receive) = std::sync::mpsc::channel();
        let failed = std::thread::spawn(move || {
            let folder = StateFolder::new("kept");
            send.send(folder.path().to_path_buf())
                .expect("received below");
            panic!("a test that fails");
        });
        assert!(failed.join().is_err());
        let kept = receive.recv().expect("sent above");
        assert!(kept.is_dir());
        std::fs::remove_dir_all(kept).expect("it is ours");
    }

    #[test]
    fn a_condition_is_waited_for() {
        let mut rounds = 0;
        let answer = eventually("third round", Duration::from_secs(5), || {
            rounds += 1;
            (rounds == 3).then_some(rounds)
        });
        assert_eq!(answer, 3);
    }

    #[test]
    #[should_panic(expected = "never true: not within")]
    fn a_condition_that_never_holds_ends_the_test() {
        eventually("never true", Duration::from_millis(40), || None::<()>);
    }
}
