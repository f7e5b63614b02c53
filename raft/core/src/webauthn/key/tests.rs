//! Keys that may be enrolled, keys that may not, and how their signatures are spelled.

use super::*;
use crate::development::authenticator::SoftAuthenticator;

/// Base point of P-256 (SEC 2 §2.4.2): the key of the secret 1.
const GX: &str = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
const GY: &str = "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
/// The prime of P-256.
const P: &str = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";
/// The order of P-256.
const N: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text.replace(' ', "")).unwrap()
}

fn key_of(secret: [u8; 32]) -> (SoftAuthenticator, CredentialKey) {
    let authenticator = SoftAuthenticator::es256(&secret, vec![1], 0).unwrap();
    let key = authenticator.public_key().unwrap();
    (authenticator, key)
}

#[test]
fn both_kinds_have_one_encoding() {
    let point = CredentialKey::es256(&hex(&format!("04{GX}{GY}"))).unwrap();
    let cose = hex(&format!("a5 01 02 03 26 20 01 21 5820 {GX} 22 5820 {GY}"));
    assert_eq!(point.to_cose(), cose);
    assert_eq!(CredentialKey::from_cose(&cose), Ok(point));

    let key = ed25519([1; 32]);
    let cose = [hex("a4 01 01 03 27 20 06 21 5820"), key.0.to_vec()].concat();
    let ed_dsa = CredentialKey::ed_dsa(key).unwrap();
    assert_eq!(ed_dsa.to_cose(), cose);
    assert_eq!(CredentialKey::from_cose(&cose), Ok(ed_dsa));
}

fn ed25519(seed: [u8; 32]) -> PublicKey {
    redlatch_types::SigningKey::from_seed(seed).public_key()
}

#[test]
fn bad_points_of_p256_are_refused() {
    let zero = "00".repeat(32);
    for (what, bytes) in [
        ("identity", "00".to_owned()),
        ("identity, padded", format!("00{zero}{zero}")),
        ("origin", format!("04{zero}{zero}")),
        ("compressed, even", format!("02{GX}")),
        ("compressed, odd", format!("03{GX}")),
        ("compact", format!("05{GX}")),
        ("hybrid, odd", format!("07{GX}{GY}")),
        ("hybrid, even", format!("06{GX}{GY}")),
        ("not on the curve", format!("04{GX}{GX}")),
        ("no field element", format!("04{GX}{P}")),
        ("x = p", format!("04{P}{GY}")),
        ("short", format!("04{GX}{}", &GY[2..])),
        ("long", format!("04{GX}{GY}00")),
        ("tag missing", format!("{GX}{GY}")),
        ("nothing", String::new()),
    ] {
        assert_eq!(
            CredentialKey::es256(&hex(&bytes)),
            Err(BadCredentialKey),
            "{what}"
        );
    }
}

#[test]
fn fault_044_bad_points_of_ed25519_are_refused() {
    for bytes in [
        format!("01{}", "00".repeat(31)),
        "00".repeat(32),
        format!("{}80", "00".repeat(31)),
        format!("ec{}7f", "ff".repeat(30)),
        format!("ee{}7f", "ff".repeat(30)),
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05".to_owned(),
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa".to_owned(),
        format!("02{}", "00".repeat(31)),
    ] {
        let cose = [hex("a4 01 01 03 27 20 06 21 5820"), hex(&bytes)].concat();
        assert_eq!(
            CredentialKey::from_cose(&cose),
            Err(BadCredentialKey),
            "{bytes}"
        );
    }
}

#[test]
fn fault_049_every_other_cose_key_is_refused() {
    let ed = hex::encode(ed25519([1; 32]).0);
    for (what, text) in [
        ("nothing", String::new()),
        ("empty map", "a0".to_owned()),
        (
            "y as a sign",
            format!("a5 01 02 03 26 20 01 21 5820 {GX} 22 f5"),
        ),
        ("no y", format!("a4 01 02 03 26 20 01 21 5820 {GX}")),
        (
            "no algorithm",
            format!("a4 01 02 20 01 21 5820 {GX} 22 5820 {GY}"),
        ),
        (
            "ES384",
            format!("a5 01 02 03 38 22 20 01 21 5820 {GX} 22 5820 {GY}"),
        ),
        (
            "P-384",
            format!("a5 01 02 03 26 20 02 21 5820 {GX} 22 5820 {GY}"),
        ),
        (
            "secp256k1",
            format!("a5 01 02 03 26 20 08 21 5820 {GX} 22 5820 {GY}"),
        ),
        (
            "EdDSA on P-256",
            format!("a5 01 02 03 27 20 01 21 5820 {GX} 22 5820 {GY}"),
        ),
        (
            "order",
            format!("a5 03 26 01 02 20 01 21 5820 {GX} 22 5820 {GY}"),
        ),
        (
            "longer head",
            format!("a5 01 02 03 26 20 01 21 590020 {GX} 22 5820 {GY}"),
        ),
        (
            "indefinite",
            format!("bf 01 02 03 26 20 01 21 5820 {GX} 22 5820 {GY} ff"),
        ),
        (
            "trailing",
            format!("a5 01 02 03 26 20 01 21 5820 {GX} 22 5820 {GY} 00"),
        ),
        (
            "private part",
            format!("a6 01 02 03 26 20 01 21 5820 {GX} 22 5820 {GY} 23 41 01"),
        ),
        (
            "not on the curve",
            format!("a5 01 02 03 26 20 01 21 5820 {GX} 22 5820 {GX}"),
        ),
        (
            "short y",
            format!("a5 01 02 03 26 20 01 21 5820 {GX} 22 581f {}", &GY[2..]),
        ),
        ("X25519", format!("a4 01 01 03 27 20 04 21 5820 {ed}")),
        ("Ed448", format!("a4 01 01 03 27 20 07 21 5820 {ed}")),
        ("ES256 on OKP", format!("a4 01 01 03 26 20 06 21 5820 {ed}")),
        ("trailing", format!("a4 01 01 03 27 20 06 21 5820 {ed} 00")),
        (
            "short x",
            format!("a4 01 01 03 27 20 06 21 581f {}", &ed[2..]),
        ),
        ("RSA", "a4 01 03 03 390100 20 41 01 21 43 010001".to_owned()),
    ] {
        assert_eq!(
            CredentialKey::from_cose(&hex(&text)),
            Err(BadCredentialKey),
            "{what}"
        );
    }
}

