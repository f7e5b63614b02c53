//! A frozen intent for evaluators' tests, made by the journal itself.

use redlatch_ballot::{FreezeProof, FrozenIntent};
use redlatch_journal::development::authenticator::SoftAuthenticator;
use redlatch_journal::development::{Parties, Subject, genesis};
use redlatch_journal::{EntryId, State};
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::records::*;
use redlatch_types::*;

const START: u64 = 1_800_000_000_000;

pub(crate) fn key(n: u8) -> SigningKey {
    SigningKey::from_seed([n; 32])
}

fn id<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("an identifier")
}

fn parties() -> Parties {
    let node = |n: u8| RosterNode {
        node_id: NodeId(u64::from(n)),
        name: id(&format!("n{n}")),
        seat: Seat::Voter,
        log_key: key(100 + n).public_key(),
        cosigner_key: key(110 + n).public_key(),
        record_key: key(120 + n).public_key(),
    };
    let verifier = |n: u8| RosterVerifier {
        verifier_id: id(&format!("v{n}")),
        identifier: u16::from(n),
        failure_domain: id(&format!("domain-{n}")),
        vote_key: key(20 + n).public_key(),
        witness_key: key(30 + n).public_key(),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    let pinned = |name: &str, n: u8| PinnedParty {
        name: id(name),
        key: key(n).public_key(),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    let subject = |name: &str, actor_kind, n| Subject {
        subject_id: id(name),
        actor_kind,
        public_key: key(n).public_key(),
    };
    let authenticator = SoftAuthenticator::ed_dsa([15; 32], vec![15; 16], 0);
    Parties {
        organism_name: id("test"),
        created_at: START,
        nonce: Digest::ZERO,
        root: key(1).public_key(),
        nodes: (1..=3).map(node).collect(),
        verifiers: (1..=4).map(verifier).collect(),
        sentinel: pinned("sentinel", 2),
        actuator: pinned("actuator", 3),
        subjects: vec![
            subject("agent", ActorKind::Agent, 10),
            subject("gate", ActorKind::Gate, 12),
            subject("operator", ActorKind::Operator, 13),
            subject("person", ActorKind::Human, 14),
        ],
        repository: id("repo"),
        human_keys: vec![authenticator.enrolled(id("person"), START).expect("a key")],
    }
}

/// The scope of the organism that the intents belong to.
pub(crate) fn scope() -> Scope {
    genesis(parties()).scope()
}

/// The digest that gate receipts for `new` name.
pub(crate) fn candidate(new: &[u8]) -> Digest {
    land(&[], new).candidate_digest()
}

fn land(old: &[u8], new: &[u8]) -> LandPayload {
    LandPayload {
        resource: GitRef {
            repository: id("repo"),
            reference: Text::lossy("refs/heads/main"),
        },
        old: Bytes(old.to_vec()),
        new: Bytes(new.to_vec()),
    }
}

/// An intent to move `main` from `old` to `new`, frozen by a journal.
pub(crate) fn land_intent(old: &[u8], new: &[u8], mut evidence: Vec<Digest>) -> FrozenIntent {
    evidence.sort();
    let made = genesis(parties());
    let scope = made.scope();
    let grant = made.grants[0].id();
    let proposal = ProposalV1 {
        audience: id("repo"),
        payload: ActionPayload::Land(land(old, new)),
        applicable_grant_id: Some(grant),
        executor_subject_id_optional: Some(id("gate")),
        delegation_grant_digest_optional: None,
        promotion_target_subject_id_optional: None,
        expected_store_version: 0,
        expected_boundary_version: 1,
        expected_contract_version: 1,
        evidence,
        rollback: RollbackPlan::MoveRefBack,
        expires_at: START + 3_600_000,
        effect_deadline_ms: 600_000,
        mission_id_optional: None,
        ingress: Ingress::Cli,
    };
    let payload = proposal.to_canonical();
    let event_id = EventId(Digest::of(b"event"));
    let envelope = CausalEnvelopeV1 {
        event_id,
        actor_id: id("agent"),
        actor_kind: ActorKind::Agent,
        issuer: id("agent"),
        mission_id_optional: None,
        store_version_optional: None,
        target_digest_optional: None,
        causation_id_optional: None,
        capability_id_optional: None,
        mission_head_id_optional: None,
        delegation_id_optional: None,
        block_id_optional: None,
        receipt_id_optional: None,
        presence_id_optional: None,
        correlation_id: event_id,
        payload_digest: Digest::of(&payload),
        issued_at: START,
        expires_at: START + 600_000,
    };
    let commands = [
        RawCommand::Bootstrap(Envelope::seal(scope, &key(1), &made)),
        RawCommand::FreezeIntent(Envelope::seal(scope, &key(10), &envelope), Bytes(payload)),
    ];
    let mut state = State::new();
    let mut leaves = Vec::new();
    for (index, command) in (1u64..).zip(commands) {
        let at = EntryId {
            term: 1,
            leader: 1,
            index,
        };
        let applied = state.apply(at, &[command.to_canonical()]);
        for outcome in &applied.outcomes {
            assert!(outcome.reply.is_ok(), "{:?}", outcome.reply);
        }
        leaves.extend(applied.leaves);
    }
    let frozen = leaves.iter().find_map(|leaf| {
        let Ok(Event::Frozen(_, _, intent, _)) = Event::from_canonical(leaf) else {
            return None;
        };
        let proof = FreezeProof::of_verified_leaf(leaf).expect("a freeze");
        Some(FrozenIntent::check(&proof, &intent.to_canonical()).expect("the same bytes"))
    });
    frozen.expect("frozen")
}
