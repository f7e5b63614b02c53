//! What is due for an intent follows from the state alone.

use redlatch_journal::development::{Parties as Genesis, Subject, genesis};
use redlatch_journal::{EntryId, State};
use redlatch_types::records::*;
use redlatch_types::{
    Bytes, Digest, Envelope, EventId, NodeId, SigningKey, SubjectId, TransactionId,
};

use super::*;

const START: u64 = 1_800_000_000_000;

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed([n; 32])
}

fn id<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("an identifier")
}

fn made() -> GenesisV1 {
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
        subject_id: SubjectId(id(name)),
        actor_kind,
        public_key: key(n).public_key(),
    };
    genesis(Genesis {
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
        ],
        repository: id("repo"),
        human_keys: Vec::new(),
    })
}

/// A state with one frozen intent.
fn frozen() -> (State, IntentDigest) {
    let made = made();
    let scope = made.scope();
    let proposal = ProposalV1 {
        audience: id("repo"),
        payload: ActionPayload::Land(LandPayload {
            resource: GitRef {
                repository: id("repo"),
                reference: Text::lossy("refs/heads/main"),
            },
            old: Bytes(vec![]),
            new: Bytes(vec![1; 20]),
        }),
        applicable_grant_id: Some(made.grants[0].id()),
        executor_subject_id_optional: Some(id("gate")),
        delegation_grant_digest_optional: None,
        promotion_target_subject_id_optional: None,
        expected_store_version: 0,
        expected_boundary_version: 1,
        expected_contract_version: 1,
        evidence: vec![],
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
    for (index, command) in (1u64..).zip(commands) {
        let at = EntryId {
            term: 1,
            leader: 1,
            index,
        };
        let applied = state.apply(at, &[command.to_canonical()]);
        assert!(applied.outcomes.iter().all(|it| it.reply.is_ok()));
    }
    let digest = *state.authority.intents.keys().next().expect("frozen");
    (state, digest)
}

#[test]
fn a_frozen_intent_wants_a_ballot_until_it_expires() {
    let (mut state, digest) = frozen();
    assert_eq!(
        due(&state.authority),
        BTreeMap::from([(digest, Due::Ballot)])
    );
    assert_eq!(
        next(&state.authority, &digest),
        None,
        "nothing is proposed without a decision"
    );
    state.authority.clock.state_time = START + 3_600_000;
    assert!(due(&state.authority).is_empty());
}

#[test]
fn an_intent_of_another_variant_is_not_the_quorums() {
    let (mut state, digest) = frozen();
    for variant in AuthorityVariant::ALL {
        let live = state.authority.intents.get_mut(&digest).expect("live");
        live.intent.required_authority_variant = *variant;
        let ours = *variant == AuthorityVariant::AgentQuorum;
        assert_eq!(due(&state.authority).is_empty(), !ours, "{variant}");
    }
}

#[test]
fn a_transaction_that_is_gone_or_committed_wants_nothing() {
    let (mut state, digest) = frozen();
    let live = state.authority.intents.get_mut(&digest).expect("live");
    let transaction = TransactionId(Digest::of(b"transaction"));
    live.stage = IntentStage::InTransaction(transaction);
    assert!(
        due(&state.authority).is_empty(),
        "absent means spent or void"
    );
    let command = next(&state.authority, &digest);
    assert_eq!(command, Some(RawCommand::Commit(transaction)));
}
