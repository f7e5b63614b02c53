//! Every rule by a case that breaks it alone, every bit, and the vectors of the specification.

mod properties;
mod vectors;

use std::collections::BTreeSet;

use super::*;
use crate::development::authenticator::{SoftAuthenticator, client_data};

pub(super) const RP_ID: &str = "ops.redlatch.test";
pub(super) const ORIGIN: &str = "https://ops.redlatch.test";

pub(super) const UP: u8 = 0x01;
pub(super) const UV: u8 = 0x04;
pub(super) const BE: u8 = 0x08;
pub(super) const BS: u8 = 0x10;
pub(super) const AT: u8 = 0x40;
pub(super) const ED: u8 = 0x80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Es256,
    EdDsa,
}

/// One assertion and the credential it claims, each part to be changed alone.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) credential_id: Vec<u8>,
    pub(super) enrolled_id: Vec<u8>,
    pub(super) rp_id: String,
    pub(super) flags: u8,
    pub(super) counter: u32,
    pub(super) after: Vec<u8>,
    pub(super) client_data: Vec<u8>,
    pub(super) last_counter: u32,
    pub(super) backup_eligible: bool,
    pub(super) origins: Vec<&'static str>,
    /// The last word on authenticator data and signature.
    pub(super) cut: fn(&mut Vec<u8>),
    pub(super) resign: fn(Vec<u8>) -> Vec<u8>,
}

pub(super) fn challenge() -> Digest {
    Digest::of(b"the challenge")
}

impl Case {
    pub(super) fn good() -> Case {
        Case {
            credential_id: vec![1, 2, 3],
            enrolled_id: vec![1, 2, 3],
            rp_id: RP_ID.to_owned(),
            flags: UP | UV,
            counter: 5,
            after: Vec::new(),
            client_data: client_data(ORIGIN, &challenge()),
            last_counter: 4,
            backup_eligible: false,
            origins: vec!["https://other.test", ORIGIN],
            cut: |_| {},
            resign: |signature| signature,
        }
    }

    pub(super) fn set(change: impl FnOnce(&mut Case)) -> Case {
        let mut case = Case::good();
        change(&mut case);
        case
    }

    /// Client data with `text` in place of `was`.
    pub(super) fn says(was: &str, text: &str) -> Case {
        let good = String::from_utf8(Case::good().client_data).unwrap();
        assert!(good.contains(was), "{good} has no {was}");
        Case::set(|case| case.client_data = good.replace(was, text).into_bytes())
    }

    /// Signed after every change, except those of `cut` and `resign`.
    pub(super) fn judged_as(&self, algorithm: Algorithm) -> Result<Verified, AssertionRefused> {
        let id = self.credential_id.clone();
        let authenticator = match algorithm {
            Algorithm::Es256 => SoftAuthenticator::es256(&[9; 32], id, 0).unwrap(),
            Algorithm::EdDsa => SoftAuthenticator::ed_dsa([9; 32], id, 0),
        };
        let mut data = Digest::of(self.rp_id.as_bytes()).0.to_vec();
        data.push(self.flags);
        data.extend_from_slice(&self.counter.to_be_bytes());
        data.extend_from_slice(&self.after);
        (self.cut)(&mut data);
        let answer = authenticator.sign(data, self.client_data.clone());
        let signature = (self.resign)(answer.signature.clone());
        let credential = Credential {
            id: &self.enrolled_id,
            key: &authenticator.public_key().unwrap(),
            rp_id: RP_ID,
            origins: &self.origins,
            counter: self.last_counter,
            backup_eligible: self.backup_eligible,
        };
        let assertion = Assertion {
            signature: &signature,
            ..answer.as_assertion()
        };
        verify(&credential, &challenge(), &assertion)
    }

    /// As both algorithms agree.
    pub(super) fn judged(&self) -> Result<Verified, AssertionRefused> {
        let first = self.judged_as(Algorithm::Es256);
        assert_eq!(first, self.judged_as(Algorithm::EdDsa));
        first
    }
}

