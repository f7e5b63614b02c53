//! A small world for journal tests: every party has a real key, every command real bytes.
//!
//! Signatures are real; only the group key of the quorum is one Ed25519 key here, because the
//! journal sees a group signature as the ordinary Ed25519 signature that it is (RFC 9591).

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a world for tests: each file uses another part of it"
)]

use redlatch_journal::development::authenticator::SoftAuthenticator;
use redlatch_journal::development::{Parties, Subject, genesis};
use redlatch_journal::registry::FEATURE_LEVEL;
use redlatch_journal::{Authority, EntryId, Outcome, State};
use redlatch_types::command::{Authorization, RawCommand};
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

mod histories;
mod organism;
mod persons;
#[allow(
    unused_imports,
    reason = "not every user of this world has persons decide or changes the organism"
)]
pub use {histories::*, organism::*, persons::*};

pub const START: u64 = 1_800_000_000_000;
pub const MINUTE: u64 = limits::MINUTE_MS;

pub fn key(n: u8) -> SigningKey {
    SigningKey::from_seed([n; 32])
}
pub fn id<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("a good identifier")
}
pub fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}
pub const ROOT: u8 = 1;
pub const SENTINEL: u8 = 2;
pub const ACTUATOR: u8 = 3;
pub const GROUP: u8 = 4;
pub const AGENT: u8 = 10;
pub const OTHER_AGENT: u8 = 11;
pub const GATE: u8 = 12;
/// Persons: each has a client key, and a credential whose secret is 100 more.
pub const OWNER: u8 = 80;
pub const DEPUTY: u8 = 81;
/// Proposes changes of the organism and decides none.
pub const GOVERNOR: u8 = 82;
pub const VERIFIERS: [(&str, u8, &str); 4] = [
    ("va", 20, "east"),
    ("vb", 21, "north"),
    ("vc", 22, "south"),
    ("vd", 23, "west"),
];
pub const MAIN: &str = "refs/heads/main";

pub fn parties() -> Parties {
    let node = |n: u8| RosterNode {
        node_id: NodeId(u64::from(n)),
        name: id(&format!("n{n}")),
        seat: Seat::Voter,
        log_key: key(100 + n).public_key(),
        cosigner_key: key(110 + n).public_key(),
        record_key: key(120 + n).public_key(),
    };
    let pinned = |name: &str, n: u8| PinnedParty {
        name: id(name),
        key: key(n).public_key(),
        builds_digest: digest("builds"),
        policy_digest: digest("policy"),
    };
    let verifiers = VERIFIERS
        .iter()
        .zip(1u16..)
        .map(|((name, n, domain), identifier)| RosterVerifier {
            verifier_id: id(name),
            identifier,
            failure_domain: id(domain),
            vote_key: key(*n).public_key(),
            witness_key: key(n + 10).public_key(),
            builds_digest: digest("builds"),
            policy_digest: digest("policy"),
        })
        .collect();
    let subject = |name: &str, kind, n| Subject {
        subject_id: id(name),
        actor_kind: kind,
        public_key: key(n).public_key(),
    };
    Parties {
        organism_name: id("test"),
        created_at: START,
        nonce: digest("nonce"),
        root: key(ROOT).public_key(),
        nodes: (1..=3).map(node).collect(),
        verifiers,
        sentinel: pinned("sentinel", SENTINEL),
        actuator: pinned("actuator", ACTUATOR),
        subjects: vec![
            subject("agent", ActorKind::Agent, AGENT),
            subject("other", ActorKind::Agent, OTHER_AGENT),
            subject("gate", ActorKind::Gate, GATE),
            subject("alice", ActorKind::Human, OWNER),
            subject("bob", ActorKind::Human, DEPUTY),
            subject("governor", ActorKind::Operator, GOVERNOR),
        ],
        repository: id("repo"),
        human_keys: vec![human_key("alice", OWNER), human_key("bob", DEPUTY)],
    }
}

pub fn authenticator(person: u8) -> SoftAuthenticator {
    let id = vec![person; 16];
    SoftAuthenticator::es256(&[person + 100; 32], id, 0).expect("a good scalar")
}
pub fn human_key(name: &str, person: u8) -> HumanKeyV1 {
    let enrolled = authenticator(person).enrolled(id(name), START);
    HumanKeyV1 {
        platform: Text::lossy("test"),
        app_host_identity: Text::lossy("test"),
        enrollment_evidence: digest("enrolled"),
        ..enrolled.expect("a good key")
    }
}

