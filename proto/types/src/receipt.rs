//! Receipts: one text file that proves, without network and with a trust policy beside it,
//! that an event stands in the journal (DESIGN D4).
//!
//! A receipt is a C2SP `tlog-proof` whose `extra` line carries the leaf: the canonical bytes
//! of the event, in base64. The format leaves extra data to the application and warns that it
//! is not authenticated; here it is, because the inclusion proof starts from its hash.
//!
//! ```text
//! c2sp.org/tlog-proof@v1
//! extra <base64 of the leaf>              required, never empty
//! index <position of the leaf>
//! <base64 hash>                           0 to 63 lines, from the leaf's sibling upwards
//!                                         a blank line
//! redlatch/<organism id>/<history>        the checkpoint and its signature lines,
//! <tree size>                             c2sp.org/tlog-checkpoint and
//! <base64 root>                           c2sp.org/tlog-cosignature
//!
//! — <key name> <base64 signature>         log, nodes and witnesses
//! ```
//!
//! *Invalid* (nobody should believe it: damaged, forged, or never a receipt) and *policy not
//! met* (well-formed, but this policy asks for other or more signatures) are never confused:
//! [`ReceiptError`] has one variant for each.
//!
//! This module does not say what the leaf means, nor whether its kind may be proven by the
//! nodes alone: the caller knows and chooses the [`Demand`].

use std::fmt;

use thiserror::Error;

use crate::bytes::Digest;
use crate::checkpoint::{Checkpoint, CheckpointError, Origin, decode_hash};
use crate::merkle::{self, PROOF_HASHES_MAX, ProofError};
use crate::note::{Note, NoteError, decode_base64, decode_decimal, encode_base64};
use crate::policy::{Demand, HeadError, InvalidHead, NotMet, Policy};

/// Longest receipt that is read, in bytes.
pub const RECEIPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Name ending of receipt files.
pub const RECEIPT_FILE_EXTENSION: &str = "tlog-proof";

const HEADER: &str = "c2sp.org/tlog-proof@v1";
const EXTRA: &str = "extra ";
const INDEX: &str = "index ";

/// Why nobody should believe a receipt. Blames whoever made or changed it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum InvalidReceipt {
    /// Not UTF-8, or longer than [`RECEIPT_BYTES_MAX`].
    #[error("a receipt is UTF-8 text of at most {RECEIPT_BYTES_MAX} bytes")]
    NotText,
    /// The first line is another one.
    #[error("the first line is not {HEADER:?}")]
    NotATlogProof,
    /// No `extra` line, or an empty or misspelt one.
    #[error("the second line does not carry the leaf")]
    NoLeaf,
    /// No `index` line, or a misspelt one.
    #[error("the line after the leaf does not carry its index")]
    NoIndex,
    /// A proof line that is not 32 bytes of base64.
    #[error("line {line} of the inclusion proof is malformed")]
    BadHash {
        /// Counted from 1 below the index.
        line: usize,
    },
    /// More than [`PROOF_HASHES_MAX`] proof lines.
    #[error("the inclusion proof has more than {PROOF_HASHES_MAX} lines")]
    TooManyHashes,
    /// No blank line and checkpoint after the proof.
    #[error("the receipt ends before the checkpoint")]
    NoCheckpoint,
    /// The signed note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The note's text.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The leaf is not in the tree of the checkpoint.
    #[error("the leaf is not in the tree: {0}")]
    Proof(#[from] ProofError),
    /// The head is not validly signed.
    #[error(transparent)]
    Head(#[from] InvalidHead),
}

/// Why a receipt is not accepted.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ReceiptError {
    /// Nobody should believe it (exit code 1 of `receipt verify`).
    #[error("invalid receipt: {0}")]
    Invalid(#[from] InvalidReceipt),
    /// This policy asks for something else (exit code 3 of `receipt verify`).
    #[error("policy not met: {0}")]
    NotMet(#[from] NotMet),
}

impl From<HeadError> for ReceiptError {
    fn from(error: HeadError) -> ReceiptError {
        match error {
            HeadError::Invalid(why) => ReceiptError::Invalid(why.into()),
            HeadError::NotMet(why) => ReceiptError::NotMet(why),
        }
    }
}

/// A `tlog-proof` without its extra line. Nothing in it is verified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlogProof {
    /// Zero-based position of the leaf.
    pub index: u64,
    /// Inclusion proof, from the leaf's sibling up to the root's child.
    pub hashes: Vec<Digest>,
    /// The signed checkpoint.
    pub head: Note,
}

/// A leaf with its proof. Nothing in it is verified until [`verify`] says so.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Receipt {
    /// Canonical bytes of the event.
    pub leaf: Vec<u8>,
    /// That it stands in the journal.
    pub proof: TlogProof,
}

