//! Verifier keys: who may sign a note and how, and the check of one signature line.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{SignatureLine, decode_base64, encode_base64};
use crate::bytes::{Digest, PublicKey, Signature};
use crate::sign;

/// Longest key name, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 255;
/// Latest time of a cosignature (c2sp.org/tlog-cosignature), in seconds since 1970.
pub const COSIGNATURE_TIME_S_MAX: u64 = i64::MAX as u64;

pub(super) const KEY_ID_BYTES: usize = 4;
const TIMESTAMP_BYTES: usize = 8;

/// The text is no verifier key. Blames whoever configured it.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KeyError {
    /// Not `name+id+base64`, or not in its one spelling.
    #[error("not a verifier key of the form name+id+base64")]
    Malformed,
    /// Empty, too long, or with a space, a plus or a control character.
    #[error("not a key name (empty, too long, or with a space, '+' or control character)")]
    BadName,
    /// Neither `0x01` nor `0x04`.
    #[error("key algorithm {0:#04x} is not supported")]
    UnknownAlgorithm(u8),
    /// The id is not that of this name, algorithm and key.
    #[error("the key id does not belong to this name, algorithm and key")]
    WrongId,
    /// No point, not canonical, or of small order (FAULTS 44).
    #[error(transparent)]
    BadKey(#[from] sign::BadKey),
}

/// A signature line of a known key that does not hold. Blames the signer, or whoever changed
/// the text after signing.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum SignatureError {
    /// The line names another key.
    #[error("the signature line names another key")]
    OtherKey,
    /// Not the number of bytes of the algorithm.
    #[error("the signature has the wrong length")]
    WrongLength,
    /// A cosignature time of 0 or beyond [`COSIGNATURE_TIME_S_MAX`].
    #[error("the cosignature's time is 0 or out of range")]
    BadTime,
    /// Strict Ed25519 says no.
    #[error(transparent)]
    BadSignature(#[from] sign::BadSignature),
}

/// Name of a key in a note: unique together with the key id, and no more than a name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyName(String);

