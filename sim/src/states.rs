//! The digest of the authority after every applied entry, without encoding it once for every node.
//!
//! Three nodes apply one entry. The authority of the first is encoded and hashed; that of another is
//! compared with it field by field, which costs a fraction of it. Canonical bytes follow from the fields
//! alone, so equal authorities have equal digests, and one that differs is hashed for itself: nothing is
//! taken on trust. It decides nothing.

use std::collections::BTreeMap;

use redlatch_journal::Authority;
use redlatch_types::Digest;

/// Entries that are remembered; a node that comes later than that is hashed for itself.
const REMEMBERED: usize = 64;

/// The authorities that were hashed last, by index of the entry after which they are the state.
#[derive(Debug, Default)]
pub struct States {
    hashed: BTreeMap<u64, (Authority, Digest)>,
    /// How often an authority was encoded.
    encoded: u64,
}

impl States {
    /// The digest of an authority, which is the state after the entry at `index`.
    pub fn digest(&mut self, index: u64, authority: &Authority) -> Digest {
        if let Some((same, digest)) = self.hashed.get(&index)
            && same == authority
        {
            return *digest;
        }
        let digest = authority.digest();
        self.encoded += 1;
        self.hashed
            .entry(index)
            .or_insert_with(|| (authority.clone(), digest));
        while self.hashed.len() > REMEMBERED {
            self.hashed.pop_first();
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(state_time: u64) -> Authority {
        let mut authority = Authority::default();
        authority.clock.state_time = state_time;
        authority
    }

    #[test]
    fn equal_authorities_are_encoded_once_and_others_are_not_taken_for_them() {
        let mut states = States::default();
        for authority in [at(1), at(1), at(1)] {
            assert_eq!(states.digest(4, &authority), at(1).digest());
        }
        assert_eq!(states.encoded, 1);
        assert_eq!(states.digest(4, &at(2)), at(2).digest());
        assert_eq!(states.digest(5, &at(1)), at(1).digest());
        assert_eq!(states.encoded, 3);
    }

    #[test]
    fn what_is_forgotten_is_encoded_again() {
        let mut states = States::default();
        for index in 0..=REMEMBERED as u64 {
            states.digest(index, &at(index));
        }
        let before = states.encoded;
        assert_eq!(states.digest(0, &at(0)), at(0).digest());
        assert_eq!(states.encoded, before + 1);
        assert!(states.hashed.len() <= REMEMBERED);
    }
}
