//! Word to the process's supervisor by the systemd protocol (sd_notify(3)), and where it hands credentials over.
//!
//! Without `NOTIFY_SOCKET` in the environment there is no supervisor and nothing is sent. A supervisor
//! that cannot be reached is no reason to stop, so failures are only returned.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::time::Duration;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Start-up is complete.
    Ready,
    /// Shutdown has begun.
    Stopping,
    /// Still alive; due at least every [`watchdog_interval`].
    Watchdog,
}

impl Word {
    const fn text(self) -> &'static str {
        match self {
            Word::Ready => "READY=1",
            Word::Stopping => "STOPPING=1",
            Word::Watchdog => "WATCHDOG=1",
        }
    }
}

/// Names the folder of credentials (`LoadCredential=`, `LoadCredentialEncrypted=` of a unit).
pub(crate) const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// The folder in which the supervisor hands credentials over, if it does.
pub fn credentials() -> Option<PathBuf> {
    std::env::var_os(CREDENTIALS).map(PathBuf::from)
}

/// Tells the supervisor, if there is one.
///
/// # Errors
/// What the system says when the supervisor's socket cannot be written to.
pub fn tell(word: Word) -> io::Result<()> {
    match std::env::var("NOTIFY_SOCKET") {
        Ok(socket) => tell_to(&socket, word),
        Err(_) => Ok(()),
    }
}

/// Tells the supervisor behind a socket: a path, or an abstract name after `@`.
fn tell_to(socket: &str, word: Word) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(word.text().as_bytes(), &address)
        .map(drop)
}

/// How often [`Word::Watchdog`] is to be sent: half of what the supervisor allows; none if it does not watch.
pub fn watchdog_interval() -> Option<Duration> {
    let allowed: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (allowed > 0).then(|| Duration::from_micros(allowed / 2))
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_hears_each_word() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("notify");
        let supervisor = UnixDatagram::bind(&path).expect("bound");
        let mut heard = [0; 32];
        for (word, text) in [
            (Word::Ready, "READY=1"),
            (Word::Watchdog, "WATCHDOG=1"),
            (Word::Stopping, "STOPPING=1"),
        ] {
            tell_to(path.to_str().expect("text"), word).expect("sent");
            let len = supervisor.recv(&mut heard).expect("received");
            assert_eq!(&heard[..len], text.as_bytes());
        }
    }

    #[test]
    fn no_supervisor_is_no_failure_and_a_dead_one_only_an_error() {
        assert!(std::env::var_os("NOTIFY_SOCKET").is_some() || tell(Word::Ready).is_ok());
        assert!(tell_to("/nowhere/notify", Word::Ready).is_err());
    }
}