/// A production genesis: human gated, no grants, keys on hardware only.
pub fn production() -> GenesisV1 {
    let mut record = genesis(parties());
    record.kind = OrganismKind::Production;
    record.grants.clear();
    record.activations.truncate(1);
    record.kernel.human_attestation_classes = vec![AttestationClass::Hardware];
    for key in &mut record.human_keys {
        key.attestation_class = AttestationClass::Hardware;
    }
    record.constitution.safety_kernel_digest = record.kernel.digest();
    for receipt in &mut record.activations {
        receipt.safety_kernel_digest = record.kernel.digest();
        receipt.target_constitution_digest = record.constitution.digest();
    }
    record
}

pub fn seal_genesis(genesis: &GenesisV1) -> RawCommand {
    RawCommand::Bootstrap(Envelope::seal(genesis.scope(), &key(ROOT), genesis))
}

pub struct World {
    pub state: State,
    pub entries: Vec<Vec<Vec<u8>>>,
    pub leaves: Vec<Vec<u8>>,
    pub events: Vec<Event>,
    serial: u64,
    /// Alice's authenticator, which counts.
    alice: Option<SoftAuthenticator>,
}

impl World {
    /// Bootstrapped, one tick, quorum key active.
    pub fn new() -> World {
        let mut world = World::before_genesis();
        let mut record = genesis(parties());
        record.feature_level = FEATURE_LEVEL;
        world.ok(seal_genesis(&record));
        world.tick(START + 1_000);
        let confirmations = world.key_confirmations(|_, _| {});
        world.ok(RawCommand::ActivateQuorumKey(confirmations));
        world
    }

    /// As it is in this state, with nothing before it; `serial` draws what is fresh.
    pub fn at(authority: Authority, serial: u64) -> World {
        let mut world = World::before_genesis();
        world.state.authority = authority;
        world.serial = serial;
        world
    }

    pub fn before_genesis() -> World {
        World {
            state: State::new(),
            entries: Vec::new(),
            leaves: Vec::new(),
            events: Vec::new(),
            serial: 0,
            alice: None,
        }
    }

    pub fn scope(&self) -> Scope {
        self.state.authority.scope().expect("after genesis")
    }
    pub fn now(&self) -> u64 {
        self.state.authority.clock.state_time
    }
    pub fn fresh(&mut self) -> Digest {
        self.serial += 1;
        Digest::of(&self.serial.to_be_bytes())
    }

    pub fn apply_together(&mut self, commands: Vec<RawCommand>) -> Vec<Outcome> {
        let bytes: Vec<_> = commands.iter().map(Canonical::to_canonical).collect();
        self.apply_bytes(bytes)
    }
    pub fn apply_bytes(&mut self, bytes: Vec<Vec<u8>>) -> Vec<Outcome> {
        self.entries.push(bytes.clone());
        let at = EntryId {
            term: 1,
            leader: 1,
            index: self.entries.len() as u64,
        };
        let applied = self.state.apply(at, &bytes);
        assert_eq!(applied.outcomes.len(), bytes.len());
        self.leaves.extend(applied.leaves);
        self.events.extend(applied.events);
        applied.outcomes
    }
    pub fn apply(&mut self, command: RawCommand) -> Outcome {
        self.apply_together(vec![command]).remove(0)
    }
    pub fn ok(&mut self, command: RawCommand) -> Accepted {
        self.apply(command).reply.expect("accepted")
    }
    /// Applies and expects a refusal that leaves the authority as it was (audit lines apart).
    pub fn refused(&mut self, command: RawCommand) -> Refusal {
        let before = self.state.authority.clone();
        let refusal = self.apply(command).reply.expect_err("refused");
        let mut after = self.state.authority.clone();
        after.audits = before.audits.clone();
        after.stepped = before.stepped.clone();
        assert_eq!(before, after, "a refusal changes nothing");
        refusal
    }

