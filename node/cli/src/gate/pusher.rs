//! Which process may still move the ref after this hook let it: git receive-pack, found above the hook.
//!
//! As long as it lives, nobody can say that the ref will not move; once it is gone, nobody moves it any more
//! by that permission. Known by boot, pid namespace, pid and start time, so that no later process with the
//! same number is mistaken for it. A repository is served by one host.

use std::fs;

use minicbor::{Decode, Encode};
use redlatch_types::records::Text;

use super::core::settle::Pusher;

/// Most ancestors looked at.
const ANCESTORS_MAX: usize = 16;

/// A process, told apart from every other that ever ran here.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct PusherId {
    /// Of the running kernel.
    #[n(0)]
    boot: Text,
    /// Namespace that the number means something in.
    #[n(1)]
    namespace: Text,
    /// Process id.
    #[n(2)]
    pid: u64,
    /// Clock ticks between boot and its start.
    #[n(3)]
    started: u64,
}

impl PusherId {
    /// The git receive-pack that called this hook.
    pub(crate) fn of_this_hook() -> Option<PusherId> {
        let mut pid = u64::from(std::process::id());
        for _ in 0..ANCESTORS_MAX {
            let (parent, _) = stat(pid)?;
            if is_receive_pack(&fs::read(format!("/proc/{parent}/cmdline")).ok()?) {
                return PusherId::of(parent);
            }
            pid = parent;
        }
        None
    }

    fn of(pid: u64) -> Option<PusherId> {
        let (_, started) = stat(pid)?;
        Some(PusherId {
            boot: boot()?,
            namespace: namespace()?,
            pid,
            started,
        })
    }

    /// Whether it may still move the ref.
    pub(crate) fn liveness(&self) -> Pusher {
        let (Some(boot), Some(namespace)) = (boot(), namespace()) else {
            return Pusher::MayStillMove;
        };
        if boot != self.boot {
            return Pusher::Gone;
        }
        if namespace != self.namespace {
            return Pusher::MayStillMove;
        }
        match stat(self.pid) {
            Some((_, started)) if started == self.started => Pusher::MayStillMove,
            _ => Pusher::Gone,
        }
    }
}

fn boot() -> Option<Text> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Text::new(id.trim()).ok()
}

fn namespace() -> Option<Text> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Text::new(link.to_str()?).ok()
}

/// Parent and start time of a process that has not ended (proc_pid_stat(5)).
fn stat(pid: u64) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

/// The name in parentheses may itself hold blanks and parentheses.
fn parse_stat(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ended = matches!(*fields.first()?, "Z" | "X" | "x");
    let parent = fields.get(1)?.parse().ok()?;
    let started = fields.get(19)?.parse().ok()?;
    (!ended).then_some((parent, started))
}

fn is_receive_pack(cmdline: &[u8]) -> bool {
    let mut words = cmdline
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy);
    let Some(program) = words.next() else {
        return false;
    };
    match program.rsplit('/').next() {
        Some("git-receive-pack") => true,
        Some("git") => words.any(|word| word == "receive-pack"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_a_later_one_with_its_number_is_not() {
        let own = PusherId::of(u64::from(std::process::id())).expect("this process");
        assert_eq!(own.liveness(), Pusher::MayStillMove);
        let earlier = PusherId {
            started: own.started.wrapping_sub(1),
            ..own.clone()
        };
        assert_eq!(earlier.liveness(), Pusher::Gone);
        let rebooted = PusherId {
            boot: Text::lossy("another boot"),
            ..own.clone()
        };
        assert_eq!(rebooted.liveness(), Pusher::Gone);
        let elsewhere = PusherId {
            namespace: Text::lossy("pid:[1]"),
            ..own
        };
        assert_eq!(elsewhere.liveness(), Pusher::MayStillMove);
    }

    #[test]
    fn an_ended_process_is_gone() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let id = PusherId::of(u64::from(child.id())).expect("the child");
        assert_eq!(id.liveness(), Pusher::MayStillMove);
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(id.liveness(), Pusher::Gone);
    }

    #[test]
    fn stat_is_read_behind_the_last_parenthesis() {
        let tail = "S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        assert_eq!(parse_stat(&format!("5 (a) b) {tail}")), Some((7, 4711)));
        assert_eq!(
            parse_stat(&format!("5 (a) {}", tail.replace('S', "Z"))),
            None
        );
        assert_eq!(parse_stat("5 (a) S"), None);
    }

    #[test]
    fn receive_pack_is_known_by_its_command_line() {
        for yes in [
            &b"git-receive-pack\0/srv/repo.git\0"[..],
            b"/usr/lib/git-core/git\0receive-pack\0--stateless-rpc\0.\0",
        ] {
            assert!(is_receive_pack(yes));
        }
        for no in [
            &b"sh\0-c\0git-receive-pack '/srv'\0"[..],
            b"git\0push\0",
            b"",
        ] {
            assert!(!is_receive_pack(no));
        }
    }
}