/// Every reason with the cases that are refused for it and for nothing else.
fn refusals() -> Vec<(AssertionRefused, Case)> {
    use AssertionRefused::*;
    let set = |change: fn(&mut Case)| Case::set(change);
    let says = Case::says;
    let challenge_text = {
        let text = String::from_utf8(Case::good().client_data).unwrap();
        text.split('"').nth(7).unwrap().to_owned()
    };
    let with_challenge = |text: String| says(&challenge_text, &text);
    vec![
        (OtherCredential, set(|c| c.credential_id = vec![1, 2, 4])),
        (OtherCredential, set(|c| c.credential_id = vec![1, 2])),
        (OtherCredential, set(|c| c.credential_id = vec![])),
        (
            TooLong,
            says(
                "false}",
                &format!("false{}}}", " ".repeat(CLIENT_DATA_LEN_MAX)),
            ),
        ),
        (
            TooLong,
            set(|c| {
                c.flags |= ED;
                c.after = [vec![0xa1, 0x61, 0x61, 0x59, 0x04, 0x00], vec![0; 1024]].concat();
            }),
        ),
        (ClientDataMalformed, set(|c| c.client_data = Vec::new())),
        (ClientDataMalformed, set(|c| c.client_data.insert(0, 0xff))),
        (ClientDataMalformed, says("}", "},")),
        (ClientDataMalformed, says("\"type\"", "\"kind\"")),
        (ClientDataMalformed, says("\"challenge\"", "\"Challenge\"")),
        (ClientDataMalformed, says("\"origin\"", "\"orig\"")),
        (ClientDataMalformed, says("\"webauthn.get\"", "true")),
        (ClientDataMalformed, says(&format!("\"{ORIGIN}\""), "null")),
        (ClientDataMalformed, says("false", "null")),
        (ClientDataMalformed, says("false", "\"false\"")),
        (ClientDataMalformed, says("false", "0")),
        (
            DuplicateName,
            says("false}", "false,\"type\":\"webauthn.get\"}"),
        ),
        (DuplicateName, says("false}", "false,\"\\u0074ype\":1}")),
        (
            DuplicateName,
            says("false}", "false,\"x\":{\"y\":1,\"y\":1}}"),
        ),
        (WrongType, says("webauthn.get", "webauthn.create")),
        (WrongType, says("webauthn.get", "payment.get")),
        (WrongType, says("webauthn.get", "webauthn.get ")),
        (WrongType, says("webauthn.get", "")),
        (
            ChallengeMalformed,
            with_challenge(format!("{challenge_text}=")),
        ),
        (
            ChallengeMalformed,
            with_challenge(challenge_text.clone() + "AA"),
        ),
        (
            ChallengeMalformed,
            with_challenge(challenge_text[..42].to_owned()),
        ),
        (ChallengeMalformed, with_challenge(String::new())),
        (
            ChallengeMalformed,
            with_challenge(stray_bits(&challenge_text)),
        ),
        (
            ChallengeMalformed,
            with_challenge(format!("+{}", &challenge_text[1..])),
        ),
        (
            ChallengeMalformed,
            with_challenge(format!("{} ", &challenge_text[..42])),
        ),
        (
            WrongChallenge,
            with_challenge(format!("{}A", &challenge_text[..42])),
        ),
        (WrongChallenge, with_challenge("A".repeat(43))),
        (
            WrongOrigin,
            says(ORIGIN, "https://ops.redlatch.test.evil.example"),
        ),
        (WrongOrigin, says(ORIGIN, "http://ops.redlatch.test")),
        (WrongOrigin, says(ORIGIN, "https://OPS.redlatch.test:444")),
        (WrongOrigin, says(ORIGIN, "https://OPS.redlatch.test")),
        (WrongOrigin, says(ORIGIN, "https://ops.redlatch.test/")),
        (WrongOrigin, says(ORIGIN, "https://redlatch.test")),
        (WrongOrigin, says(ORIGIN, "null")),
        (WrongOrigin, says(ORIGIN, "")),
        (WrongOrigin, set(|c| c.origins.clear())),
        (WrongOrigin, set(|c| c.origins.truncate(1))),
        (CrossOrigin, says("false", "true")),
        (
            TopOrigin,
            says("false}", "false,\"topOrigin\":\"https://top.test\"}"),
        ),
        (TopOrigin, says("false}", "false,\"topOrigin\":null}")),
        (
            TopOrigin,
            says("false}", &format!("false,\"topOrigin\":\"{ORIGIN}\"}}")),
        ),
        (
            AuthenticatorDataTruncated,
            set(|c| c.cut = |data| data.truncate(36)),
        ),
        (
            AuthenticatorDataTruncated,
            set(|c| c.cut = |data| data.truncate(32)),
        ),
        (
            AuthenticatorDataTruncated,
            set(|c| c.cut = |data| data.truncate(31)),
        ),
        (AuthenticatorDataTruncated, set(|c| c.cut = Vec::clear)),
        (
            WrongRelyingParty,
            set(|c| c.rp_id = "redlatch.test".to_owned()),
        ),
        (WrongRelyingParty, set(|c| c.rp_id = ORIGIN.to_owned())),
        (UserNotPresent, set(|c| c.flags = UV)),
        (UserNotPresent, set(|c| c.flags = 0)),
        (UserNotVerified, set(|c| c.flags = UP)),
        (ReservedFlags, set(|c| c.flags |= 0x02)),
        (ReservedFlags, set(|c| c.flags |= 0x20)),
        (AttestedCredential, set(|c| c.flags |= AT)),
        (
            AttestedCredential,
            set(|c| {
                c.flags |= AT;
                c.after = [vec![0; 16], vec![0, 1, 9], vec![0xa0]].concat();
            }),
        ),
        (BackedUpIneligible, set(|c| c.flags |= BS)),
        (
            BackedUpIneligible,
            set(|c| {
                c.flags |= BS;
                c.backup_eligible = true;
            }),
        ),
        (EligibilityChanged, set(|c| c.flags |= BE)),
        (EligibilityChanged, set(|c| c.backup_eligible = true)),
        (ExtensionsMalformed, set(|c| c.flags |= ED)),
        (
            ExtensionsMalformed,
            set(|c| {
                c.flags |= ED;
                c.after = vec![0xa0, 0x00];
            }),
        ),
        (TrailingBytes, set(|c| c.after = vec![0xa0])),
        (TrailingBytes, set(|c| c.after = vec![0x00])),
        (SignatureMalformed, set(|c| c.resign = |_| Vec::new())),
        (
            SignatureMalformed,
            set(|c| c.resign = |signature| [signature, vec![0]].concat()),
        ),
        (
            SignatureMalformed,
            set(|c| c.resign = |signature| signature[..signature.len() - 1].to_vec()),
        ),
        (
            BadSignature,
            set(|c| {
                c.resign = |mut signature| {
                    // Inside of r (R), which stays a scalar (a point or not).
                    signature[10] ^= 1;
                    signature
                };
            }),
        ),
        (CounterNotGreater, set(|c| c.last_counter = 5)),
        (CounterNotGreater, set(|c| c.last_counter = 6)),
        (CounterNotGreater, set(|c| c.counter = 0)),
        (CounterNotGreater, set(|c| c.last_counter = u32::MAX)),
    ]
}