    pub fn readings(&self, clocks: &[(u8, u64)]) -> Vec<Envelope> {
        let record = |(node, clock_ms): &(u8, u64)| ClockReadingV1 {
            node_id: NodeId(u64::from(*node)),
            roster_epoch: RosterEpoch(1),
            previous_tick: self.state.authority.clock.tick,
            clock_ms: *clock_ms,
        };
        clocks
            .iter()
            .map(|c| Envelope::seal(self.scope(), &key(120 + c.0), &record(c)))
            .collect()
    }
    pub fn tick(&mut self, time: u64) {
        let readings = self.readings(&[(1, time), (2, time)]);
        let number = self.state.authority.clock.tick.next();
        self.ok(RawCommand::Tick(number, readings));
    }

    pub fn key_confirmations(
        &self,
        mut tamper: impl FnMut(usize, &mut KeyConfirmationV1),
    ) -> Vec<Envelope> {
        let mut confirmations = Vec::new();
        for (i, (name, n, _)) in VERIFIERS.iter().enumerate() {
            let mut record = KeyConfirmationV1 {
                verifier_id: id(name),
                quorum_key_epoch: KeyEpoch(1),
                roster_epoch: RosterEpoch(1),
                transcript_digest: digest("transcript"),
                group_key: key(GROUP).public_key(),
                public_key_package_digest: digest("package"),
            };
            tamper(i, &mut record);
            confirmations.push(Envelope::seal(self.scope(), &key(*n), &record));
        }
        confirmations
    }

    pub fn grant(&self, subject: &str) -> GrantId {
        let governance = self.state.authority.governance.as_ref().unwrap();
        governance
            .grants
            .iter()
            .find(|(_, g)| g.grant.subject_id.as_str() == subject)
            .map(|(id, _)| *id)
            .expect("the subject has a grant")
    }

    pub fn proposal(&self, subject: &str, reference: &str, old: u8, new: u8) -> ProposalV1 {
        let object = |n: u8| Bytes(if n == 0 { Vec::new() } else { vec![n; 20] });
        let resource = GitRef {
            repository: id("repo"),
            reference: Text::new(reference).unwrap(),
        };
        let version = self
            .state
            .authority
            .resources
            .get(&resource.id())
            .map_or(0, |r| r.store_version);
        ProposalV1 {
            audience: id("repo"),
            payload: ActionPayload::Land(LandPayload {
                resource,
                old: object(old),
                new: object(new),
            }),
            applicable_grant_id: Some(self.grant(subject)),
            executor_subject_id_optional: Some(id("gate")),
            delegation_grant_digest_optional: None,
            promotion_target_subject_id_optional: None,
            expected_store_version: version,
            expected_boundary_version: 1,
            expected_contract_version: 1,
            evidence: vec![digest("gate receipt")],
            rollback: RollbackPlan::MoveRefBack,
            expires_at: self.now() + 60 * MINUTE,
            effect_deadline_ms: 10 * MINUTE,
            mission_id_optional: None,
            ingress: Ingress::Cli,
        }
    }

    pub fn envelope_record(&mut self, subject: &str, payload: &[u8]) -> CausalEnvelopeV1 {
        let event_id = EventId(self.fresh());
        CausalEnvelopeV1 {
            event_id,
            actor_id: id(subject),
            actor_kind: self.kind(subject),
            issuer: id(subject),
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
            payload_digest: Digest::of(payload),
            issued_at: self.now(),
            expires_at: self.now() + 10 * MINUTE,
        }
    }
    fn kind(&self, subject: &str) -> ActorKind {
        let governance = self.state.authority.governance.as_ref().unwrap();
        let known = governance.subjects.get(&id(subject));
        known.map_or(ActorKind::Agent, |s| s.actor_kind)
    }
    pub fn freeze_command(&mut self, n: u8, subject: &str, proposal: &ProposalV1) -> RawCommand {
        let payload = proposal.to_canonical();
        let record = self.envelope_record(subject, &payload);
        RawCommand::FreezeIntent(
            Envelope::seal(self.scope(), &key(n), &record),
            Bytes(payload),
        )
    }
    pub fn freeze(&mut self, reference: &str, old: u8, new: u8) -> IntentDigest {
        let proposal = self.proposal("agent", reference, old, new);
        let command = self.freeze_command(AGENT, "agent", &proposal);
        match self.ok(command) {
            Accepted::Frozen(digest) => digest,
            other => panic!("{other:?}"),
        }
    }
    pub fn intent(&self, digest: IntentDigest) -> SovereignActionIntentV1 {
        self.state.authority.intents[&digest].intent.clone()
    }

