//! The library that makes the group's signatures, and the one verification that judges them (FAULTS 45).
//!
//! The vectors are those of `redlatch-types`, about which verifiers disagree.

use frost_ed25519::{Signature as GroupSignature, VerifyingKey};
use redlatch_types::sign::verify;
use redlatch_types::{PublicKey, Signature};

struct Vector {
    name: &'static str,
    key: PublicKey,
    message: Vec<u8>,
    signature: Signature,
}

impl Vector {
    fn by_the_library(&self) -> bool {
        let key = VerifyingKey::deserialize(&self.key.0);
        let signature = GroupSignature::deserialize(&self.signature.0);
        let (Ok(key), Ok(signature)) = (key, signature) else {
            return false;
        };
        key.verify(&self.message, &signature).is_ok()
    }

    fn by_us(&self) -> bool {
        verify(&self.key, &self.message, &self.signature).is_ok()
    }
}

fn bytes(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

/// The vectors that have a signature's length.
fn vectors() -> Vec<Vector> {
    let lines = include_str!("../../../proto/types/tests/frozen/ed25519.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let read = |line: &'static str| {
        let columns: Vec<&str> = line.split('|').collect();
        let [name, key, message, signature, _] = columns[..] else {
            panic!("columns are missing or too many: {line}");
        };
        Some(Vector {
            name,
            key: key.parse().expect("32 bytes"),
            message: bytes(message),
            signature: signature.parse().ok()?,
        })
    };
    lines.filter_map(read).collect()
}

/// The library multiplies by the cofactor and takes no point with a torsion component: what passes
/// it passes the strict rule, so a ballot never ends in a signature that a journal refuses.
#[test]
fn fault_045_what_the_group_accepts_the_journal_accepts() {
    let vectors = vectors();
    let accepted: Vec<&Vector> = vectors.iter().filter(|it| it.by_the_library()).collect();
    for vector in &accepted {
        assert!(vector.by_us(), "{}", vector.name);
    }
    assert!(accepted.len() > 80, "{} accepted", accepted.len());
}

/// No key of a ceremony has a torsion component; a key that somebody made up may have one.
#[test]
fn fault_045_the_group_refuses_beside_it_only_keys_that_no_ceremony_makes() {
    for vector in vectors() {
        if vector.by_us() && !vector.by_the_library() {
            let mixed = vector.name.starts_with("A+T") && !vector.name.starts_with("A+T0 R+T0");
            assert!(mixed, "{}", vector.name);
        }
    }
}
