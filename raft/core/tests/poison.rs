//! Looks for a poison command: one that panics a replica, or does what no command may (FAULTS 18).
//!
//! ```text
//!   input ─▶ a command: raw bytes · a real one bent · a real one changed and sealed again
//!              └─▶ admit · decide · evolve, in a state of the histories ─▶ what must hold
//! ```
//!
//! The inputs come from a seeded generator here, and from libFuzzer in `raft/core/fuzz`.

use redlatch_journal::{EntryId, State};
use redlatch_types::Canonical;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;

use super::resealed::*;
use super::world::*;

/// Where inputs are played.
pub(crate) struct Bench {
    moments: Vec<Moment>,
    keys: Keyring,
}

/// The input, read from its beginning; zeros follow its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n.max(1)
    }

    fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => u64::from(self.byte()),
            1 => u64::MAX - u64::from(self.byte()),
            2 => START + u64::from(self.byte()) * MINUTE / 4,
            _ => (0..8).fold(0, |sum, _| sum << 8 | u64::from(self.byte())),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte()) % 80;
        (0..length).map(|_| self.byte()).collect()
    }
}

impl Bench {
    /// Every moment of the histories.
    pub(crate) fn new() -> Bench {
        Bench {
            moments: moments(),
            keys: Keyring::new(),
        }
    }

    /// Inputs to begin with: each real command as its bytes, and as one to be changed, in its moment.
    pub(crate) fn seeds(&self) -> Vec<Vec<u8>> {
        let moments = self.moments.iter().enumerate();
        moments
            .flat_map(|(at, moment)| {
                let [high, low] = u16::try_from(at).expect("few moments").to_be_bytes();
                // Its own state: the selector below must not be a multiple of four.
                let bytes = [&[0, high, low, 1][..], &moment.command.to_canonical()].concat();
                let changed = [&[2, high, low, 1][..], &[1; 40]].concat();
                [bytes, changed]
            })
            .collect()
    }

    /// Makes a command of `input`, applies it, and panics if something does not hold.
    pub(crate) fn play(&self, input: &[u8]) {
        let mut input = Input(input);
        let kind = input.byte();
        let moment = &self.moments[input.below(self.moments.len())];
        let state = match input.byte() % 4 {
            0 => &self.moments[input.below(self.moments.len())].state,
            _ => &moment.state,
        };
        let command = match kind % 8 {
            0 => input.0.to_vec(),
            1 => bent(moment.command.to_canonical(), &mut input),
            _ => self.changed(&moment.command, &mut input),
        };
        holds(state, &command);
    }

    /// The command with up to three things changed in one part.
    fn changed(&self, command: &RawCommand, input: &mut Input<'_>) -> Vec<u8> {
        let parts = parts(command);
        // The first one travels unsigned: mostly it is the signed ones that are worth changing.
        let signed = usize::from(parts.len() > 1 && !input.byte().is_multiple_of(8));
        let (part, _, bytes) = &parts[signed + input.below(parts.len() - signed)];
        let changed = match Item::read(bytes) {
            Some(mut item) => {
                for _ in 0..=input.byte() % 3 {
                    let all = count(&item);
                    let mut at = input.below(all);
                    if let Some(chosen) = nth(&mut item, &mut at) {
                        change(chosen, input);
                    }
                }
                item.write()
            }
            None => bent(bytes.clone(), input),
        };
        self.keys.with(command, *part, changed)
    }
}

/// A few bytes changed, a piece cut out or put in.
fn bent(mut bytes: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    for _ in 0..=input.byte() % 4 {
        let at = input.below(bytes.len());
        match input.byte() % 4 {
            0 => bytes.truncate(at),
            1 => bytes.splice(at..at, input.bytes()).for_each(drop),
            2 => bytes.drain(at..).take(4).for_each(drop),
            _ => {
                let flip = input.byte();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= flip;
                }
            }
        }
    }
    bytes
}