    pub fn green_record(&mut self, digest: IntentDigest) -> SentinelVerdictV1 {
        let intent = self.intent(digest);
        let governance = self.state.authority.governance.clone().unwrap();
        SentinelVerdictV1 {
            verdict_id: self.fresh(),
            sentinel_identity_key_binary_policy_digest: governance.roster.sentinel.pin_digest(),
            metric_evidence_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
            verdict: Verdict::Green,
            intent_digest: digest,
            intent_core_ref: digest,
            intent_canonicalization_version: 1,
            constitution_epoch: governance.constitution.constitution_epoch,
            autonomy_epoch: governance.epoch.autonomy_epoch,
            risk_scope_digest: intent.risk_scope_digest,
            candidate_digest_optional: intent.candidate_digest_optional,
            nonce: self.fresh(),
            issued_at: self.now(),
            expires_at: self.now() + 5 * MINUTE,
            reason_optional: None,
        }
    }
    pub fn vote(&self, digest: IntentDigest, verifier: usize, verdict: VoteVerdict) -> VoteV1 {
        VoteV1 {
            intent_digest: digest,
            verifier_id: id(VERIFIERS[verifier].0),
            verdict,
            findings_digest: Digest::of(&[verifier as u8]),
            salt: Digest::of(&[verifier as u8, 1]),
            roster_epoch: self.governance().roster.roster_epoch,
            quorum_key_epoch: KeyEpoch(1),
        }
    }
    /// An honest authorization by the given votes.
    pub fn authorization(
        &mut self,
        digest: IntentDigest,
        verdicts: &[(usize, VoteVerdict)],
    ) -> Authorization {
        let green = self.green_record(digest);
        let votes: Vec<VoteV1> = verdicts
            .iter()
            .map(|(v, verdict)| self.vote(digest, *v, *verdict))
            .collect();
        self.authorization_of(digest, green, votes)
    }
    pub fn authorization_of(
        &mut self,
        digest: IntentDigest,
        green: SentinelVerdictV1,
        votes: Vec<VoteV1>,
    ) -> Authorization {
        let scope = self.scope();
        let sealed: Vec<Envelope> = votes
            .iter()
            .map(|v| Envelope::seal(scope, &key(vote_key(&v.verifier_id)), v))
            .collect();
        let green = Envelope::seal(scope, &self.sentinel(), &green);
        let mut seals: Vec<SealLine> = votes
            .iter()
            .zip(&sealed)
            .map(|(v, e)| SealLine {
                verifier_id: v.verifier_id.clone(),
                seal: e.digest(),
            })
            .collect();
        seals.sort();
        let sheet = SealSheetV1 {
            intent_digest: digest,
            seals,
        };
        let decision = self.decision(digest, &green, &votes, &sealed, &sheet);
        Authorization {
            intent_digest: digest,
            green,
            votes: sealed,
            decision: Envelope::seal(scope, &key(GROUP), &decision),
            sheet,
        }
    }
    pub fn decision(
        &self,
        digest: IntentDigest,
        green: &Envelope,
        votes: &[VoteV1],
        sealed: &[Envelope],
        sheet: &SealSheetV1,
    ) -> AgentQuorumDecisionV1 {
        let intent = self.intent(digest);
        let governance = self.state.authority.governance.as_ref().unwrap();
        let mut counted: Vec<CountedVote> = votes
            .iter()
            .zip(sealed)
            .map(|(v, e)| CountedVote {
                verifier_id: v.verifier_id.clone(),
                verdict: v.verdict,
                findings_digest: v.findings_digest,
                failure_domain: governance
                    .roster
                    .verifier(&v.verifier_id)
                    .map_or(id("nowhere"), |r| r.failure_domain.clone()),
                vote_digest: e.digest(),
            })
            .collect();
        counted.sort();
        let verdict = SentinelVerdictV1::from_canonical(&green.body.0).unwrap();
        AgentQuorumDecisionV1 {
            binding: CommonBindingSet::of(&intent, digest),
            executor_subject_id: intent.executor_subject_id_optional.clone().unwrap(),
            four_verifier_principals: VERIFIERS.iter().map(|v| id(v.0)).collect(),
            signed_votes_dissents: counted,
            sentinel_verdict_digest: green.digest(),
            evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
            quorum_threshold: 3,
            minimum_failure_domains: 3,
            quorum_policy_digest: governance.quorum_policy_digest(),
            independence_spec_digest: governance.constitution.independence_spec.digest(),
            applicable_grant_id: intent.applicable_grant_id.unwrap(),
            applicable_grant_digest: intent.applicable_grant_digest.unwrap(),
            seal_sheet_digest: sheet.digest(),
            roster_epoch: self.governance().roster.roster_epoch,
            quorum_key_epoch: KeyEpoch(1),
            expires_at: verdict.expires_at,
        }
    }

