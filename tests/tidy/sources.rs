//! What a source file says and does not say.

use crate::finding::{Finding, none, places};
use crate::source::{self, Source, mentions};

/// Folders of the pure crates (DESIGN §10).
const CORES: [&str; 4] = [
    "proto/types/src/",
    "raft/core/src/",
    "quorum/core/src/",
    "sentinel/core/src/",
];

/// Words that no core knows: clocks, randomness, runtime, I/O, unordered maps, floats, panics (D3).
const BANNED_IN_CORES: [&str; 20] = [
    "SystemTime",
    "Instant::now",
    "thread_rng",
    "OsRng",
    "getrandom",
    "tokio",
    "tonic",
    "async fn",
    "HashMap",
    "HashSet",
    "f32",
    "f64",
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "println!",
    "eprintln!",
    ".unwrap()",
    "unsafe",
];

/// The one file with the one Ed25519 verification (D5).
const VERIFIER: &str = "proto/types/src/sign.rs";

/// Names that only verification has.
const VERIFICATIONS: [&str; 5] = [
    "verify_strict(",
    "verify_prehashed(",
    "verify_batch(",
    "raw_verify(",
    "raw_verify_prehashed(",
];

/// Words by which a library says what it does not do.
const DENIALS: [&str; 4] = ["not", "no", "never", "nothing"];

fn opens_with_purpose(sources: &[Source]) -> Vec<Finding> {
    let silent = sources.iter().filter(|source| {
        let first = source.lines.first().map_or("", |line| line.raw.as_str());
        !first.starts_with("//! ")
    });
    silent
        .map(|source| Finding::new(&source.path, 1, "does not open with //!"))
        .collect()
}

fn libraries_open_with_a_picture(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|it| it.path.ends_with("/lib.rs")) {
        let opening: Vec<&str> = source
            .lines
            .iter()
            .map(|line| line.raw.as_str())
            .take_while(|line| line.starts_with("//!"))
            .collect();
        if !opening.iter().any(|line| line.starts_with("//! ```text")) {
            findings.push(Finding::new(&source.path, 1, "no ```text diagram in //!"));
        }
        let opening = opening.join(" ").to_lowercase();
        if !DENIALS.iter().any(|word| mentions(&opening, word)) {
            findings.push(Finding::new(
                &source.path,
                1,
                "does not say what it does not do",
            ));
        }
    }
    findings
}

fn banned_in_cores(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let cores = sources
        .iter()
        .filter(|source| CORES.iter().any(|core| source.path.starts_with(core)));
    for source in cores {
        for (number, code) in source.production() {
            let attribute = code.trim_start().starts_with("#!");
            for word in BANNED_IN_CORES {
                if !attribute && mentions(code, word) {
                    findings.push(Finding::new(&source.path, number, word));
                }
            }
        }
    }
    findings
}

/// Production lines that call a verification of ed25519-dalek.
fn verifications(sources: &[Source]) -> Vec<Finding> {
    let mut calls = Vec::new();
    for source in sources {
        let dalek = source
            .production()
            .any(|(_, code)| code.contains("ed25519_dalek"));
        for (number, code) in source.production() {
            let by_name = VERIFICATIONS.iter().any(|name| code.contains(name));
            let by_trait = dalek && (code.contains(".verify(") || mentions(code, "Verifier"));
            if by_name || by_trait {
                calls.push(Finding::new(&source.path, number, code.trim()));
            }
        }
    }
    calls
}

fn one_verification(sources: &[Source]) -> Vec<Finding> {
    let calls = verifications(sources);
    if places(&calls)
        .iter()
        .filter(|(path, _)| *path == VERIFIER)
        .count()
        == 0
    {
        return vec![Finding::new(
            VERIFIER,
            0,
            "the one verification is not here",
        )];
    }
    let (mut here, elsewhere): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|call| call.path == VERIFIER);
    here.drain(..1);
    here.into_iter().chain(elsewhere).collect()
}

/// `SigningNonces` of the FROST library, without our type around it, in more than one file (D13).
fn bare_nonces(sources: &[Source]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for source in sources.iter().filter(|it| it.shipped()) {
        for (number, code) in source.production() {
            if mentions(code, "SigningNonces") {
                findings.push(Finding::new(&source.path, number, code.trim()));
            }
        }
    }
    let first = findings.first().map(|it| it.path.clone());
    findings.retain(|it| Some(&it.path) != first.as_ref());
    findings
}

