//! Assertions built, signed and judged by others (`frozen/make_webauthn.py`) against this check.

use redlatch_journal::webauthn::{
    Assertion, AssertionRefused, Credential, CredentialKey, Verified, verify,
};

/// Rules by which an assertion is refused that other relying parties let pass (ADR 0009).
const STRICTER: [AssertionRefused; 7] = [
    AssertionRefused::DuplicateName,
    AssertionRefused::ChallengeMalformed,
    AssertionRefused::CrossOrigin,
    AssertionRefused::TopOrigin,
    AssertionRefused::ReservedFlags,
    AssertionRefused::EligibilityChanged,
    AssertionRefused::ExtensionsMalformed,
];

struct Line {
    name: &'static str,
    expected: &'static str,
    /// Whether each other relying party accepts.
    others: [bool; 2],
    judged: Result<Verified, AssertionRefused>,
}

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).expect("the file is hexadecimal")
}

fn line(text: &'static str) -> Line {
    let columns: Vec<&str> = text.split('|').collect();
    let [
        name,
        expected,
        fido2,
        webauthn,
        counter,
        key,
        challenge,
        rest @ ..,
    ] = &columns[..]
    else {
        panic!("columns are missing: {text}");
    };
    let [authenticator_data, client_data_json, signature] = rest else {
        panic!("columns are missing or too many: {text}");
    };
    let key = CredentialKey::from_cose(&bytes(key)).expect("the file has good keys");
    let credential = Credential {
        id: &[7; 16],
        key: &key,
        rp_id: "ops.redlatch.test",
        origins: &["https://ops.redlatch.test"],
        counter: counter.parse().expect("a counter"),
        backup_eligible: false,
    };
    let assertion = Assertion {
        credential_id: &[7; 16],
        authenticator_data: &bytes(authenticator_data),
        client_data_json: &bytes(client_data_json),
        signature: &bytes(signature),
    };
    let challenge = challenge.parse().expect("a digest");
    Line {
        name,
        expected,
        others: [fido2, webauthn].map(|verdict| *verdict == "accepts"),
        judged: verify(&credential, &challenge, &assertion),
    }
}

fn lines() -> impl Iterator<Item = Line> {
    let text = include_str!("frozen/webauthn.txt").lines();
    text.filter(|text| !text.starts_with('#')).map(line)
}

#[test]
fn assertions_made_by_others_get_the_expected_verdict() {
    let mut accepted = 0;
    for line in lines() {
        let judged = match line.judged {
            Ok(_) => "accepted",
            Err(refused) => refused.code(),
        };
        assert_eq!(judged, line.expected, "{}", line.name);
        accepted += usize::from(line.judged.is_ok());
    }
    assert!(accepted >= 25, "only {accepted} good assertions");
}

#[test]
fn nothing_is_accepted_that_another_relying_party_refuses() {
    for line in lines().filter(|line| line.judged.is_ok()) {
        assert_eq!(line.others, [true, true], "{}", line.name);
    }
}

#[test]
fn what_both_others_accept_is_refused_only_by_a_stricter_rule() {
    for line in lines().filter(|line| line.others == [true, true]) {
        if let Err(refused) = line.judged {
            assert!(STRICTER.contains(&refused), "{}: {refused}", line.name);
        }
    }
}
