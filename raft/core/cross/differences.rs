//! Where redlatch refuses what the other relying party accepts, and why that is meant (ADR 0009, ADR 0016).
//!
//! In the other direction there is one difference: an EdDSA credential. They read its key and judge none of its
//! signatures, because their curve library has no Ed25519. redlatch judges it by its one Ed25519 check, which
//! `proto/types/tests/signatures.rs` holds against others. Apart from that, what they refuse, redlatch refuses.

use serde_json::Value;
use url::Url;

use crate::bent::{ATTESTED, EXTENSIONS, FLAGS_AT, RESERVED};
use crate::parties::{Given, ORIGIN};

pub(crate) struct Explained {
    /// The code of our refusal.
    pub(crate) code: &'static str,
    /// Whether the answer has what the reason speaks of. Anything else under this code is unexplained.
    pub(crate) shows: fn(&Given) -> bool,
    /// Why redlatch does not take it.
    pub(crate) reason: &'static str,
}

pub(crate) const EXPLAINED: &[Explained] = &[
    Explained {
        code: "wrong_origin",
        shows: |given| {
            let said = member(given, "origin");
            let said = said.as_str().and_then(|text| Url::parse(text).ok());
            said.is_some_and(|it| it.origin() == Url::parse(ORIGIN).expect("a URL").origin())
        },
        reason: "They compare parsed URLs. A browser writes an origin in one way; another spelling is not from a browser.",
    },
    Explained {
        code: "challenge_malformed",
        shows: |given| {
            let said = member(given, "challenge");
            said.as_str().is_some_and(|text| text.ends_with('='))
        },
        reason: "They take padding. A browser writes none (WebAuthn §5.8.1), and a challenge has one spelling.",
    },
    Explained {
        code: "cross_origin",
        shows: |given| member(given, "crossOrigin") == Value::Bool(true),
        reason: "They look at it at enrolment only. A page that frames ours shall not lead a person to approve.",
    },
    Explained {
        code: "top_origin",
        shows: |given| !member(given, "topOrigin").is_null(),
        reason: "They do not know the member, which is newer. It says that a frame asked.",
    },
    Explained {
        code: "client_data_malformed",
        shows: |given| !member(given, "crossOrigin").is_boolean(),
        reason: "They read null as absent. The member is a boolean.",
    },
    Explained {
        code: "duplicate_name",
        shows: |given| {
            String::from_utf8_lossy(&given.client)
                .matches("\"extra\"")
                .count()
                > 1
        },
        reason: "They take the last of two members that they do not know. Two readers could take different ones.",
    },
    Explained {
        code: "reserved_flags",
        shows: |given| flags(given) & RESERVED != 0,
        reason: "They ignore the bits. What they will mean is not known to who approves today.",
    },
    Explained {
        code: "attested_credential",
        shows: |given| flags(given) & ATTESTED != 0,
        reason: "They read a new credential and leave it. An assertion never has one.",
    },
    Explained {
        code: "extensions_malformed",
        shows: |given| flags(given) & EXTENSIONS != 0,
        reason: "They take any CBOR that they can read. Only canonical CBOR has one meaning.",
    },
    Explained {
        code: "trailing_bytes",
        shows: |given| given.data.len() > 37 && flags(given) & (ATTESTED | EXTENSIONS) == 0,
        reason: "They do not look behind what they read. Signed bytes without meaning are refused.",
    },
];

fn flags(given: &Given) -> u8 {
    given.data.get(FLAGS_AT).copied().unwrap_or_default()
}

fn member(given: &Given, name: &str) -> Value {
    let client: Value = serde_json::from_slice(&given.client).unwrap_or_default();
    client[name].clone()
}
