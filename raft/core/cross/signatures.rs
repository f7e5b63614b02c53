//! Honest statements under signatures that are not the one they should have.

use redlatch_journal::development::authenticator::{SoftAssertion, SoftAuthenticator};

use crate::bent::Bent;
use crate::parties::Given;

/// The order of P-256, big-endian (SEC 2 §2.4.2).
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6,
    0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// Signatures by another key or algorithm, of another answer, of impossible numbers, or in another spelling.
pub(crate) fn bent(good: &Given, other: &Given) -> Vec<Bent> {
    let by = |signer: SoftAuthenticator| {
        let SoftAssertion { signature, .. } = signer.sign(good.data.clone(), good.client.clone());
        signature
    };
    let stranger = SoftAuthenticator::es256(&[0x55; 32], vec![1], 0).expect("a scalar");
    let (r, s) = numbers(&good.signature);
    let der = &good.signature;
    let found: [(&str, Vec<u8>); 13] = [
        ("by another key", by(stranger)),
        (
            "by EdDSA",
            by(SoftAuthenticator::ed_dsa([0x55; 32], vec![1], 0)),
        ),
        ("of another answer", other.signature.clone()),
        ("r and s without DER", [r, s].concat()),
        ("s and r", sequence(&[&integer(&s), &integer(&r)])),
        ("r alone", sequence(&[&integer(&r)])),
        (
            "r, s and s",
            sequence(&[&integer(&r), &integer(&s), &integer(&s)]),
        ),
        ("zeros", sequence(&[&[2, 1, 0], &[2, 1, 0]])),
        ("ones", sequence(&[&[2, 1, 1], &[2, 1, 1]])),
        ("s of zero", sequence(&[&integer(&r), &[2, 1, 0]])),
        (
            "the order as s",
            sequence(&[&integer(&r), &integer(&ORDER)]),
        ),
        ("a long length", [&[0x30, 0x81], &der[1..]].concat()),
        (
            "r with another zero",
            sequence(&[&padded(&r), &integer(&s)]),
        ),
    ];
    let with = |(what, signature): (&str, Vec<u8>)| Bent {
        what: format!("signature {what}"),
        given: Given {
            signature,
            ..good.clone()
        },
    };
    found.into_iter().map(with).collect()
}

/// The other signature that the same key could have made: `(r, n - s)`. Authenticators make either (ADR 0009).
pub(crate) fn mirrored(good: &Given) -> Given {
    let (r, s) = numbers(&good.signature);
    let mut rest = ORDER;
    let mut borrowed = false;
    for (digit, less) in rest.iter_mut().zip(s).rev() {
        let (once, first) = digit.overflowing_sub(less);
        let (twice, second) = once.overflowing_sub(u8::from(borrowed));
        *digit = twice;
        borrowed = first || second;
    }
    assert!(!borrowed, "s is below the order");
    Given {
        signature: sequence(&[&integer(&r), &integer(&rest)]),
        ..good.clone()
    }
}

/// r and s out of their DER, in 32 bytes each.
fn numbers(der: &[u8]) -> ([u8; 32], [u8; 32]) {
    let (r, rest) = number(&der[2..]);
    let (s, rest) = number(rest);
    assert!(rest.is_empty(), "two numbers");
    (r, s)
}

fn number(der: &[u8]) -> ([u8; 32], &[u8]) {
    assert_eq!(der[0], 2, "an INTEGER");
    let (value, rest) = der[2..].split_at(usize::from(der[1]));
    let value = value.strip_prefix(&[0]).unwrap_or(value);
    let mut found = [0; 32];
    found[32 - value.len()..].copy_from_slice(value);
    (found, rest)
}

fn integer(value: &[u8; 32]) -> Vec<u8> {
    let start = value.iter().position(|it| *it != 0).expect("not zero");
    let sign: &[u8] = if value[start] < 0x80 { &[] } else { &[0] };
    element(2, &[sign, &value[start..]].concat())
}

/// With one zero more than DER has it.
fn padded(value: &[u8; 32]) -> Vec<u8> {
    let canonical = integer(value);
    element(2, &[&[0], &canonical[2..]].concat())
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

fn element(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("short");
    assert!(length < 0x80, "the short form");
    [&[tag, length], value].concat()
}
