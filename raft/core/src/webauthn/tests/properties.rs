//! Properties: no flipped bit counts, and no input panics.

use super::*;
use proptest::prelude::*;

/// A good assertion, its credential's key, and the bits of all four of its parts.
struct Signed {
    key: CredentialKey,
    parts: [Vec<u8>; 4],
}

fn signed(algorithm: Algorithm, counter: u32) -> Signed {
    let id = vec![7; 16];
    let mut authenticator = match algorithm {
        Algorithm::Es256 => SoftAuthenticator::es256(&[3; 32], id, counter - 1).unwrap(),
        Algorithm::EdDsa => SoftAuthenticator::ed_dsa([3; 32], id, counter - 1),
    };
    let answer = authenticator.assert(RP_ID, ORIGIN, &challenge());
    Signed {
        key: authenticator.public_key().unwrap(),
        parts: [
            answer.credential_id,
            answer.authenticator_data,
            answer.client_data_json,
            answer.signature,
        ],
    }
}

fn judge(key: &CredentialKey, parts: &[Vec<u8>; 4]) -> Result<Verified, AssertionRefused> {
    let credential = Credential {
        id: &[7; 16],
        key,
        rp_id: RP_ID,
        origins: &[ORIGIN],
        counter: 0,
        backup_eligible: false,
    };
    let [
        credential_id,
        authenticator_data,
        client_data_json,
        signature,
    ] = parts;
    let assertion = Assertion {
        credential_id,
        authenticator_data,
        client_data_json,
        signature,
    };
    verify(&credential, &challenge(), &assertion)
}

#[test]
fn every_flipped_bit_is_refused() {
    for algorithm in [Algorithm::Es256, Algorithm::EdDsa] {
        let Signed { key, parts } = signed(algorithm, 1);
        assert!(judge(&key, &parts).is_ok());
        for part in 0..parts.len() {
            for bit in 0..8 * parts[part].len() {
                let mut changed = parts.clone();
                changed[part][bit / 8] ^= 1 << (bit % 8);
                assert!(
                    judge(&key, &changed).is_err(),
                    "{algorithm:?}: bit {bit} of part {part}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_inserted_cut_or_replaced_is_refused(
        es256: bool,
        counter in 1u32..,
        part in 0usize..4,
        from: prop::sample::Index,
        length in 0usize..4,
        put in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let algorithm = if es256 { Algorithm::Es256 } else { Algorithm::EdDsa };
        let Signed { key, parts } = signed(algorithm, counter);
        prop_assert_eq!(judge(&key, &parts).map(|verified| verified.counter), Ok(counter));
        let mut changed = parts.clone();
        let from = from.index(changed[part].len());
        let to = (from + length).min(changed[part].len());
        changed[part].splice(from..to, put);
        prop_assume!(changed != parts);
        prop_assert!(judge(&key, &changed).is_err());
    }

    #[test]
    fn no_bytes_panic(parts in any::<[Vec<u8>; 4]>(), es256: bool) {
        let algorithm = if es256 { Algorithm::Es256 } else { Algorithm::EdDsa };
        let Signed { key, parts: good } = signed(algorithm, 1);
        prop_assert!(judge(&key, &parts).is_err());
        // Each part alone gets past the checks that stand before it.
        for (part, bytes) in parts.iter().enumerate() {
            let mut mixed = good.clone();
            mixed[part].clone_from(bytes);
            prop_assert!(judge(&key, &mixed).is_err());
        }
        let _ = CredentialKey::from_cose(&parts[0]);
        let _ = CredentialKey::es256(&parts[0]);
    }

    #[test]
    fn no_extensions_panic(after in proptest::collection::vec(any::<u8>(), 0..48)) {
        let case = Case::set(|case| {
            case.flags |= ED;
            case.after = after;
        });
        let judged = case.judged();
        prop_assert!(judged.is_ok() || judged == Err(AssertionRefused::ExtensionsMalformed));
    }

    #[test]
    fn one_key_has_one_encoding(bytes in cose_like()) {
        if let Ok(key) = CredentialKey::from_cose(&bytes) {
            prop_assert_eq!(key.to_cose(), bytes);
        }
    }
}

/// COSE keys with a few bytes changed.
fn cose_like() -> impl Strategy<Value = Vec<u8>> {
    let change = proptest::option::of((any::<prop::sample::Index>(), any::<u8>()));
    (any::<bool>(), change).prop_map(|(es256, change)| {
        let algorithm = if es256 {
            Algorithm::Es256
        } else {
            Algorithm::EdDsa
        };
        let mut bytes = signed(algorithm, 1).key.to_cose();
        if let Some((at, byte)) = change {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}