/// The same 32 bytes for a decoder that ignores the last two bits.
fn stray_bits(text: &str) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (start, last) = text.split_at(42);
    let at = ALPHABET.find(last).unwrap();
    assert_eq!(at % 4, 0, "canonical");
    format!("{start}{}", &ALPHABET[at + 1..at + 2])
}

#[test]
fn a_good_assertion_is_accepted() {
    let verified = Verified {
        counter: 5,
        backup_eligible: false,
        backed_up: false,
    };
    assert_eq!(Case::good().judged(), Ok(verified));
}

#[test]
fn fault_065_every_rule_refuses_alone() {
    let mut reasons = BTreeSet::new();
    for (index, (reason, case)) in refusals().into_iter().enumerate() {
        assert_eq!(case.judged(), Err(reason), "case {index}");
        reasons.insert(reason);
    }
    assert!(
        reasons.iter().eq(AssertionRefused::ALL),
        "a reason has no case"
    );
}

/// Admission asks for the signature alone, and reads no more than the whole check does.
#[test]
fn fault_094_the_signature_alone_is_not_asked_for_over_more_than_an_honest_length() {
    let signer = SoftAuthenticator::ed_dsa([9; 32], vec![1], 0);
    let key = signer.public_key().unwrap();
    let data = |longer: usize| {
        let mut data = vec![0; 37];
        data[32] = UP | UV | ED;
        let body = AUTHENTICATOR_DATA_LEN_MAX - 37 - 6 + longer;
        data.extend([0xa1, 0x61, 0x61, 0x59]);
        data.extend(u16::try_from(body).unwrap().to_be_bytes());
        data.extend(vec![0; body]);
        data
    };
    for (longer, refused) in [(0, false), (1, true)] {
        let answer = signer.sign(data(longer), Vec::new());
        let shown = check_signature(&key, &answer.as_assertion());
        assert_eq!(shown == Err(AssertionRefused::TooLong), refused);
        assert_eq!(shown.is_ok(), !refused);
        let answer = signer.sign(vec![0; 37], vec![b' '; CLIENT_DATA_LEN_MAX + longer]);
        let shown = check_signature(&key, &answer.as_assertion());
        assert_eq!(shown == Err(AssertionRefused::TooLong), refused);
    }
}

