//! Strict Ed25519 and domain separation.

use super::*;

#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
struct Note {
    #[n(0)]
    text: String,
}
impl Record for Note {
    const TYPE: &'static str = "note";
}

#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
struct Order {
    #[n(0)]
    text: String,
}
impl Record for Order {
    const TYPE: &'static str = "order";
}

fn scope(epoch: u64) -> Scope {
    Scope {
        organism_id: OrganismId(Digest::of(b"genesis")),
        organism_epoch: epoch,
    }
}

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn note() -> Note {
    Note { text: "ab".into() }
}

#[test]
fn rfc8032_vector_two_verifies() {
    let key: PublicKey = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
        .parse()
        .unwrap();
    let signature: Signature =
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            .parse()
            .unwrap();
    assert_eq!(verify(&key, &[0x72], &signature), Ok(()));
    assert_eq!(verify(&key, &[0x73], &signature), Err(BadSignature));
}

/// FAULTS 44: the twelve spellings of small-order points, as key and as R.
fn small_order_points() -> Vec<[u8; 32]> {
    let fill = |first: u8, middle: u8, last: u8| {
        let mut p = [middle; 32];
        p[0] = first;
        p[31] = last;
        p
    };
    let mut points = vec![
        fill(0x01, 0x00, 0x00),
        fill(0xec, 0xff, 0x7f),
        fill(0x00, 0x00, 0x00),
        fill(0x00, 0x00, 0x80),
        fill(0xee, 0xff, 0x7f),
        fill(0xed, 0xff, 0x7f),
        fill(0x01, 0x00, 0x80),
        fill(0xee, 0xff, 0xff),
    ];
    for text in [
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ] {
        points.push(text.parse::<Digest>().unwrap().0);
    }
    points
}

#[test]
fn fault_044_small_order_keys_verify_nothing() {
    for point in small_order_points() {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&point);
        assert_eq!(
            verify(&PublicKey(point), b"any", &Signature(signature)),
            Err(BadSignature)
        );
        assert_eq!(check_key(&PublicKey(point)), Err(BadKey));
    }
}

#[test]
fn fault_044_small_order_r_fails() {
    for point in small_order_points() {
        let mut signature = key().sign(b"m");
        signature.0[..32].copy_from_slice(&point);
        assert_eq!(
            verify(&key().public_key(), b"m", &signature),
            Err(BadSignature)
        );
    }
}

#[test]
fn fault_045_s_at_or_above_the_order_is_refused() {
    // L, little-endian: adding it to S keeps the lax equation true.
    let order: [u8; 32] = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010"
        .parse::<Digest>()
        .unwrap()
        .0;
    let mut signature = key().sign(b"m");
    let mut carry = 0u16;
    for (s, l) in signature.0[32..].iter_mut().zip(order) {
        let sum = u16::from(*s) + u16::from(l) + carry;
        *s = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
    assert_eq!(
        verify(&key().public_key(), b"m", &signature),
        Err(BadSignature)
    );
}

/// Signs with R shifted by a torsion point: `verify_strict` refuses, a cofactored check accepts.
#[test]
fn fault_045_a_torsion_component_is_refused() {
    use curve25519_dalek::constants::EIGHT_TORSION;
    let honest = key().sign(b"m");
    let r = CompressedEdwardsY(honest.0[..32].try_into().unwrap())
        .decompress()
        .unwrap();
    let mut shifted = honest;
    shifted.0[..32].copy_from_slice(&(r + EIGHT_TORSION[1]).compress().0);
    assert_eq!(
        verify(&key().public_key(), b"m", &shifted),
        Err(BadSignature)
    );
}

#[test]
fn a_sealed_record_opens_as_itself() {
    let envelope = Envelope::seal(scope(1), &key(), &note());
    let signed = envelope.open::<Note>().unwrap();
    assert_eq!(signed.record(), &note());
    assert_eq!(signed.key(), &key().public_key());
    assert_eq!(signed.digest(), Digest::of(&note().to_canonical()));
}

#[test]
fn fault_056_a_signature_serves_one_statement_only() {
    let envelope = Envelope::seal(scope(1), &key(), &note());
    assert!(envelope.open::<Order>().is_err(), "another type");
    let mut other = envelope.clone();
    other.scope = scope(2);
    assert!(other.open::<Note>().is_err(), "another epoch");
    let mut other = envelope.clone();
    other.scope.organism_id = OrganismId(Digest::of(b"other"));
    assert!(other.open::<Note>().is_err(), "another organism");
    let mut other = envelope.clone();
    other.body.0[2] ^= 1;
    assert!(other.open::<Note>().is_err(), "another body");
    let mut other = envelope;
    other.key = SigningKey::from_seed([8; 32]).public_key();
    assert!(other.open::<Note>().is_err(), "another key");
}

#[test]
fn a_secret_is_not_printed() {
    assert_eq!(
        format!("{:?}", key()),
        format!("SigningKey({})", key().public_key())
    );
}
