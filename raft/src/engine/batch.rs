//! A batch of changes that is applied as a whole. It does not say how durable it is to be: that is
//! an argument of [`Engine::write`](super::Engine::write).

use super::Family;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Store `value` under `key`, over whatever is there.
    Put {
        /// Where.
        family: Family,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Remove `key` if it is there.
    Delete {
        /// Where.
        family: Family,
        /// The key.
        key: Vec<u8>,
    },
    /// Remove every key of `[from, to)`.
    DeleteRange {
        /// Where.
        family: Family,
        /// First key that is removed.
        from: Vec<u8>,
        /// First key that stays.
        to: Vec<u8>,
    },
}

/// Changes in the order in which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    ops: Vec<Op>,
}

impl WriteBatch {
    /// A batch without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `value` under `key`.
    pub fn put(&mut self, family: Family, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.ops.push(Op::Put {
            family,
            key: key.into(),
            value: value.into(),
        });
    }

    /// Removes `key`.
    pub fn delete(&mut self, family: Family, key: impl Into<Vec<u8>>) {
        self.ops.push(Op::Delete {
            family,
            key: key.into(),
        });
    }

    /// Removes every key of `[from, to)`; nothing if the range is empty or reversed.
    pub fn delete_range(
        &mut self,
        family: Family,
        from: impl Into<Vec<u8>>,
        to: impl Into<Vec<u8>>,
    ) {
        let (from, to) = (from.into(), to.into());
        // RocksDB reports a reversed range as a failed write, which would stop the node.
        if from < to {
            self.ops.push(Op::DeleteRange { family, from, to });
        }
    }

    /// The changes, first to last.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The changes, first to last.
    pub fn into_ops(self) -> Vec<Op> {
        self.ops
    }

    /// True if nothing would change.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of keys and values, without any overhead of a format.
    pub fn byte_len(&self) -> usize {
        self.ops
            .iter()
            .map(|op| match op {
                Op::Put { key, value, .. } => key.len() + value.len(),
                Op::Delete { key, .. } => key.len(),
                Op::DeleteRange { from, to, .. } => from.len() + to.len(),
            })
            .sum()
    }
}
