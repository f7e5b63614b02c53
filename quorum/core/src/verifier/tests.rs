//! The table of how a verifier may start (FAULTS 34).

use redlatch_types::records::{GenesisV1, RosterVerifier};
use redlatch_types::{Digest, KeyEpoch, OrganismId, Refusal, SigningKey};

use super::*;
use crate::records::BootRecordV1;
use crate::tally::TallyFault;

/// A genesis by the journal's own builder, with four verifiers and nobody else of interest.
fn genesis() -> GenesisV1 {
    use redlatch_journal::development::{Parties, genesis};
    use redlatch_types::records::PinnedParty;
    let key = |n: u8| SigningKey::from_seed([n; 32]).public_key();
    let pinned = |name: &str, n| PinnedParty {
        name: name.parse().expect("a name"),
        key: key(n),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    let verifier = |n: u8| RosterVerifier {
        verifier_id: format!("v{n}").parse().expect("a name"),
        identifier: u16::from(n),
        failure_domain: format!("d{n}").parse().expect("a name"),
        vote_key: key(n),
        witness_key: key(n + 10),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    genesis(Parties {
        organism_name: "test".parse().expect("a name"),
        created_at: 1,
        nonce: Digest::ZERO,
        root: key(50),
        nodes: Vec::new(),
        verifiers: (1..=4).map(verifier).collect(),
        sentinel: pinned("sentinel", 51),
        actuator: pinned("actuator", 52),
        subjects: Vec::new(),
        repository: "repo".parse().expect("a name"),
        human_keys: Vec::new(),
    })
}

fn terms_and_seat() -> (Terms, OwnSeat) {
    let terms = Terms::of_genesis(&genesis()).expect("four verifiers");
    let seat = OwnSeat::find(&terms, SigningKey::from_seed([1; 32])).expect("a seat");
    (terms, seat)
}

fn start(stored: &Stored) -> Result<u64, StartFault> {
    let (terms, seat) = terms_and_seat();
    Verifier::start(terms, seat, None, stored).map(|(v, effects)| {
        let [VerifierEffect::Persist(rows)] = &effects[..] else {
            panic!("the boot is durable before anything is said");
        };
        assert!(matches!(&rows[..], [Row::Boot(b)] if b.generation == v.generation()));
        v.generation()
    })
}

#[test]
fn fault_034_the_start_table() {
    let (terms, seat) = terms_and_seat();
    let boot = |generation, key_epoch| {
        Some(BootRecordV1 {
            organism_id: terms.scope().organism_id,
            verifier_id: seat.verifier_id.clone(),
            generation,
            key_epoch: KeyEpoch(key_epoch),
        })
    };
    let rolled_back = |stored, remembered| Err(StartFault::RolledBack { stored, remembered });
    let cases = [
        // boot record, share epoch, remembered generation, what follows
        (None, 0, None, Ok(1)),
        (None, 1, None, Err(StartFault::KeyWithoutState)),
        (None, 0, Some(1), rolled_back(0, 1)),
        (None, 1, Some(1), rolled_back(0, 1)),
        (boot(1, 0), 0, None, Ok(2)),
        (boot(4, 1), 1, None, Ok(5)),
        (boot(4, 1), 1, Some(4), Ok(5)),
        (boot(4, 1), 1, Some(3), Ok(5)),
        (boot(4, 1), 1, Some(5), rolled_back(4, 5)),
        (boot(4, 0), 1, None, Err(StartFault::StateOlderThanKey)),
        (boot(4, 1), 2, None, Err(StartFault::StateOlderThanKey)),
        (boot(4, 1), 0, None, Err(StartFault::ShareMissing)),
    ];
    for (boot, share_epoch, remembered_generation, expected) in cases {
        let stored = Stored {
            boot,
            share_epoch: KeyEpoch(share_epoch),
            remembered_generation,
            was_rolled_back: false,
        };
        assert_eq!(start(&stored), expected, "{stored:?}");
        let known = Stored {
            was_rolled_back: true,
            ..stored
        };
        assert_eq!(start(&known), Err(StartFault::WasRolledBack));
    }
}

#[test]
fn fault_034_a_store_of_another_owner_does_not_start() {
    let (terms, seat) = terms_and_seat();
    let mine = BootRecordV1 {
        organism_id: terms.scope().organism_id,
        verifier_id: seat.verifier_id,
        generation: 1,
        key_epoch: KeyEpoch(0),
    };
    let mut organism = mine.clone();
    organism.organism_id = OrganismId(Digest::ZERO);
    let mut verifier = mine;
    verifier.verifier_id = "v2".parse().expect("a name");
    for boot in [organism, verifier] {
        let stored = Stored {
            boot: Some(boot),
            ..Stored::default()
        };
        assert_eq!(start(&stored), Err(StartFault::OtherOwner));
    }
}

#[test]
fn every_refusal_has_a_code() {
    let all = [
        Refused::WrongVariant,
        Refused::SelfAuthorization,
        Refused::Expired,
        Refused::StaleRoster,
        Refused::LimitExceeded,
        Refused::UnknownIntent,
        Refused::BadSheet,
        Refused::AlreadySpent,
        Refused::NotApproved,
        Refused::SentinelRequired,
        Refused::BadSignature,
        Refused::BadPackage,
    ];
    for refused in all {
        assert!(!refused.refusal().code().is_empty(), "{refused}");
    }
    assert_eq!(
        Refused::Tally(TallyFault::InsufficientIndependence).refusal(),
        Refusal::InsufficientIndependence
    );
}
