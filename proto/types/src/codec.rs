//! Deterministic CBOR (RFC 8949 §4.2), the bytes that are hashed and signed (DESIGN D6).
//!
//! Records are maps with ascending integer keys, definite lengths, shortest integers, no
//! floats. Decoding re-encodes what it understood and compares: whatever spells the same
//! value in another way, repeats a key or adds one is [`NotCanonical`] before any field is
//! used (FAULTS 48 to 51).

use minicbor::{Decode, Encode};

/// The bytes are not the canonical encoding of a value of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCanonical {
    /// The bytes are no CBOR of the expected shape.
    #[error("not the expected CBOR: {0}")]
    Malformed(String),
    /// The bytes decode, but canonical encoding spells the value differently.
    #[error("the value has another canonical encoding")]
    OtherSpelling,
}

/// A value with exactly one encoding.
pub trait Canonical: Sized {
    /// The one encoding of this value.
    fn to_canonical(&self) -> Vec<u8>;

    /// Decodes `bytes`, which must be the one encoding of the value.
    ///
    /// # Errors
    /// [`NotCanonical`] for anything else: truncated, trailing, unknown or repeated keys,
    /// longer integers, indefinite lengths, floats.
    fn from_canonical(bytes: &[u8]) -> Result<Self, NotCanonical>;
}

impl<T> Canonical for T
where
    T: Encode<()> + for<'b> Decode<'b, ()>,
{
    fn to_canonical(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("encoding into memory cannot fail")
    }

    fn from_canonical(bytes: &[u8]) -> Result<Self, NotCanonical> {
        let value: T =
            minicbor::decode(bytes).map_err(|e| NotCanonical::Malformed(e.to_string()))?;
        if value.to_canonical() == bytes {
            Ok(value)
        } else {
            Err(NotCanonical::OtherSpelling)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq, Encode, Decode)]
    #[cbor(map)]
    struct Sample {
        #[n(1)]
        op: String,
        #[n(2)]
        seq: u64,
        #[n(3)]
        note: Option<String>,
    }

    fn sample() -> Sample {
        Sample {
            op: "RUN".into(),
            seq: 7,
            note: None,
        }
    }

    #[test]
    fn fault_049_every_other_spelling_is_refused() {
        let canonical = sample().to_canonical();
        assert_eq!(hex::encode(&canonical), "a2016352554e0207");
        for other in [
            "a2016352554e021807",               // longer integer
            "a2016352554e02190007",             //
            "a2016352554e021a00000007",         //
            "a2016352554e021b0000000000000007", //
            "a2016352554e02f94700",             // float
            "a2016352554e02c24107",             // bignum
            "a201780352554e0207",               // longer string head
            "bf016352554e0207ff",               // indefinite map
            "a2017f615261556 14eff0207",        // text in chunks (and a stray blank)
            "a202070163 52554e",                // keys swapped (and a stray blank)
            "a20207016352554e",                 // keys swapped
            "d9d9f7a2016352554e0207",           // self-describe prefix
            "a2016352554e020700",               // trailing byte
            "a20162c3280207",                   // not UTF-8
            "a3016352554e020703f6",             // explicit null
            "a3016352554e02070400",             // unknown key
            "a1016352554e",                     // missing key
            "a2016352554e02",                   // truncated
        ] {
            let bytes = hex::decode(other.replace(' ', "")).unwrap();
            assert!(Sample::from_canonical(&bytes).is_err(), "{other}");
        }
        assert_eq!(Sample::from_canonical(&canonical), Ok(sample()));
    }

    #[test]
    fn fault_048_a_repeated_key_is_refused() {
        let bytes = hex::decode("a3016352554e020702 08".replace(' ', "")).unwrap();
        assert!(Sample::from_canonical(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn decoding_implies_the_same_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = Sample::from_canonical(&bytes) {
                prop_assert_eq!(value.to_canonical(), bytes);
            }
        }

        #[test]
        fn a_changed_byte_never_decodes_to_the_same_value(op in "[a-z]{0,8}", seq: u64, at: prop::sample::Index, flip in 1..=255u8) {
            let value = Sample { op, seq, note: None };
            let mut bytes = value.to_canonical();
            let i = at.index(bytes.len());
            bytes[i] ^= flip;
            if let Ok(other) = Sample::from_canonical(&bytes) {
                prop_assert_ne!(other, value);
            }
        }
    }
}