    pub fn authorize(&mut self, digest: IntentDigest) -> CapabilityId {
        let given = self.authorization(digest, &approvals());
        match self.ok(RawCommand::Authorize(Box::new(given))) {
            Accepted::Authorized(capability) => capability,
            other => panic!("{other:?}"),
        }
    }
    pub fn prepare(&mut self, digest: IntentDigest) -> TransactionId {
        let capability = self.authorize(digest);
        match self.ok(RawCommand::Prepare(digest, capability)) {
            Accepted::Prepared(id) => id,
            other => panic!("{other:?}"),
        }
    }
    pub fn commit(&mut self, digest: IntentDigest) -> (TransactionId, MarkerNumber) {
        let id = self.prepare(digest);
        match self.ok(RawCommand::Commit(id)) {
            Accepted::Committed(marker) => (id, marker),
            other => panic!("{other:?}"),
        }
    }
    pub fn claim_record(&self, id: TransactionId, marker: MarkerNumber) -> EffectClaimV1 {
        let transaction = &self.state.authority.transactions[&id];
        let intent = self.intent(transaction.transaction.binding.intent_digest);
        EffectClaimV1 {
            transaction_id: id,
            marker,
            resource_id: intent.payload.resource().id(),
            effect_key: digest("effect"),
        }
    }
    pub fn claim(&self, id: TransactionId, marker: MarkerNumber) -> RawCommand {
        let record = self.claim_record(id, marker);
        RawCommand::ClaimEffect(Envelope::seal(self.scope(), &key(GATE), &record))
    }
    pub fn outcome(
        &self,
        id: TransactionId,
        marker: MarkerNumber,
        outcome: OutcomeKind,
        head: u8,
    ) -> RawCommand {
        let claim = match self.claim(id, marker) {
            RawCommand::ClaimEffect(envelope) => envelope.digest(),
            _ => unreachable!(),
        };
        let record = EffectOutcomeV1 {
            transaction_id: id,
            marker,
            claim_digest: claim,
            outcome,
            observed_head: Bytes(vec![head; 20]),
            detail: Text::default(),
        };
        RawCommand::ReportOutcome(Envelope::seal(self.scope(), &key(GATE), &record))
    }
    /// A whole landing, effect done.
    pub fn land(&mut self, reference: &str, old: u8, new: u8) -> (TransactionId, MarkerNumber) {
        let digest = self.freeze(reference, old, new);
        let (id, marker) = self.commit(digest);
        let claim = self.claim(id, marker);
        self.ok(claim);
        let outcome = self.outcome(id, marker, OutcomeKind::Done, new);
        self.ok(outcome);
        (id, marker)
    }
}

pub fn approvals() -> Vec<(usize, VoteVerdict)> {
    (0..3).map(|v| (v, VoteVerdict::Approve)).collect()
}
pub fn vote_key(verifier: &VerifierId) -> u8 {
    VERIFIERS
        .iter()
        .find(|v| v.0 == verifier.as_str())
        .map_or(99, |v| v.1)
}

