//! The key ceremony: honest, interrupted, falsified (FAULTS 38, 39, 40, 42).

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use redlatch_ballot::messages::*;
use redlatch_ballot::records::*;
use redlatch_ballot::*;
use redlatch_types::command::RawCommand;
use redlatch_types::in_force::InForceV1;
use redlatch_types::records::*;
use redlatch_types::*;
use world::journal::{AGENT, VERIFIERS, key};
use world::*;

struct Hall {
    terms: Terms,
    desks: Vec<Desk>,
    runs: Vec<Ceremony>,
    first: Vec<Envelope>,
}

impl Hall {
    fn new() -> Hall {
        let (_, genesis) = journal_with(["east", "north", "south", "west"]);
        let terms = Terms::of_genesis(&genesis).unwrap();
        let mut desks = desks(&terms);
        let (mut runs, mut first) = (Vec::new(), Vec::new());
        for desk in &mut desks {
            let (run, said) = begin(&terms, desk, ceremony_id(1)).unwrap();
            runs.push(run);
            first.push(said);
        }
        Hall {
            terms,
            desks,
            runs,
            first,
        }
    }

    /// Round 1 said to all; what each tells whom.
    fn round1(&mut self) -> Vec<(usize, u16, Vec<u8>)> {
        let mut told = Vec::new();
        for (from, run) in self.runs.iter_mut().enumerate() {
            for said in &self.first {
                for effect in run.handle_round1(said).unwrap() {
                    if let CeremonyEffect::Tell { to, message } = effect {
                        told.push((from, to, message.to_vec()));
                    }
                }
            }
        }
        told
    }
}

fn begin(
    terms: &Terms,
    desk: &mut Desk,
    id: CeremonyId,
) -> Result<(Ceremony, Envelope), CeremonyFault> {
    let known = desk.disk.0.get(&Row::ceremony_key(&id));
    let known = known.map(|b| CeremonyRecordV1::from_canonical(b).unwrap());
    let boot = desk.machine.as_ref().unwrap().boot_record(KeyEpoch(0));
    let (run, effects) = Ceremony::begin(
        terms.clone(),
        desk.seat.clone(),
        id,
        known.as_ref(),
        boot,
        1_000,
        &mut desk.rng,
    )?;
    let mut said = None;
    for effect in effects {
        match effect {
            CeremonyEffect::Persist(rows) => {
                assert!(said.is_none(), "durable before it is said");
                desk.disk.write(&rows);
            }
            CeremonyEffect::Broadcast(envelope) => said = Some(envelope),
            _ => panic!("round 1 only"),
        }
    }
    Ok((run, said.unwrap()))
}

fn fault(result: Result<Vec<CeremonyEffect>, CeremonyFault>) -> CeremonyFault {
    result.err().expect("a fault")
}

#[test]
fn every_subset_of_three_signs_under_the_one_group_key() {
    for left_out in 1..=4u16 {
        let mut court = Court::new();
        let frozen = court.freeze(1);
        let subset = Subset::without(left_out).unwrap();
        let package = court.package(&frozen, subset, approve);
        for m in subset.members() {
            court.desks[usize::from(m) - 1].sign(&package).unwrap();
        }
        // And through the coordinator, with that member silent from the start.
        let other = court.world.freeze("refs/heads/other", 0, 2);
        let other = court.frozen(other);
        let down = usize::from(left_out) - 1;
        let authorization = court.ballot(&other, &approve, &[down]).authorization;
        court.accept(authorization.unwrap());
    }
}

