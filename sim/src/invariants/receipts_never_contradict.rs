//! `receipts_never_contradict`: every receipt verifies, and no two of them, nor one and the journal, say
//! different things. D4.
//!
//! Two heads of one size have one root, two receipts of one position have one leaf, and that leaf is the
//! one the nodes have written there.

use std::collections::BTreeMap;

use super::Invariant;
use crate::history::History;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "receipts_never_contradict",
    statement: "every receipt verifies offline; receipts agree with each other and with the journal",
    source: "D4",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let mut roots = BTreeMap::new();
    let mut leaves = BTreeMap::new();
    for receipt in &history.receipts {
        let position = receipt.position;
        if let Err(why) = &receipt.verified {
            return Err(format!("the receipt of {position} does not verify: {why}"));
        }
        if *roots.entry(receipt.size).or_insert(receipt.root) != receipt.root {
            return Err(format!("two roots at size {}", receipt.size));
        }
        if *leaves.entry(position).or_insert(receipt.leaf) != receipt.leaf {
            return Err(format!("two receipted leaves at {position}"));
        }
        let written = history.leaves.get(&position);
        if !written.is_some_and(|shown| shown.contains_key(&receipt.leaf)) {
            return Err(format!(
                "the receipted leaf at {position} was written by no node"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;
    use crate::history::ReceiptSeen;

    fn history() -> History {
        let mut history = History::default();
        for position in 0..4_u64 {
            let leaf = Digest::of(&position.to_be_bytes());
            History::show(&mut history.leaves, position, leaf, 1);
            let (size, root, verified) = (4, Digest::of(b"root"), Ok(()));
            history.receipts.push(ReceiptSeen {
                position,
                leaf,
                size,
                root,
                verified,
            });
        }
        history
    }

    #[test]
    fn receipts_of_one_tree_pass() {
        assert_eq!(check(&history()), Ok(()));
    }

    #[test]
    fn each_kind_of_contradiction_is_found() {
        let changes: [fn(&mut ReceiptSeen); 4] = [
            |it| it.verified = Err("bad".into()),
            |it| it.root = Digest::of(b"fork"),
            |it| it.position = 2,
            |it| it.leaf = Digest::of(b"never written"),
        ];
        for change in changes {
            let mut history = history();
            change(&mut history.receipts[3]);
            assert!(check(&history).is_err());
        }
    }
}