/// The sentinel's outbox, as far as the journal sees it.
pub struct Outbox {
    pub sentinel: u8,
    pub number: u64,
    pub root: Digest,
    pub entries: Vec<Envelope>,
}
impl Outbox {
    pub fn new() -> Outbox {
        Outbox::of(SENTINEL)
    }
    pub fn of(sentinel: u8) -> Outbox {
        Outbox {
            sentinel,
            number: 0,
            root: Digest::ZERO,
            entries: Vec::new(),
        }
    }
    pub fn verdict(scope: &RedScope, verbs: &[u64], plan: Option<Digest>) -> RedVerdictV1 {
        let (scope_kind, scope_value) = scope.to_open();
        RedVerdictV1 {
            verdict_id: digest("red"),
            scope_kind,
            scope_value,
            negative_verbs: verbs.to_vec(),
            rollback_candidate_plan_digest_optional: plan,
            reason: Text::new("because").unwrap(),
            issued_at: START,
        }
    }
    pub fn push(
        &mut self,
        scope: Scope,
        source: Option<IntentDigest>,
        verdict: Vec<u8>,
    ) -> Envelope {
        let verdict = Bytes(verdict);
        let number = OutboxEpoch(self.number + 1);
        let previous = self.root;
        let root = SentinelRedOutboxV1::root_after(
            &previous,
            number,
            &Digest::of(&verdict.0),
            source.as_ref(),
        );
        let record = SentinelRedOutboxV1 {
            outbox_epoch: number,
            previous_outbox_root_digest: previous,
            red_verdict: verdict,
            source_intent_digest_optional: source,
            signed_outbox_root_digest: root,
            protected_latest_outbox_epoch: number,
        };
        self.number += 1;
        self.root = root;
        let envelope = Envelope::seal(scope, &key(self.sentinel), &record);
        self.entries.push(envelope.clone());
        envelope
    }
    pub fn red(&mut self, world: &World, scope: &RedScope) -> RawCommand {
        let source = match scope {
            RedScope::Intent(d) => Some(*d),
            _ => None,
        };
        let verdict = Outbox::verdict(scope, &[], None).to_canonical();
        RawCommand::LatchRed(vec![self.push(world.scope(), source, verdict)])
    }
}

impl World {
    pub fn latch(&mut self, command: RawCommand) -> LatchNumber {
        match self.ok(command) {
            Accepted::Latched(numbers) => *numbers.last().expect("one latch"),
            other => panic!("{other:?}"),
        }
    }
    pub fn attempt(&mut self, latch: LatchNumber) -> SafetyActionIntentV1 {
        let governance = self.state.authority.governance.clone().unwrap();
        let held = self.state.authority.latches[&latch].clone();
        let previous = held.attempt.as_ref().map(|a| &a.intent);
        SafetyActionIntentV1::derive(
            &held.receipt,
            governance.roster.actuator.pin_digest(),
            Rebase {
                attempt_sequence: previous.map_or(1, |p| p.attempt_sequence + 1),
                rebased_from: previous.map(|p| p.digest()),
                expected_autonomy_epoch: governance.epoch.autonomy_epoch,
                attempt_idempotency_key: self.fresh(),
                nonce: self.fresh(),
            },
        )
    }
    pub fn store_attempt(&mut self, latch: LatchNumber) -> SafetyActionIntentV1 {
        let attempt = self.attempt(latch);
        self.ok(RawCommand::StoreSafetyIntent(Box::new(attempt.clone())));
        attempt
    }
    pub fn capability_command(&self, attempt: &SafetyActionIntentV1, n: u8) -> RawCommand {
        let capability = SafetyCapabilityV1::of(attempt);
        RawCommand::PrepareSafety(Envelope::seal(self.scope(), &key(n), &capability))
    }
    pub fn prepare_safety(&mut self, latch: LatchNumber) -> TransactionId {
        let attempt = self.store_attempt(latch);
        let command = self.capability_command(&attempt, ACTUATOR);
        match self.ok(command) {
            Accepted::SafetyPrepared(id) => id,
            other => panic!("{other:?}"),
        }
    }
    pub fn stop(&mut self, latch: LatchNumber) -> TransactionId {
        let id = self.prepare_safety(latch);
        self.ok(RawCommand::ClaimSafety(id));
        self.ok(RawCommand::FinishSafety(id));
        id
    }
    pub fn ack(&self, latch: LatchNumber, number: u64) -> RawCommand {
        let record = OutboxAckV1 {
            latch,
            outbox_epoch: OutboxEpoch(number),
            sentinel_key: key(SENTINEL).public_key(),
        };
        RawCommand::AcknowledgeOutbox(Envelope::seal(self.scope(), &key(SENTINEL), &record))
    }
}
