//! Fixed and variable byte strings: digests, public keys, signatures.
//!
//! They print as lower-case hexadecimal and travel as CBOR byte strings of exactly their
//! length. Whether a public key is a good point is not asked here but in [`crate::sign`].

use std::fmt;
use std::str::FromStr;

use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use sha2::{Digest as _, Sha256};

/// Text that is not the hexadecimal form of the expected number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} lower-case hexadecimal digits, found {found:?}")]
pub struct NotHex {
    /// How many digits the value has.
    pub expected: usize,
    /// What was given, cut to a readable length.
    pub found: String,
}

macro_rules! byte_string {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// The bytes.
            pub fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}…)", stringify!($name), hex::encode(&self.0[..6]))
            }
        }

        impl FromStr for $name {
            type Err = NotHex;

            fn from_str(text: &str) -> Result<Self, NotHex> {
                let refuse = || NotHex {
                    expected: 2 * $len,
                    found: text.chars().take(80).collect(),
                };
                if text.bytes().any(|b| b.is_ascii_uppercase()) {
                    return Err(refuse());
                }
                let mut bytes = [0; $len];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| refuse())?;
                Ok($name(bytes))
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: encode::Write>(
                &self,
                e: &mut Encoder<W>,
                _: &mut C,
            ) -> Result<(), encode::Error<W::Error>> {
                e.bytes(&self.0)?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
                let at = d.position();
                let bytes = d.bytes()?;
                bytes
                    .try_into()
                    .map($name)
                    .map_err(|_| decode::Error::message("wrong length").at(at))
            }
        }
    };
}

byte_string!(
    /// A SHA-256 digest (FIPS 180-4).
    Digest,
    32
);
byte_string!(
    /// An Ed25519 public key as bytes (RFC 8032 §5.1.5). Not checked to be a good point.
    PublicKey,
    32
);
byte_string!(
    /// An Ed25519 signature `R || S` (RFC 8032 §5.1.6). Not checked.
    Signature,
    64
);

impl Digest {
    /// All zero: the digest of nothing. Used where a record says *none* in a required field.
    pub const ZERO: Digest = Digest([0; 32]);

    /// SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// SHA-256 of the concatenation of `parts`. The caller makes the parts self-delimiting.
    pub fn of_parts(parts: &[&[u8]]) -> Digest {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Digest(hash.finalize().into())
    }
}

/// A byte string of any length, as a CBOR byte string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.0.len())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(bytes)
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<C> Encode<C> for Bytes {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Bytes {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        // An indefinite-length string would decode piecewise; canonical bytes have none.
        if d.datatype()? != Type::Bytes {
            return Err(decode::Error::type_mismatch(d.datatype()?));
        }
        Ok(Bytes(d.bytes()?.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_lower_case_and_exact() {
        let digest = Digest::of(b"abc");
        let text = digest.to_string();
        assert_eq!(
            text,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(text.parse::<Digest>(), Ok(digest));
        assert!(text.to_uppercase().parse::<Digest>().is_err());
        assert!(text[1..].parse::<Digest>().is_err());
        assert!("".parse::<Digest>().is_err());
    }

    #[test]
    fn digest_of_parts_is_digest_of_concatenation() {
        assert_eq!(Digest::of_parts(&[b"a", b"bc"]), Digest::of(b"abc"));
    }
}