#[test]
fn codes_are_distinct() {
    let codes: BTreeSet<_> = AssertionRefused::ALL.iter().map(|r| r.code()).collect();
    assert_eq!(codes.len(), AssertionRefused::ALL.len());
}

#[test]
fn what_the_specification_leaves_open_is_accepted() {
    for case in [
        Case::says(",\"crossOrigin\":false", ""),
        Case::says("{\"type\":\"webauthn.get\",", "{ ").with_type_last(),
        Case::says("false}", "false,\"x\":[{\"y\":1.5e3},null,\"type\"]}"),
        Case::says(
            "false}",
            "false,\"tokenBinding\":{\"status\":\"supported\"}}",
        ),
        Case::says("https:", "https\\u003a"),
        Case::says(ORIGIN, "https://other.test"),
    ] {
        assert!(
            case.judged().is_ok(),
            "{:?}",
            case.client_data.escape_ascii().to_string()
        );
    }
    let longest = CLIENT_DATA_LEN_MAX - Case::good().client_data.len();
    let case = Case::says("false}", &format!("false{}}}", " ".repeat(longest)));
    assert!(case.judged().is_ok());
}

impl Case {
    fn with_type_last(mut self) -> Case {
        self.client_data.pop();
        self.client_data
            .extend_from_slice(b" , \"type\" : \"webauthn.get\" } ");
        self
    }
}

#[test]
fn backup_flags_are_reported() {
    for (flags, backed_up) in [(BE, false), (BE | BS, true)] {
        let case = Case::set(|c| {
            c.flags |= flags;
            c.backup_eligible = true;
        });
        let verified = case.judged().unwrap();
        assert_eq!(
            (verified.backup_eligible, verified.backed_up),
            (true, backed_up)
        );
    }
}

#[test]
fn extensions_are_read_to_the_last_byte() {
    let with = |after: &[u8]| {
        Case::set(|c| {
            c.flags |= ED;
            c.after = after.to_vec();
        })
        .judged()
    };
    assert!(with(&[0xa0]).is_ok());
    assert!(with(b"\xa1\x63uvi\x01").is_ok());
    let longest = AUTHENTICATOR_DATA_LEN_MAX - 37 - 6;
    let bytes = [&b"\xa1\x61a\x59\x03\xd5"[..], &vec![0; longest]].concat();
    assert!(with(&bytes).is_ok());
}

#[test]
fn counters_of_an_authenticator_that_never_counts_stay_zero() {
    let judge = |last, now| {
        Case::set(|c| (c.last_counter, c.counter) = (last, now))
            .judged()
            .map(|verified| verified.counter)
    };
    assert_eq!(judge(0, 0), Ok(0));
    assert_eq!(judge(0, 1), Ok(1));
    assert_eq!(judge(u32::MAX - 1, u32::MAX), Ok(u32::MAX));
    assert_eq!(judge(1, 0), Err(AssertionRefused::CounterNotGreater));
    assert_eq!(judge(1, 1), Err(AssertionRefused::CounterNotGreater));
}

/// A forged counter must not make anybody look for a clone.
#[test]
fn the_signature_is_checked_before_the_counter() {
    let case = Case::set(|c| {
        c.counter = 1;
        c.resign = |mut signature| {
            signature[10] ^= 1;
            signature
        };
    });
    assert_eq!(case.judged(), Err(AssertionRefused::BadSignature));
}

#[test]
fn a_signature_of_the_other_algorithm_is_refused() {
    let es256 = SoftAuthenticator::es256(&[9; 32], vec![1], 0).unwrap();
    let ed_dsa = SoftAuthenticator::ed_dsa([9; 32], vec![1], 0);
    for (signer, owner) in [(&es256, &ed_dsa), (&ed_dsa, &es256)] {
        let answer = signer.sign(vec![0; 37], vec![]);
        let message = signed_bytes(&answer.as_assertion());
        let key = owner.public_key().unwrap();
        let refused = Err(AssertionRefused::SignatureMalformed);
        assert_eq!(key.verify(&message, &answer.signature), refused);
    }
}