/// `SEQUENCE { INTEGER, INTEGER }` of contents as given.
fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
    let integer = |bytes: &[u8]| [&[0x02, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let body = [integer(r), integer(s)].concat();
    [vec![0x30, u8::try_from(body.len()).unwrap()], body].concat()
}

/// The content of a positive INTEGER.
fn positive(scalar: &[u8]) -> Vec<u8> {
    let start = scalar.iter().position(|byte| *byte != 0).unwrap();
    let sign = (scalar[start] > 0x7f).then_some(0);
    sign.into_iter()
        .chain(scalar[start..].iter().copied())
        .collect()
}

/// A message, its key, and `r`, `s`, `n - s` of a signature.
fn a_signature() -> (CredentialKey, Vec<u8>, [Vec<u8>; 3]) {
    let (authenticator, key) = key_of([5; 32]);
    let answer = authenticator.sign(vec![1, 2, 3], vec![4]);
    let message = super::super::signed_bytes(&answer.as_assertion());
    let signature = ecdsa::Signature::from_der(&answer.signature).unwrap();
    let (r, s) = signature.split_bytes();
    let opposite = -*signature.s();
    let opposite: p256::FieldBytes = opposite.into();
    (key, message, [r.to_vec(), s.to_vec(), opposite.to_vec()])
}

#[test]
fn high_and_low_s_are_accepted() {
    let (key, message, [r, s, opposite]) = a_signature();
    for s in [s, opposite] {
        assert_eq!(
            key.verify(&message, &der(&positive(&r), &positive(&s))),
            Ok(())
        );
    }
}

#[test]
fn fault_046_every_other_spelling_of_a_signature_is_refused() {
    let (key, message, [r, s, _]) = a_signature();
    let (r0, s0) = (positive(&r), positive(&s));
    let good = der(&r0, &s0);
    assert_eq!(key.verify(&message, &good), Ok(()));
    let zeros = |bytes: &[u8]| [&[0], bytes].concat();
    let body = &good[2..];
    let order = positive(&hex(N));
    let spellings = [
        ("fixed width", [r.clone(), s.clone()].concat()),
        ("zero before r", der(&zeros(&r0), &s0)),
        ("zero before s", der(&r0, &zeros(&s0))),
        ("trailing byte", [good.clone(), vec![0]].concat()),
        (
            "trailing byte inside",
            [&[0x30, good[1] + 1], body, &[0]].concat(),
        ),
        ("long length", [&[0x30, 0x81, good[1]], body].concat()),
        ("longer length", [&[0x30, 0x82, 0, good[1]], body].concat()),
        ("indefinite length", [&[0x30, 0x80], body, &[0, 0]].concat()),
        ("set", [&[0x31, good[1]], body].concat()),
        ("context tag", [&[0xa0, good[1]], body].concat()),
        (
            "r alone",
            [
                vec![0x30, good[3] + 2],
                good[2..good[3] as usize + 4].to_vec(),
            ]
            .concat(),
        ),
        ("empty", vec![0x30, 0]),
        ("r = 0", der(&[0], &s0)),
        ("s = 0", der(&r0, &[0])),
        ("r empty", der(&[], &s0)),
        ("r = n", der(&order, &s0)),
        ("s = n", der(&r0, &order)),
        ("negative r", der(&[0xff], &s0)),
        ("negative s", der(&r0, &[0x80])),
    ];
    for (what, signature) in spellings {
        let refused = Err(AssertionRefused::SignatureMalformed);
        assert_eq!(key.verify(&message, &signature), refused, "{what}");
    }
}

/// With a small-order key any message would pass a lax verification; here with one as R.
#[test]
fn fault_044_a_small_order_r_is_refused() {
    let key = CredentialKey::ed_dsa(ed25519([1; 32])).unwrap();
    let mut signature = [0; 64];
    signature[0] = 1;
    assert_eq!(
        key.verify(b"m", &signature),
        Err(AssertionRefused::BadSignature)
    );
}