#[test]
fn every_file_opens_with_its_purpose() {
    none(
        opens_with_purpose(&source::all()),
        "Begin the file with `//! ` and one sentence: what it is, and what it does not do.",
    );
}

#[test]
fn every_library_opens_with_a_picture() {
    none(
        libraries_open_with_a_picture(&source::all()),
        "A lib.rs opens with what it is, a small diagram in ```text, and what it does not do.",
    );
}

#[test]
fn cores_know_no_clock_no_chance_and_no_runtime() {
    none(
        banned_in_cores(&source::all()),
        "Cores are pure (D3): take time and randomness as arguments, use BTreeMap, return errors.",
    );
}

#[test]
fn there_is_one_ed25519_verification() {
    none(
        one_verification(&source::all()),
        "Call redlatch_types::sign::verify (D5): a second verification accepts something else.",
    );
}

#[test]
fn signing_nonces_have_one_home() {
    none(
        bare_nonces(&source::all()),
        "Use the consuming nonce type of the signing session (D13); it has neither Clone nor serde.",
    );
}

mod bad_examples {
    use super::*;

    #[test]
    fn a_silent_file_is_found() {
        let sources = [
            Source::parse("a/src/x.rs", "// no\n"),
            Source::parse("a/src/y.rs", "//! Yes.\n"),
            Source::parse("a/src/z.rs", ""),
        ];
        let found = opens_with_purpose(&sources);
        assert_eq!(places(&found), [("a/src/x.rs", 1), ("a/src/z.rs", 1)]);
    }

    #[test]
    fn a_library_without_picture_or_limits_is_found() {
        let good = "//! A.\n//! ```text\n//! a -> b\n//! ```\n//! It does not c.\n";
        let sources = [
            Source::parse("a/src/lib.rs", "//! A.\n"),
            Source::parse("b/src/lib.rs", good),
        ];
        assert_eq!(libraries_open_with_a_picture(&sources).len(), 2);
    }

    #[test]
    fn banned_words_in_a_core_are_found_outside_tests_only() {
        let text = "//! Uses no HashMap.\nuse std::collections::HashMap;\nlet a: f64 = b.unwrap();\n#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}\n";
        let sources = [
            Source::parse("raft/core/src/a.rs", text),
            Source::parse("raft/src/a.rs", text),
        ];
        let found = banned_in_cores(&sources);
        let here = "raft/core/src/a.rs";
        assert_eq!(places(&found), [(here, 2), (here, 3), (here, 3)]);
    }

    #[test]
    fn a_second_verification_is_found() {
        let one = Source::parse(VERIFIER, "key.verify_strict(m, &s)\n");
        let other = Source::parse(
            "node/src/a.rs",
            "use ed25519_dalek::VerifyingKey;\nkey.verify(m, &s);\nour.verify(m);\n",
        );
        let ours = Source::parse(
            "node/src/b.rs",
            "sign::verify(k, m, s);\nreceipt.verify(m);\n",
        );
        assert_eq!(one_verification(&[one.clone(), ours]), []);
        let found = one_verification(&[one.clone(), other]);
        assert_eq!(places(&found), [("node/src/a.rs", 2), ("node/src/a.rs", 3)]);
        let twice = Source::parse(
            VERIFIER,
            "k.verify_strict(m, &s);\nk.verify_strict(m, &s);\n",
        );
        assert_eq!(places(&one_verification(&[twice])), [(VERIFIER, 2)]);
    }

    #[test]
    fn a_verifier_without_verification_is_found() {
        let empty = Source::parse(VERIFIER, "Ok(())\n");
        assert_eq!(places(&one_verification(&[empty])), [(VERIFIER, 0)]);
    }

    #[test]
    fn nonces_in_a_second_file_are_found() {
        let home = Source::parse("quorum/core/src/nonce.rs", "struct N(SigningNonces);\n");
        let store = Source::parse("quorum/src/store.rs", "fn keep(n: &SigningNonces) {}\n");
        assert_eq!(bare_nonces(std::slice::from_ref(&home)), []);
        assert_eq!(
            places(&bare_nonces(&[home, store])),
            [("quorum/src/store.rs", 1)]
        );
    }
}