/// Items of a tree, itself included.
fn count(item: &Item) -> usize {
    1 + match item {
        Item::List(items) => items.iter().map(count).sum(),
        Item::Map(pairs) => pairs.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

/// The `at`-th item of a tree.
fn nth<'a>(item: &'a mut Item, at: &mut usize) -> Option<&'a mut Item> {
    if *at == 0 {
        return Some(item);
    }
    *at -= 1;
    match item {
        Item::List(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Item::Map(pairs) => pairs.iter_mut().find_map(|(_, value)| nth(value, at)),
        _ => None,
    }
}

fn change(item: &mut Item, input: &mut Input<'_>) {
    match item {
        Item::Number(_, n) => *n = input.number(),
        Item::Bytes(bytes) => {
            if input.byte().is_multiple_of(2) {
                *bytes = bent(std::mem::take(bytes), input);
            } else if let Some(byte) = bytes.last_mut() {
                *byte ^= 1;
            }
        }
        Item::Text(text) => *text = bent(std::mem::take(text), input),
        Item::Simple(argument) => *argument ^= 1,
        Item::List(items) if items.is_empty() => items.push(Item::Number(0, input.number())),
        Item::List(items) => {
            let (one, other) = (input.below(items.len()), input.below(items.len()));
            match input.byte() % 3 {
                0 => items.push(items[one].clone()),
                1 => items.swap(one, other),
                _ => drop(items.remove(one)),
            }
        }
        Item::Map(pairs) => {
            let at = input.below(pairs.len());
            if at < pairs.len() {
                pairs.remove(at);
            }
        }
    }
}

/// What holds of every command in every state.
fn holds(state: &State, command: &[u8]) {
    if let Ok(read) = RawCommand::from_canonical(command) {
        assert_eq!(read.to_canonical(), command, "two spellings of one command");
    }
    let at = EntryId {
        term: 2,
        leader: 1,
        index: 1_000,
    };
    let mut after = state.clone();
    let applied = after.apply(at, &[command.to_vec()]);
    let outcome = &applied.outcomes[0];
    let withheld = matches!(outcome.events[..], [Event::EffectWithheld(..)]);
    after.authority.stepped.clear();
    let mut before = state.clone();
    before.authority.stepped.clear();
    if outcome.reply.is_err() && !withheld {
        let mut refused = after.authority.clone();
        refused.audits = before.authority.audits.clone();
        assert_eq!(refused, before.authority, "a refusal changed the state");
    }
    nothing_positive_in_a_stopped_scope(&before.authority, &applied.events);
    for leaf in &applied.leaves {
        before.replay(leaf).expect("a leaf of its own");
    }
    assert_eq!(
        before.authority, after.authority,
        "leaves say something else"
    );
    assert_eq!(before.head(), after.head());
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};

    use super::*;

    #[test]
    fn fault_018_no_command_is_poison() {
        let bench = Bench::new();
        let mut random = ChaCha8Rng::seed_from_u64(18);
        for _ in 0..4_000 {
            let mut input = [0; 64];
            random.fill_bytes(&mut input);
            bench.play(&input);
        }
    }

    /// What libFuzzer begins with: each real command as its bytes, and as one to be changed.
    #[test]
    fn fault_018_no_real_command_is_poison_in_its_moment() {
        let bench = Bench::new();
        let seeds = bench.seeds();
        assert_eq!(seeds.len(), 2 * bench.moments.len());
        for (seed, moment) in seeds.iter().step_by(2).zip(&bench.moments) {
            assert!(seed.ends_with(&moment.command.to_canonical()));
        }
        for seed in &seeds {
            bench.play(seed);
        }
    }

    /// The generator is worth its time only if it reaches what stands behind the signatures.
    #[test]
    fn made_up_commands_are_of_every_kind_and_many_pass_their_signatures() {
        let bench = Bench::new();
        let kinds: std::collections::BTreeSet<_> = bench
            .moments
            .iter()
            .map(|moment| std::mem::discriminant(&moment.command))
            .map(|kind| format!("{kind:?}"))
            .collect();
        assert_eq!(kinds.len(), 25);
        let mut random = ChaCha8Rng::seed_from_u64(19);
        let admitted = (0..1_000).filter(|n| {
            let mut bytes = [0; 64];
            random.fill_bytes(&mut bytes);
            let moment = &bench.moments[n % bench.moments.len()];
            let command = bench.changed(&moment.command, &mut Input(&bytes));
            redlatch_journal::admit(&command).is_ok()
        });
        let admitted = admitted.count();
        assert!(admitted > 200, "{admitted} of 1000");
    }
}
