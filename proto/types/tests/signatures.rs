//! One verification, held against others: `frozen/ed25519.txt` was made and judged apart from this code.
//!
//! Its signatures are those about which Ed25519 verifiers disagree (FAULTS 45), and Wycheproof's.
//! The program beside the file says what each column is.

use redlatch_types::sign::{check_key, verify};
use redlatch_types::{PublicKey, Signature};

/// What each judge of the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdicts {
    strict: bool,
    lax: bool,
    cofactored: bool,
    openssl: bool,
    sodium: bool,
}

struct Vector {
    name: &'static str,
    key: [u8; 32],
    message: Vec<u8>,
    signature: Vec<u8>,
    verdicts: Verdicts,
}

impl Vector {
    /// By redlatch. What has another length is no signature and does not get this far.
    fn ours(&self) -> bool {
        let signature = self.signature.as_slice().try_into().map(Signature);
        signature.is_ok_and(|it| verify(&PublicKey(self.key), &self.message, &it).is_ok())
    }

    /// By the lenient function of the library that redlatch calls strictly.
    fn by_the_lax_function(&self) -> bool {
        use ed25519_dalek::Verifier as _;
        let Ok(key) = ed25519_dalek::VerifyingKey::from_bytes(&self.key) else {
            return false;
        };
        let signature = ed25519_dalek::Signature::from_slice(&self.signature);
        signature.is_ok_and(|it| key.verify(&self.message, &it).is_ok())
    }
}

fn bytes(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "hex: {text}");
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

fn vector(line: &'static str) -> Vector {
    let columns: Vec<&str> = line.split('|').collect();
    let [name, key, message, signature, verdicts] = columns[..] else {
        panic!("columns are missing or too many: {line}");
    };
    let said: Vec<bool> = verdicts.chars().map(|verdict| verdict == 'y').collect();
    let [strict, lax, cofactored, openssl, sodium] = said[..] else {
        panic!("five judges: {line}");
    };
    Vector {
        name,
        key: bytes(key).try_into().expect("32 bytes"),
        message: bytes(message),
        signature: bytes(signature),
        verdicts: Verdicts {
            strict,
            lax,
            cofactored,
            openssl,
            sodium,
        },
    }
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("frozen/ed25519.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(vector)
        .collect()
}

#[test]
fn fault_045_every_vector_gets_the_verdict_of_the_strict_rule() {
    let vectors = vectors();
    for vector in &vectors {
        assert_eq!(vector.ours(), vector.verdicts.strict, "{}", vector.name);
    }
    let accepted = vectors.iter().filter(|vector| vector.ours()).count();
    assert_eq!((vectors.len(), accepted), (517, 133));
}

/// Who has a receipt checked elsewhere gets no other answer there than here.
#[test]
fn fault_045_what_is_accepted_here_is_accepted_by_every_other_verifier() {
    for vector in vectors().iter().filter(|vector| vector.ours()) {
        let all = Verdicts {
            strict: true,
            lax: true,
            cofactored: true,
            openssl: true,
            sodium: true,
        };
        assert_eq!(vector.verdicts, all, "{}", vector.name);
        assert!(vector.by_the_lax_function(), "{}", vector.name);
    }
}

/// The file is worth its place only if it holds what verifiers disagree about.
#[test]
fn fault_045_what_only_a_lenient_verifier_accepts_is_refused() {
    let vectors = vectors();
    let refused = |others: fn(&Verdicts) -> bool| {
        let disputed = vectors.iter().filter(|vector| others(&vector.verdicts));
        disputed.filter(|vector| !vector.ours()).count()
    };
    assert_eq!(refused(|other| other.lax), 28);
    assert_eq!(refused(|other| other.cofactored), 288);
    assert_eq!(refused(|other| other.openssl), 28);
    for vector in &vectors {
        let lax = vector.by_the_lax_function();
        assert_eq!(lax, vector.verdicts.lax, "{}", vector.name);
    }
}

/// FAULTS 44: a key of small order may not stand anywhere, whatever it could sign.
#[test]
fn fault_044_no_key_of_small_order_or_of_another_spelling_is_acceptable() {
    let keys = vectors()
        .into_iter()
        .filter(|it| it.name.starts_with("A=T"));
    let keys: std::collections::BTreeSet<[u8; 32]> = keys.map(|vector| vector.key).collect();
    assert_eq!(keys.len(), 14);
    for key in keys {
        assert!(check_key(&PublicKey(key)).is_err(), "{key:02x?}");
    }
}
