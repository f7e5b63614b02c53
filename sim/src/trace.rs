//! The trace of a run: one line per event, equal byte for byte for equal seeds.
//!
//! It holds what happened in simulated time and nothing of the machine that ran it: no wall clock, no
//! address, no order of a hash map. It judges nothing.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redlatch_types::Digest;

/// Where lines go. Clones write to the same trace.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    text: String,
    count: u64,
    is_shown: bool,
}

/// Who a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The world itself: faults, steps, judgements.
    World,
    /// A node of the cluster.
    Node(u64),
    /// A simulated client.
    Client(u64),
    /// The sentinel's deliveries.
    Sentinel,
    /// Any other process, by its name.
    Party(&'static str),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::World => f.write_str("world"),
            Who::Node(id) => write!(f, "n{id}"),
            Who::Client(id) => write!(f, "c{id}"),
            Who::Sentinel => f.write_str("sentinel"),
            Who::Party(name) => f.write_str(name),
        }
    }
}

impl Trace {
    /// A trace that is also printed as it grows.
    pub fn shown() -> Trace {
        let trace = Trace::default();
        trace.lock().is_shown = true;
        trace
    }

    /// Adds a line: microseconds of simulated time, who, what.
    pub fn add(&self, at_us: u64, who: Who, what: impl fmt::Display) {
        use fmt::Write;
        let mut lines = self.lock();
        let begin = lines.text.len();
        // Writing to a String cannot fail.
        let _ = writeln!(lines.text, "{at_us:>12} {who} {what}");
        lines.count += 1;
        if lines.is_shown {
            print!("{}", &lines.text[begin..]);
        }
    }

    /// How many lines there are.
    pub fn len(&self) -> u64 {
        self.lock().count
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SHA-256 of the text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.lock().text.as_bytes())
    }

    /// The text so far.
    pub fn text(&self) -> String {
        self.lock().text.clone()
    }

    /// The last lines, for a report.
    pub fn tail(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // Plain text: a panic elsewhere leaves it readable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_order_and_make_one_digest() {
        let (one, other) = (Trace::default(), Trace::default());
        for trace in [&one, &other] {
            trace.add(7, Who::World, "partition n1");
            trace.add(12, Who::Node(2), "leads term 3");
        }
        assert_eq!(
            one.text(),
            "           7 world partition n1\n          12 n2 leads term 3\n"
        );
        assert_eq!((one.digest(), one.len()), (other.digest(), 2));
        other.add(13, Who::Sentinel, "red 1");
        assert_ne!(one.digest(), other.digest());
        assert_eq!(other.tail(1), "          13 sentinel red 1");
    }
}
