//! No change takes the last way out: somebody can always still decide, and a constitution that has
//! ended is followed by another.

use redlatch_types::command::RawCommand;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

fn revoked(subject: &str) -> ActionPayload {
    ActionPayload::SubjectChange(Box::new(SubjectPayload::Revoke(id(subject))))
}

#[test]
pub(super) fn no_change_leaves_an_organism_that_nobody_can_decide_for() {
    let mut world = World::new();
    type Change = fn(&mut ConstitutionV1);
    let amendments: [(&str, Change); 3] = [
        ("more persons than there are", |c| {
            c.human_approvals_required = 3
        }),
        ("credentials of another party", |c| {
            c.webauthn_rp_id = Text::lossy("elsewhere.test");
        }),
        ("nowhere to be asked", |c| c.webauthn_origins.clear()),
    ];
    for (what, change) in amendments {
        let amendment = world.amended(change);
        assert_eq!(
            world.refused_change(amendment),
            Refusal::KernelFloor,
            "{what}"
        );
    }
    // A kernel that takes keys on hardware only: none of the persons has one.
    let act = root_act(&world, |act| {
        act.kernel.human_attestation_classes = vec![AttestationClass::Hardware];
    });
    assert_eq!(
        world.refused(sealed_root_act(&world, &act, ROOT)),
        Refusal::KernelFloor
    );
    // Two persons of two are asked for: neither may go, nor lose the only key.
    let both = world.amended(|c| c.human_approvals_required = 2);
    world.make_change(both);
    for person in ["alice", "bob"] {
        assert_eq!(
            world.refused_change(revoked(person)),
            Refusal::KernelFloor,
            "{person}"
        );
    }
    let key = KeyPayload::Revoke(human_key("bob", DEPUTY).id());
    let key = ActionPayload::KeyChange(Box::new(key));
    assert_eq!(world.refused_change(key), Refusal::KernelFloor);
    world.freeze_change(revoked("agent"));
}

/// Whoever proposes cannot approve: with one person left who does both, nothing is ever decided.
#[test]
fn somebody_else_than_who_decides_can_still_propose() {
    let mut world = World::new();
    world.make_change(revoked("bob"));
    assert_eq!(world.refused_change(revoked("alice")), Refusal::KernelFloor);
    // The governor is the only one left who proposes without being the one who decides.
    let change = |world: &mut World, payload| {
        let proposal = world.change(payload);
        let command = world.freeze_command(OWNER, "alice", &proposal);
        world.apply(command).reply
    };
    let gone = change(&mut world, revoked("governor"));
    assert_eq!(gone, Err(Refusal::KernelFloor));
    // A gate carries out and does not propose, whatever its realms.
    let before = world.state.clone();
    let governance = world.state.authority.governance.as_mut().expect("started");
    let gate = governance.subjects.get_mut(&id("gate")).expect("enrolled");
    gate.scopes.push(id(ORGANISM_REALM));
    let gone = change(&mut world, revoked("governor"));
    assert_eq!(gone, Err(Refusal::KernelFloor));
    world.state = before;
    let mut narrower = world.governance().subjects[&id("governor")].clone();
    narrower.public_key = key(98).public_key();
    narrower.scopes = vec![id("repo")];
    let rotate = SubjectPayload::Rotate(narrower.clone());
    let rotate = ActionPayload::SubjectChange(Box::new(rotate));
    assert_eq!(change(&mut world, rotate), Err(Refusal::KernelFloor));
    narrower.scopes.push(id(ORGANISM_REALM));
    let rotate = SubjectPayload::Rotate(narrower);
    let rotate = ActionPayload::SubjectChange(Box::new(rotate));
    assert!(change(&mut world, rotate).is_ok());
}

/// A rotation takes from the organism no more than what it narrows.
#[test]
fn a_subject_that_others_can_spare_is_narrowed_and_one_that_is_narrow_gets_another_key() {
    let mut world = World::new();
    let narrow = |world: &World, subject: &str, n: u8| {
        let mut narrow = world.governance().subjects[&id(subject)].clone();
        narrow.public_key = key(n).public_key();
        narrow.scopes = vec![id("repo")];
        ActionPayload::SubjectChange(Box::new(SubjectPayload::Rotate(narrow)))
    };
    let spared = narrow(&world, "bob", 97);
    world.make_change(spared);
    // From here on both decide, so nobody can do without Bob; but Bob proposes nothing already.
    let both = world.amended(|c| c.human_approvals_required = 2);
    world.make_change(both);
    let another_key = narrow(&world, "bob", 98);
    world.freeze_change(another_key);
    assert_eq!(world.refused_change(revoked("bob")), Refusal::KernelFloor);
}