impl KeyName {
    /// Checks the name.
    ///
    /// # Errors
    /// [`KeyError::BadName`].
    pub fn new(name: impl Into<String>) -> Result<KeyName, KeyError> {
        let name = name.into();
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == '+';
        if name.is_empty() || name.len() > KEY_NAME_BYTES_MAX || name.contains(bad) {
            return Err(KeyError::BadName);
        }
        Ok(KeyName(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Short identifier of a key: a hint which key to try, never proof of anything.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub [u8; KEY_ID_BYTES]);

impl KeyId {
    /// First 4 bytes of SHA-256 of `name || 0x0A || algorithm || key`.
    pub fn of(name: &KeyName, algorithm: Algorithm, key: &PublicKey) -> KeyId {
        let parts: [&[u8]; 4] = [name.as_str().as_bytes(), b"\n", &[algorithm.byte()], &key.0];
        let [a, b, c, d, ..] = Digest::of_parts(&parts).0;
        KeyId([a, b, c, d])
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// What a signature of a key means.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Algorithm {
    /// `0x01`: the log signed this text.
    Ed25519,
    /// `0x04`: a cosigner saw, at a time it states, that the log had only grown.
    Cosignature,
}

impl Algorithm {
    pub(super) fn byte(self) -> u8 {
        match self {
            Algorithm::Ed25519 => 0x01,
            Algorithm::Cosignature => 0x04,
        }
    }

    fn from_byte(byte: u8) -> Result<Algorithm, KeyError> {
        match byte {
            0x01 => Ok(Algorithm::Ed25519),
            0x04 => Ok(Algorithm::Cosignature),
            other => Err(KeyError::UnknownAlgorithm(other)),
        }
    }
}

/// A public key with its name and algorithm, written `name+id+base64(algorithm || key)`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct VerifierKey {
    name: KeyName,
    id: KeyId,
    algorithm: Algorithm,
    key: PublicKey,
}

/// What a signature line of a known key says once it has been verified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Statement {
    /// The log signed the text.
    Signed,
    /// A cosigner saw the text's tree head as the log's newest.
    Observed {
        /// When, by the cosigner's word, in seconds since 1970.
        time_s: u64,
    },
}

impl VerifierKey {
    /// Names a key.
    ///
    /// # Errors
    /// [`KeyError::BadKey`] for a key that no honest signer has.
    pub fn new(
        name: KeyName,
        algorithm: Algorithm,
        key: PublicKey,
    ) -> Result<VerifierKey, KeyError> {
        sign::check_key(&key)?;
        let id = KeyId::of(&name, algorithm, &key);
        Ok(VerifierKey {
            name,
            id,
            algorithm,
            key,
        })
    }

    /// The key's name.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// The key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What its signatures mean.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The canonical key bytes: what is counted when signers are counted (FAULTS 43).
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Whether `line` claims to be by this key: name and id are equal.
    pub fn is_named_by(&self, line: &SignatureLine) -> bool {
        self.id == line.key_id && self.name == line.name
    }

    /// Verifies `line` over `text`.
    ///
    /// # Errors
    /// [`SignatureError`]; a note in which a known key's line fails is refused as a whole.
    pub fn verify(&self, text: &str, line: &SignatureLine) -> Result<Statement, SignatureError> {
        if !self.is_named_by(line) {
            return Err(SignatureError::OtherKey);
        }
        match self.algorithm {
            Algorithm::Ed25519 => {
                let signature = signature_bytes(&line.signature)?;
                sign::verify(&self.key, text.as_bytes(), &signature)?;
                Ok(Statement::Signed)
            }
            Algorithm::Cosignature => self.verify_cosignature(text, &line.signature),
        }
    }

    fn verify_cosignature(&self, text: &str, bytes: &[u8]) -> Result<Statement, SignatureError> {
        let (time, signature) = bytes
            .split_first_chunk::<TIMESTAMP_BYTES>()
            .ok_or(SignatureError::WrongLength)?;
        let signature = signature_bytes(signature)?;
        let time_s = u64::from_be_bytes(*time);
        let message = cosigned_message(text, time_s)?;
        sign::verify(&self.key, message.as_bytes(), &signature)?;
        Ok(Statement::Observed { time_s })
    }
}

fn signature_bytes(bytes: &[u8]) -> Result<Signature, SignatureError> {
    bytes
        .try_into()
        .map(Signature)
        .map_err(|_| SignatureError::WrongLength)
}

/// Header line, time line, text (c2sp.org/tlog-cosignature). A time of 0 says nothing and is
/// refused (FAULTS 52).
pub(super) fn cosigned_message(text: &str, time_s: u64) -> Result<String, SignatureError> {
    if time_s == 0 || time_s > COSIGNATURE_TIME_S_MAX {
        return Err(SignatureError::BadTime);
    }
    Ok(format!("cosignature/v1\ntime {time_s}\n{text}"))
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut material = vec![self.algorithm.byte()];
        material.extend_from_slice(&self.key.0);
        write!(f, "{}+{}+{}", self.name, self.id, encode_base64(&material))
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<VerifierKey, KeyError> {
        // The base64 part may contain a plus, name and id may not.
        let (name, rest) = text.split_once('+').ok_or(KeyError::Malformed)?;
        let (id, material) = rest.split_once('+').ok_or(KeyError::Malformed)?;
        let material = decode_base64(material).ok_or(KeyError::Malformed)?;
        let (algorithm, key) = material.split_first().ok_or(KeyError::Malformed)?;
        let algorithm = Algorithm::from_byte(*algorithm)?;
        let key = key
            .try_into()
            .map(PublicKey)
            .map_err(|_| KeyError::Malformed)?;
        let verifier = VerifierKey::new(KeyName::new(name)?, algorithm, key)?;
        if verifier.id.to_string() != id {
            return Err(KeyError::WrongId);
        }
        Ok(verifier)
    }
}