#[test]
fn fault_038_a_share_is_sealed_until_exactly_its_key_is_journaled() {
    let (mut world, genesis) = journal_with(["east", "north", "south", "west"]);
    let terms = Terms::of_genesis(&genesis).unwrap();
    let mut desks = desks(&terms);
    let confirmations = ceremony(&terms, &mut desks, 1);
    let sealed = desks[0].sealed_share().unwrap();
    let confirmed = confirmations[0]
        .open::<KeyConfirmationV1>()
        .unwrap()
        .record()
        .clone();
    let key = QuorumKey::of(&confirmed);
    let mut later = key.clone();
    later.epoch = KeyEpoch(2);
    assert_eq!(sealed.activate(&later).err(), Some(ShareError::StaleEpoch));
    let mut group = key.clone();
    group.group_key = world::journal::key(AGENT).public_key();
    assert_eq!(sealed.activate(&group).err(), Some(ShareError::OtherGroup));
    let mut package = key.clone();
    package.public_key_package_digest = Digest::ZERO;
    assert_eq!(
        sealed.activate(&package).err(),
        Some(ShareError::OtherGroup)
    );
    // Three confirmations are no activation; the same four after a restart are.
    let three = confirmations[..3].to_vec();
    assert_eq!(
        world.refused(RawCommand::ActivateQuorumKey(three)),
        Refusal::InsufficientQuorum
    );
    let again: Vec<_> = desks
        .iter()
        .map(|d| d.sealed_share().unwrap().confirm(&terms, &d.seat).unwrap())
        .collect();
    assert!(again.iter().all(|c| confirmations.contains(c)));
    world.ok(RawCommand::ActivateQuorumKey(again));
    assert!(sealed.activate(&key).is_ok());
}

#[test]
fn fault_038_four_confirmations_name_one_transcript_and_one_public_package() {
    let (_, genesis) = journal_with(["east", "north", "south", "west"]);
    let terms = Terms::of_genesis(&genesis).unwrap();
    let mut desks = desks(&terms);
    let confirmations = ceremony(&terms, &mut desks, 1);
    let mut records: Vec<_> = confirmations
        .iter()
        .map(|c| {
            let r = c.open::<KeyConfirmationV1>().unwrap().record().clone();
            (
                r.transcript_digest,
                r.group_key,
                r.public_key_package_digest,
            )
        })
        .collect();
    records.dedup();
    assert_eq!(records.len(), 1);
    let other = ceremony(&terms, &mut desks, 2);
    let other = other[0].open::<KeyConfirmationV1>().unwrap();
    assert_ne!(other.record().transcript_digest, records[0].0);
    // The first ceremony's share is still there beside the second's.
    assert_eq!(desks[0].disk.shares().len(), 2);
}

#[test]
fn fault_038_different_round_1_to_different_members_kills_the_ceremony() {
    let mut hall = Hall::new();
    // Member 4 says one thing to members 1 and 2, another to 3.
    let mut liar = Desk {
        seat: hall.desks[3].seat.clone(),
        disk: Disk::default(),
        machine: None,
        rng: rng(99),
    };
    liar.boot(&hall.terms);
    let (_, other) = begin(&hall.terms, &mut liar, ceremony_id(1)).unwrap();
    let mut told = Vec::new();
    for (at, run) in hall.runs.iter_mut().enumerate().take(3) {
        for (from, said) in hall.first.iter().enumerate() {
            let said = if at == 2 && from == 3 { &other } else { said };
            for effect in run.handle_round1(said).unwrap() {
                if let CeremonyEffect::Tell { to, message } = effect {
                    told.push((at, to, message.to_vec()));
                }
            }
        }
    }
    let from_three = told.iter().find(|(at, to, _)| *at == 2 && *to == 1);
    let message = &from_three.unwrap().2;
    assert_eq!(
        fault(hall.runs[0].handle_round2(message)),
        CeremonyFault::OtherRound1(3)
    );
    assert!(hall.runs[0].is_dead());
    // Said both ways to one member: dead at once.
    assert_eq!(
        fault(hall.runs[1].handle_round1(&other)),
        CeremonyFault::Equivocation(4)
    );
    assert!(hall.runs[1].is_dead());
    assert_eq!(
        fault(hall.runs[1].handle_round1(&hall.first[0])),
        CeremonyFault::Over
    );
}

#[test]
fn fault_038_a_bad_secret_share_is_noticed_by_its_recipient_and_named() {
    let mut hall = Hall::new();
    let told = hall.round1();
    let mut last = Ok(Vec::new());
    for (from, to, message) in told {
        if to != 2 {
            continue;
        }
        let mut envelope = Envelope::from_canonical(&message).unwrap();
        if from == 0 {
            let mut said = CeremonyRound2V1::from_canonical(&envelope.body.0).unwrap();
            said.share.0[0] ^= 1;
            envelope = Envelope::seal(envelope.scope, &key(VERIFIERS[0].1), &said);
        }
        last = hall.runs[1].handle_round2(&envelope.to_canonical());
    }
    let named = fault(last);
    assert!(
        matches!(
            named,
            CeremonyFault::BadPackage(1) | CeremonyFault::BadResult
        ),
        "{named:?}"
    );
    assert!(hall.runs[1].is_dead());
    assert!(hall.desks[1].disk.shares().is_empty(), "no share was kept");
}

