//! C2SP signed notes: text, a blank line, signature lines; and the verifier keys (vkeys)
//! that say who may sign and how (c2sp.org/signed-note, c2sp.org/tlog-cosignature).
//!
//! Two algorithms exist here: `0x01`, a log's Ed25519 signature over the text, and `0x04`, a
//! timestamped cosignature (`cosignature/v1`). Signature lines of other algorithms or of
//! unknown keys are carried along and mean nothing.
//!
//! This module does not know which keys are trusted: [`crate::policy`] does. It reads only
//! the one spelling of a note that it would write itself.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::sign::SigningKey;

mod key;

pub use key::{
    Algorithm, COSIGNATURE_TIME_S_MAX, KEY_NAME_BYTES_MAX, KeyError, KeyId, KeyName,
    SignatureError, Statement, VerifierKey,
};

use key::{KEY_ID_BYTES, cosigned_message};

/// Longest note that is read, in bytes.
pub const NOTE_BYTES_MAX: usize = 256 * 1024;
/// Most signature lines in a note: the limits of a policy, 32 logs and 32 witnesses.
pub const NOTE_SIGNATURES_MAX: usize = 64;

const LINE_START: &str = "\u{2014} ";

/// The text is not a signed note, or not in its one spelling. Blames the note's maker.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum NoteError {
    /// Longer than [`NOTE_BYTES_MAX`].
    #[error("the note has more than {NOTE_BYTES_MAX} bytes")]
    TooLong,
    /// A control character other than newline; a carriage return, for instance.
    #[error("the note contains a control character")]
    ControlCharacter,
    /// No blank line, no text, or no newline at the end: cut off or never whole.
    #[error("the note is not text, a blank line and signature lines that end in a newline")]
    NotWhole,
    /// A line after the blank line that is no signature line.
    #[error("signature line {line} is malformed")]
    MalformedSignature {
        /// Counted from 1 below the blank line.
        line: usize,
    },
    /// More than [`NOTE_SIGNATURES_MAX`] lines.
    #[error("the note has more than {NOTE_SIGNATURES_MAX} signatures")]
    TooManySignatures,
}

/// One line `— name base64(key id || signature)`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SignatureLine {
    /// Name of the key.
    pub name: KeyName,
    /// Id of the key.
    pub key_id: KeyId,
    /// What follows the key id; its meaning depends on the algorithm. Never empty.
    pub signature: Vec<u8>,
}

impl SignatureLine {
    /// Signs `text` as the log (`0x01`).
    pub fn by_log(name: KeyName, key: &SigningKey, text: &str) -> SignatureLine {
        let key_id = KeyId::of(&name, Algorithm::Ed25519, &key.public_key());
        let signature = key.sign(text.as_bytes()).0.to_vec();
        SignatureLine {
            name,
            key_id,
            signature,
        }
    }

    /// Cosigns `text` (`0x04`) as seen at `time_s`, seconds since 1970.
    ///
    /// # Errors
    /// [`SignatureError::BadTime`].
    pub fn by_cosigner(
        name: KeyName,
        key: &SigningKey,
        text: &str,
        time_s: u64,
    ) -> Result<SignatureLine, SignatureError> {
        let key_id = KeyId::of(&name, Algorithm::Cosignature, &key.public_key());
        let message = cosigned_message(text, time_s)?;
        let mut signature = time_s.to_be_bytes().to_vec();
        signature.extend_from_slice(&key.sign(message.as_bytes()).0);
        Ok(SignatureLine {
            name,
            key_id,
            signature,
        })
    }

    fn parse(line: &str) -> Option<SignatureLine> {
        let (name, encoded) = line.strip_prefix(LINE_START)?.split_once(' ')?;
        let name = KeyName::new(name).ok()?;
        let bytes = decode_base64(encoded)?;
        let (key_id, signature) = bytes.split_first_chunk::<KEY_ID_BYTES>()?;
        if signature.is_empty() {
            return None;
        }
        Some(SignatureLine {
            name,
            key_id: KeyId(*key_id),
            signature: signature.to_vec(),
        })
    }
}

/// Without the newline that ends it in a note.
impl fmt::Display for SignatureLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.key_id.0.to_vec();
        bytes.extend_from_slice(&self.signature);
        write!(f, "{LINE_START}{} {}", self.name, encode_base64(&bytes))
    }
}

impl FromStr for SignatureLine {
    type Err = NoteError;

    fn from_str(line: &str) -> Result<SignatureLine, NoteError> {
        if line.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLong);
        }
        SignatureLine::parse(line).ok_or(NoteError::MalformedSignature { line: 1 })
    }
}

/// A text with at least one signature line. Nothing in it is verified.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Note {
    text: String,
    signatures: Vec<SignatureLine>,
}

impl Note {
    /// A note with one signature line. The text ends in a newline.
    ///
    /// # Errors
    /// [`NoteError`] if the text cannot stand in a note.
    pub fn new(text: String, signature: SignatureLine) -> Result<Note, NoteError> {
        check_characters(&text)?;
        if !text.ends_with('\n') {
            return Err(NoteError::NotWhole);
        }
        let mut note = Note {
            text,
            signatures: Vec::new(),
        };
        note.add(signature)?;
        Ok(note)
    }

    /// Adds a signature line below the others. A line that is there already is not repeated.
    ///
    /// # Errors
    /// [`NoteError::TooManySignatures`], [`NoteError::TooLong`].
    pub fn add(&mut self, signature: SignatureLine) -> Result<(), NoteError> {
        if self.signatures.contains(&signature) {
            return Ok(());
        }
        if self.signatures.len() == NOTE_SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures);
        }
        let bytes = self.to_string().len() + signature.to_string().len() + 1;
        if bytes > NOTE_BYTES_MAX {
            return Err(NoteError::TooLong);
        }
        self.signatures.push(signature);
        Ok(())
    }

    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError`] for anything that [`Note`]'s `Display` would not have written.
    pub fn parse(note: &str) -> Result<Note, NoteError> {
        check_characters(note)?;
        let (text, lines) = split_note(note).ok_or(NoteError::NotWhole)?;
        let mut signatures = Vec::new();
        for (index, line) in lines.split('\n').enumerate() {
            if index == NOTE_SIGNATURES_MAX {
                return Err(NoteError::TooManySignatures);
            }
            let malformed = NoteError::MalformedSignature { line: index + 1 };
            signatures.push(SignatureLine::parse(line).ok_or(malformed)?);
        }
        Ok(Note {
            text: text.to_owned(),
            signatures,
        })
    }

    /// The signed text, its last newline included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signature lines, in order.
    pub fn signatures(&self) -> &[SignatureLine] {
        &self.signatures
    }
}

/// Text with its newline, and the signature lines without the last newline. The text ends at
/// the last blank line.
fn split_note(note: &str) -> Option<(&str, &str)> {
    let blank = note.rfind("\n\n")?;
    let text = note.get(..=blank)?;
    let lines = note.get(blank + 2..)?.strip_suffix('\n')?;
    Some((text, lines))
}

fn check_characters(text: &str) -> Result<(), NoteError> {
    if text.len() > NOTE_BYTES_MAX {
        return Err(NoteError::TooLong);
    }
    if text.bytes().any(|byte| byte < b' ' && byte != b'\n') {
        return Err(NoteError::ControlCharacter);
    }
    Ok(())
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Standard base64 with padding (RFC 4648 §4).
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Only the one spelling: padded, no stray bits behind the last byte, nothing else between.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// A decimal number in its one spelling: ASCII digits, no sign, no leading zero.
pub(crate) fn decode_decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if digits && !leading_zero {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