/// What a receipt proves. Only [`verify`] and [`verify_for`] make one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Verified {
    /// Which journal.
    pub origin: Origin,
    /// Zero-based position of the leaf.
    pub index: u64,
    /// Leaves in the tree that the signers saw.
    pub size: u64,
    /// Root of that tree.
    pub root: Digest,
    /// When it was seen, in seconds since 1970: see [`crate::policy::AcceptedHead::time_s`].
    pub time_s: u64,
    /// Which group of the policy was met.
    pub demand: Demand,
}

/// Verifies a receipt under the policy's quorum.
///
/// # Errors
/// [`ReceiptError::Invalid`] or [`ReceiptError::NotMet`].
pub fn verify(receipt: &Receipt, policy: &Policy) -> Result<Verified, ReceiptError> {
    verify_for(receipt, policy, Demand::Quorum)
}

/// Verifies a receipt under the group that its kind of leaf needs.
///
/// # Errors
/// [`ReceiptError::Invalid`] or [`ReceiptError::NotMet`]. A leaf that is not in the tree is
/// invalid whatever the policy says.
pub fn verify_for(
    receipt: &Receipt,
    policy: &Policy,
    demand: Demand,
) -> Result<Verified, ReceiptError> {
    let TlogProof {
        index,
        hashes,
        head,
    } = &receipt.proof;
    let Checkpoint { size, root, .. } =
        Checkpoint::parse(head.text()).map_err(InvalidReceipt::from)?;
    let leaf = merkle::leaf_hash(&receipt.leaf);
    merkle::verify_inclusion(*index, size, &leaf, hashes, &root).map_err(InvalidReceipt::from)?;
    let accepted = policy.accept(head, demand)?;
    Ok(Verified {
        origin: accepted.checkpoint.origin,
        index: *index,
        size,
        root,
        time_s: accepted.time_s,
        demand,
    })
}

impl Receipt {
    /// Reads a receipt file.
    ///
    /// # Errors
    /// [`InvalidReceipt`] for anything that `Display` would not have written.
    pub fn parse(bytes: &[u8]) -> Result<Receipt, InvalidReceipt> {
        if bytes.len() > RECEIPT_BYTES_MAX {
            return Err(InvalidReceipt::NotText);
        }
        let text = str::from_utf8(bytes).map_err(|_| InvalidReceipt::NotText)?;
        let mut lines = Lines(text);
        if lines.next() != Some(HEADER) {
            return Err(InvalidReceipt::NotATlogProof);
        }
        let leaf = lines.next().and_then(|line| line.strip_prefix(EXTRA));
        let leaf = leaf.and_then(decode_base64).filter(|leaf| !leaf.is_empty());
        let leaf = leaf.ok_or(InvalidReceipt::NoLeaf)?;
        let index = lines.next().and_then(|line| line.strip_prefix(INDEX));
        let index = index
            .and_then(decode_decimal)
            .ok_or(InvalidReceipt::NoIndex)?;
        let hashes = read_hashes(&mut lines)?;
        let head = Note::parse(lines.0)?;
        Checkpoint::parse(head.text())?;
        Ok(Receipt {
            leaf,
            proof: TlogProof {
                index,
                hashes,
                head,
            },
        })
    }
}

fn read_hashes(lines: &mut Lines<'_>) -> Result<Vec<Digest>, InvalidReceipt> {
    let mut hashes = Vec::new();
    loop {
        match lines.next().ok_or(InvalidReceipt::NoCheckpoint)? {
            "" => return Ok(hashes),
            _ if hashes.len() == PROOF_HASHES_MAX => return Err(InvalidReceipt::TooManyHashes),
            line => {
                let bad = InvalidReceipt::BadHash {
                    line: hashes.len() + 1,
                };
                hashes.push(decode_hash(line).ok_or(bad)?);
            }
        }
    }
}

/// What is left of a text, taken line by line; a line without a newline is none.
struct Lines<'a>(&'a str);

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (line, rest) = self.0.split_once('\n')?;
        self.0 = rest;
        Some(line)
    }
}

/// The receipt file.
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TlogProof {
            index,
            hashes,
            head,
        } = &self.proof;
        writeln!(
            f,
            "{HEADER}\n{EXTRA}{}\n{INDEX}{index}",
            encode_base64(&self.leaf)
        )?;
        hashes
            .iter()
            .try_for_each(|hash| writeln!(f, "{}", encode_base64(&hash.0)))?;
        write!(f, "\n{head}")
    }
}

#[cfg(test)]
mod tests;