#[test]
fn fault_038_a_ceremony_that_timed_out_or_was_interrupted_is_dead_for_good() {
    let mut hall = Hall::new();
    assert_eq!(hall.runs[0].handle_timeout(999), Ok(()));
    assert_eq!(
        hall.runs[0].handle_timeout(1_000),
        Err(CeremonyFault::TimedOut)
    );
    assert_eq!(
        fault(hall.runs[0].handle_round1(&hall.first[1])),
        CeremonyFault::Over
    );
    let terms = hall.terms.clone();
    let again = begin(&terms, &mut hall.desks[0], ceremony_id(1));
    assert_eq!(again.err(), Some(CeremonyFault::BegunBefore));
    hall.desks[1].boot(&terms);
    let resumed = begin(&terms, &mut hall.desks[1], ceremony_id(1));
    assert_eq!(resumed.err(), Some(CeremonyFault::BegunBefore));
    assert!(begin(&terms, &mut hall.desks[1], ceremony_id(2)).is_ok());
}

#[test]
fn fault_038_a_finished_ceremony_does_not_time_out_and_hears_repeats() {
    let mut hall = Hall::new();
    let told = hall.round1();
    let mine: Vec<_> = told.iter().filter(|(_, to, _)| *to == 1).collect();
    for (_, _, message) in &mine {
        hall.runs[0].handle_round2(message).unwrap();
    }
    assert!(hall.runs[0].is_finished());
    assert_eq!(hall.runs[0].handle_timeout(u64::MAX), Ok(()));
    assert!(hall.runs[0].handle_round2(&mine[0].2).unwrap().is_empty());
    assert!(hall.runs[0].is_finished());
}

#[test]
fn fault_038_the_share_is_durable_with_the_state_that_knows_of_it_before_it_is_confirmed() {
    let mut hall = Hall::new();
    let mut last = Vec::new();
    for (_, to, message) in hall.round1() {
        if to == 1 {
            last = hall.runs[0].handle_round2(&message).unwrap();
        }
    }
    let [
        CeremonyEffect::Persist(rows),
        CeremonyEffect::Confirm(confirmation),
    ] = &last[..]
    else {
        panic!("first durable, then said");
    };
    let [Row::Share(share), Row::Boot(boot)] = &rows[..] else {
        panic!("one write holds both");
    };
    assert_eq!(share.quorum_key_epoch, KeyEpoch(1));
    assert_eq!(boot.key_epoch, KeyEpoch(1));
    assert!(confirmation.open::<KeyConfirmationV1>().is_ok());
}

#[test]
fn nothing_is_confirmed_unless_the_share_fits_and_every_three_make_the_group_key() {
    let (_, genesis) = journal_with(["east", "north", "south", "west"]);
    let terms = Terms::of_genesis(&genesis).unwrap();
    let mut desks = desks(&terms);
    ceremony(&terms, &mut desks, 1);
    let (share, seat) = (desks[0].sealed_share().unwrap(), &desks[0].seat);
    assert!(share.confirm(&terms, seat).is_ok());
    let bytes = share.to_bytes();
    // Public shares stand behind the header, the group key and the transcript; a checksum ends it.
    let place = |member: usize| {
        let at = (8 + 23 + 32 + 32 + 8 + 8 + 2) + 64 + 32 * (member - 1);
        at..at + 32
    };
    let cases = [
        (1, 2, ShareError::Contradiction),
        (2, 3, ShareError::Subset(1)),
        (3, 4, ShareError::Subset(1)),
        (4, 2, ShareError::Subset(1)),
    ];
    for (member, other, error) in cases {
        let mut altered = bytes.to_vec();
        altered.copy_within(place(other), place(member).start);
        let sum_at = altered.len() - 32;
        let sum = Digest::of(&altered[..sum_at]);
        altered[sum_at..].copy_from_slice(&sum.0);
        let organism = terms.scope().organism_id;
        let altered = SealedShare::from_bytes(&altered, organism, 1).unwrap();
        assert_eq!(altered.confirm(&terms, seat).err(), Some(error), "{member}");
    }
}