/// Even under a constitution that has come to ask for nobody.
#[test]
fn the_last_person_who_decides_stays() {
    let mut world = World::new();
    let governance = world.state.authority.governance.as_mut().expect("started");
    governance.constitution.human_approvals_required = 0;
    governance.epoch.constitution_digest = governance.constitution.digest();
    world.make_change(revoked("bob"));
    assert_eq!(world.refused_change(revoked("alice")), Refusal::KernelFloor);
}

#[test]
fn a_key_that_decides_only_part_of_the_ways_out_is_not_counted() {
    for missing in [
        ActionClass::ConstitutionAmend,
        ActionClass::KeyChange,
        ActionClass::ResetFrozen,
    ] {
        let mut world = World::new();
        let mut part = human_key("bob", 70);
        part.scopes.retain(|action| *action != missing);
        for change in [
            KeyPayload::Enrol(part),
            KeyPayload::Revoke(human_key("bob", DEPUTY).id()),
        ] {
            world.make_change(ActionPayload::KeyChange(Box::new(change)));
        }
        assert_eq!(
            world.refused_change(revoked("alice")),
            Refusal::KernelFloor,
            "{missing}"
        );
    }
}

#[test]
pub(super) fn no_amendment_is_over_when_it_comes() {
    let mut world = World::new();
    let now = world.now();
    for end in [0, now - 1, now] {
        let over = world.amended(|c| c.expires_at_optional = Some(end));
        assert_eq!(world.refused_change(over), Refusal::KernelFloor, "{end}");
    }
    let later = world.amended(|c| {
        c.effective_at += MINUTE;
        c.expires_at_optional = Some(c.effective_at);
    });
    assert_eq!(world.refused_change(later), Refusal::KernelFloor);
    let long_ago = world.amended(|c| {
        c.effective_at = now - 2;
        c.expires_at_optional = Some(now - 1);
    });
    assert_eq!(world.refused_change(long_ago), Refusal::KernelFloor);
    let lasts = world.amended(|c| c.expires_at_optional = Some(now + MINUTE));
    world.freeze_change(lasts);
}

/// Past its end nothing goes on, but persons may put another constitution in its place.
#[test]
fn m1_l13_persons_follow_up_a_constitution_that_has_ended() {
    let mut world = World::new();
    let end = world.now() + 10 * MINUTE;
    let ends = world.amended(|c| c.expires_at_optional = Some(end));
    world.make_change(ends);
    world.tick(end);
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    let mut bob = bob();
    let challenge = world.challenge(digest, &bob);
    let approval = world.approve(challenge, &mut bob);
    let decided = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(decided), Refusal::Expired);
    let next = world.amended(|c| c.expires_at_optional = None);
    world.make_change(next);
    assert_eq!(world.governance().constitution.expires_at_optional, None);
    let change = revoke(&world, "other");
    world.make_change(change);
}

#[test]
fn m1_l13_persons_reset_under_a_constitution_that_has_ended() {
    let mut world = World::new();
    let end = world.now() + 10 * MINUTE;
    let ends = world.amended(|c| c.expires_at_optional = Some(end));
    world.make_change(ends);
    let red = Outbox::new().red(&world, &RedScope::Subject(id("other")));
    let latch = world.latch(red);
    world.stop(latch);
    world.tick(end);
    world.make_change(reset(&[1]));
    assert!(world.state.authority.grounds.is_empty());
}

/// Only persons lead out of a constitution that has ended: a quorum that may amend it does so
/// before its end or not at all.
#[test]
fn m1_l13_no_quorum_follows_up_a_constitution_that_has_ended() {
    let mut world = World::new();
    let end = world.now() + 10 * MINUTE;
    let ends = world.amended(|c| c.expires_at_optional = Some(end));
    world.make_change(ends);
    let next = world.amended(|c| c.expires_at_optional = None);
    let digest = world.freeze_change(next);
    // As if it had been frozen for the quorum, in a mode that lets a quorum amend.
    let grant = world.grant("agent");
    let authority = &mut world.state.authority;
    let governance = authority.governance.as_mut().expect("started");
    governance.epoch.active_mode = Mode::FullAutonomy;
    let intent = &mut authority.intents.get_mut(&digest).expect("frozen").intent;
    intent.active_mode = Mode::FullAutonomy;
    intent.required_authority_variant = AuthorityVariant::AgentQuorum;
    intent.executor_subject_id_optional = Some(id("gate"));
    intent.applicable_grant_id = Some(grant);
    intent.applicable_grant_digest = Some(grant.0);
    for (time, expected) in [(end - 1, Ok(())), (end, Err(Refusal::Expired))] {
        let mut world = World::at(world.state.authority.clone(), time);
        world.tick(time);
        let given = world.authorization(digest, &approvals());
        let outcome = world.apply(RawCommand::Authorize(Box::new(given)));
        assert_eq!(outcome.reply.map(|_| ()), expected, "{time}");
    }
}
