//! Everything that is drawn comes from here: keys, plans and delays, each from its own stream of one seed,
//! so that one more draw in one place changes nothing in another.

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use redlatch_types::{Digest, SigningKey};

/// The seed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// 32 bytes for one purpose.
    pub fn bytes(self, purpose: &str) -> Digest {
        Digest::of_parts(&[b"redlatch-sim", &self.0.to_be_bytes(), purpose.as_bytes()])
    }

    /// The key of one party.
    pub fn key(self, party: &str) -> SigningKey {
        SigningKey::from_seed(self.bytes(&format!("key {party}")).0)
    }

    /// A stream of draws for one purpose.
    pub fn draws(self, purpose: &str) -> Draws {
        Draws(ChaCha20Rng::from_seed(self.bytes(purpose).0))
    }
}

/// A stream of draws.
#[derive(Clone, Debug)]
pub struct Draws(ChaCha20Rng);

impl Draws {
    /// A number of `[0, below)`; 0 if that is empty.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0.next_u64().checked_rem(below).unwrap_or_default()
    }

    /// A number of `[from, to)`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from))
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of `of`; none if it is empty.
    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let at = usize::try_from(self.below(of.len() as u64)).unwrap_or_default();
        of.get(at).cloned()
    }

    /// 32 bytes.
    pub fn digest(&mut self) -> Digest {
        let mut bytes = [0; 32];
        self.0.fill_bytes(&mut bytes);
        Digest(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equally_and_purposes_are_apart() {
        let draw = |seed, purpose| Seed(seed).draws(purpose).digest();
        assert_eq!(draw(1, "faults"), draw(1, "faults"));
        assert_ne!(draw(1, "faults"), draw(2, "faults"));
        assert_ne!(draw(1, "faults"), draw(1, "workload"));
        assert_ne!(
            Seed(1).key("n1").public_key(),
            Seed(1).key("n2").public_key()
        );
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut draws = Seed(3).draws("range");
        assert!((0..200).all(|_| (5..8).contains(&draws.between(5, 8))));
        assert_eq!((draws.below(0), draws.one_of::<u8>(&[])), (0, None));
        assert!(!draws.percent(0) && draws.percent(100));
    }
}