#[test]
fn fault_040_a_key_epoch_never_comes_twice() {
    let (_, genesis) = journal_with(["east", "north", "south", "west"]);
    // The quorum had a key once, and it is void.
    let known = InForceV1 {
        last_key_epoch: KeyEpoch(1),
        ..InForceV1::of_genesis(&genesis)
    };
    let terms = Terms::in_force(&known).unwrap();
    let mut desks = desks(&terms);
    for (epoch, stale) in [(1, true), (2, false), (3, true)] {
        let id = CeremonyId {
            quorum_key_epoch: KeyEpoch(epoch),
            ..ceremony_id(4)
        };
        let fault = begin(&terms, &mut desks[0], id).err();
        assert_eq!(
            fault,
            stale.then_some(CeremonyFault::StaleRoster),
            "{epoch}"
        );
    }
}

#[test]
fn fault_039_only_the_pinned_key_speaks_for_an_index() {
    let mut hall = Hall::new();
    let run = &mut hall.runs[0];
    let said = CeremonyRound1V1::from_canonical(&hall.first[1].body.0).unwrap();
    let scope = hall.terms.scope();
    let by_a_client = Envelope::seal(scope, &key(AGENT), &said);
    assert_eq!(
        fault(run.handle_round1(&by_a_client)),
        CeremonyFault::NotAuthorised
    );
    let by_a_fellow = Envelope::seal(scope, &key(VERIFIERS[2].1), &said);
    assert_eq!(
        fault(run.handle_round1(&by_a_fellow)),
        CeremonyFault::NotAuthorised
    );
    let mut renamed = said.clone();
    renamed.verifier_id = name(2);
    let renamed = Envelope::seal(scope, &key(VERIFIERS[1].1), &renamed);
    assert_eq!(
        fault(run.handle_round1(&renamed)),
        CeremonyFault::NotAuthorised
    );
    let mut elsewhere = scope;
    elsewhere.organism_epoch += 1;
    let elsewhere = Envelope::seal(elsewhere, &key(VERIFIERS[1].1), &said);
    assert_eq!(
        fault(run.handle_round1(&elsewhere)),
        CeremonyFault::NotAuthorised
    );
    // None of them occupied the place.
    assert!(run.handle_round1(&hall.first[1]).is_ok());
}

#[test]
fn fault_039_a_package_of_another_ceremony_is_not_taken_and_does_not_occupy_the_place() {
    let mut hall = Hall::new();
    let terms = hall.terms.clone();
    let (_, last_year) = begin(&terms, &mut hall.desks[1], ceremony_id(9)).unwrap();
    let run = &mut hall.runs[0];
    assert_eq!(
        fault(run.handle_round1(&last_year)),
        CeremonyFault::OtherCeremony
    );
    assert!(run.handle_round1(&hall.first[1]).is_ok());
}

#[test]
fn fault_039_a_copied_proof_of_possession_does_not_hold_under_another_index() {
    let mut hall = Hall::new();
    let victim = CeremonyRound1V1::from_canonical(&hall.first[1].body.0).unwrap();
    let copied = CeremonyRound1V1 {
        verifier_id: name(2),
        identifier: 3,
        ..victim
    };
    let copied = Envelope::seal(hall.terms.scope(), &key(VERIFIERS[2].1), &copied);
    let run = &mut hall.runs[0];
    run.handle_round1(&hall.first[1]).unwrap();
    run.handle_round1(&copied).unwrap();
    assert_eq!(
        fault(run.handle_round1(&hall.first[3])),
        CeremonyFault::BadPackage(3)
    );
    assert!(run.is_dead());
}

#[test]
fn fault_040_neither_threshold_nor_members_come_from_a_message() {
    // A member that commits to a line instead of a parabola would make it two of four.
    let mut hall = Hall::new();
    let mut low = CeremonyRound1V1::from_canonical(&hall.first[2].body.0).unwrap();
    low.commitment.pop();
    let low = Envelope::seal(hall.terms.scope(), &key(VERIFIERS[2].1), &low);
    let run = &mut hall.runs[0];
    run.handle_round1(&hall.first[1]).unwrap();
    run.handle_round1(&low).unwrap();
    assert_eq!(
        fault(run.handle_round1(&hall.first[3])),
        CeremonyFault::BadPackage(3)
    );
    // Another roster, a key epoch that is not next.
    for id in [
        CeremonyId {
            roster_epoch: RosterEpoch(2),
            ..ceremony_id(3)
        },
        CeremonyId {
            quorum_key_epoch: KeyEpoch(3),
            ..ceremony_id(3)
        },
    ] {
        let begun = begin(&hall.terms, &mut hall.desks[0], id);
        assert_eq!(begun.err(), Some(CeremonyFault::StaleRoster));
    }
}

#[test]
fn round_2_before_round_1_is_asked_to_come_again_and_a_strangers_is_refused() {
    let mut hall = Hall::new();
    let fresh = Hall::new();
    let told = hall.round1();
    let (_, _, message) = told.iter().find(|(_, to, _)| *to == 2).unwrap();
    let mut waiting = fresh.runs.into_iter().nth(1).unwrap();
    assert_eq!(
        fault(waiting.handle_round2(message)),
        CeremonyFault::TooEarly
    );
    // Told to another.
    assert_eq!(
        fault(hall.runs[2].handle_round2(message)),
        CeremonyFault::OtherRecipient
    );
    assert_eq!(
        fault(hall.runs[1].handle_round2(&message[1..])),
        CeremonyFault::NotCanonical
    );
}

#[test]
fn fault_039_a_fellow_cannot_speak_in_round_2_for_another() {
    let mut hall = Hall::new();
    let told = hall.round1();
    let (_, _, message) = told
        .iter()
        .find(|(from, to, _)| *from == 1 && *to == 1)
        .unwrap();
    let envelope = Envelope::from_canonical(message).unwrap();
    let said = CeremonyRound2V1::from_canonical(&envelope.body.0).unwrap();
    let forged = Envelope::seal(envelope.scope, &key(VERIFIERS[2].1), &said);
    assert_eq!(
        fault(hall.runs[0].handle_round2(&forged.to_canonical())),
        CeremonyFault::NotAuthorised
    );
    assert!(hall.runs[0].handle_round2(message).is_ok());
}

#[test]
fn fault_042_a_share_that_does_not_fit_its_public_share_does_not_sign() {
    let (_, genesis) = journal_with(["east", "north", "south", "west"]);
    let terms = Terms::of_genesis(&genesis).unwrap();
    let mut desks = desks(&terms);
    let confirmations = ceremony(&terms, &mut desks, 1);
    let confirmed = confirmations[0].open::<KeyConfirmationV1>().unwrap();
    let key = QuorumKey::of(confirmed.record());
    let mut bytes = desks[0].disk.shares().remove(0);
    // Another secret with a checksum that fits: what a careful hand could write.
    let sum_at = bytes.len() - 32;
    bytes[sum_at - 32] ^= 1;
    let sum = Digest::of(&bytes[..sum_at]);
    bytes[sum_at..].copy_from_slice(&sum.0);
    let share = SealedShare::from_bytes(&bytes, terms.scope().organism_id, 1).unwrap();
    assert_eq!(share.activate(&key).err(), Some(ShareError::Contradiction));
}

#[test]
fn fault_042_a_share_is_of_its_organism_member_suite_epoch_and_group_or_nothing() {
    let (_, genesis) = journal_with(["east", "north", "south", "west"]);
    let terms = Terms::of_genesis(&genesis).unwrap();
    let mut desks = desks(&terms);
    ceremony(&terms, &mut desks, 1);
    let bytes = desks[0].disk.shares().remove(0);
    let organism = terms.scope().organism_id;
    let read = |bytes: &[u8]| SealedShare::from_bytes(bytes, organism, 1).err();
    assert_eq!(read(&bytes), None);
    assert_eq!(
        SealedShare::from_bytes(&bytes, OrganismId(Digest::ZERO), 1).err(),
        Some(ShareError::OtherOrganism)
    );
    assert_eq!(
        SealedShare::from_bytes(&bytes, organism, 2).err(),
        Some(ShareError::OtherMember)
    );
    // A ristretto share of the same length.
    let mut suite = bytes.clone();
    suite[8..31].copy_from_slice(b"FROST-RISTRETTO-SHA512-");
    assert_eq!(read(&suite), Some(ShareError::OtherSuite));
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(read(&bad).is_some(), "byte {at}");
    }
    assert_eq!(read(&bytes[1..]), Some(ShareError::NotAShare));
    assert_eq!(read(&[]), Some(ShareError::NotAShare));
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(read(&longer), Some(ShareError::NotAShare));
}
