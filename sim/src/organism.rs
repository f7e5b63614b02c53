//! The organism of a run: a development genesis with keys from the seed, and what its parties sign.
//!
//! Real signatures everywhere. Only the quorum's group key is one Ed25519 key here: the journal sees a
//! group signature as the ordinary signature that it is (RFC 9591). Nothing is sent from here.

use std::collections::BTreeMap;

use redlatch_journal::Authority;
use redlatch_journal::authority::Governance;
use redlatch_journal::development::authenticator::SoftAuthenticator;
use redlatch_journal::development::{Parties, Subject, genesis};
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_types::checkpoint::{Origin, Stage};
use redlatch_types::command::{Authorization, RawCommand};
use redlatch_types::limits::MINUTE_MS;
use redlatch_types::policy::{NodeKeys, Policy};
use redlatch_types::records::*;
use redlatch_types::*;

use crate::seed::{Draws, Seed};

/// Nodes of the cluster.
pub const NODES: u64 = 3;
/// Agents that propose.
pub const AGENTS: u64 = 6;

/// Verifiers and their failure domains.
pub const VERIFIERS: [(&str, &str); 4] = [
    ("va", "east"),
    ("vb", "north"),
    ("vc", "south"),
    ("vd", "west"),
];
const REPOSITORY: &str = "repo";
/// Name of the sentinel.
pub const SENTINEL: &str = "sentinel";
/// Name of the actuator.
pub const ACTUATOR: &str = "actuator";
/// The safety officer.
pub const OFFICER: &str = "officer";
/// Who decides what only persons may.
const PERSON: &str = "person";

/// Names and keys of everybody.
#[derive(Clone, Debug)]
pub struct Organism {
    seed: Seed,
    /// The record that starts it.
    pub genesis: GenesisV1,
    /// The same, signed by the offline root.
    pub sealed: Envelope,
}

/// Name of a node.
pub fn node_name(node: u64) -> String {
    format!("n{node}")
}

/// Name of an agent.
pub fn agent_name(agent: u64) -> String {
    format!("agent-{agent}")
}

fn id<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("constant names are names")
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

impl Organism {
    /// The organism of a seed, made at `created_at` (milliseconds since 1970).
    pub fn new(seed: Seed, created_at: u64) -> Organism {
        let pinned = |name: &str| PinnedParty {
            name: id(name),
            key: seed.key(name).public_key(),
            builds_digest: digest("builds"),
            policy_digest: digest("policy"),
        };
        let mut subjects: Vec<Subject> = (1..=AGENTS)
            .map(|agent| subject(seed, &agent_name(agent), ActorKind::Agent))
            .collect();
        subjects.push(subject(seed, "gate", ActorKind::Gate));
        subjects.push(subject(seed, OFFICER, ActorKind::Operator));
        subjects.push(subject(seed, PERSON, ActorKind::Human));
        let genesis = genesis(Parties {
            organism_name: id("simulated"),
            created_at,
            nonce: seed.bytes("organism"),
            root: seed.key("root").public_key(),
            nodes: (1..=NODES).map(|node| roster_node(seed, node)).collect(),
            verifiers: VERIFIERS
                .iter()
                .zip(1..)
                .map(|(it, at)| verifier(seed, it, at))
                .collect(),
            sentinel: pinned(SENTINEL),
            actuator: pinned(ACTUATOR),
            subjects,
            repository: id(REPOSITORY),
            human_keys: vec![person_key(seed, created_at)],
        });
        let sealed = Envelope::seal(genesis.scope(), &seed.key("root"), &genesis);
        Organism {
            seed,
            genesis,
            sealed,
        }
    }

    /// Its id.
    pub fn id(&self) -> OrganismId {
        self.genesis.organism_id()
    }

    /// The three keys of a node.
    pub fn node_keys(&self, node: u64) -> NodeSigningKeys {
        let key = |kind: &str| self.seed.key(&format!("{} {kind}", node_name(node))).into();
        NodeSigningKeys {
            log: key("log"),
            cosigner: key("cosigner"),
            record: key("record"),
        }
    }

    /// The signing key of a verifier, the sentinel or the actuator.
    pub fn party_key(&self, name: &str) -> SigningKey {
        self.seed.key(name)
    }

    /// The safety officer's order to stop something.
    pub fn order(&self, scope: RedScope, draws: &mut Draws) -> Envelope {
        let order = RaiseOrderV1 {
            order_id: draws.digest(),
            scope,
            verbs: Vec::new(),
            rollback_candidate_plan_digest_optional: None,
            reason: Text::lossy("simulated"),
        };
        Envelope::seal(self.genesis.scope(), &self.seed.key(OFFICER), &order)
    }

    /// The trust policy of an auditor: a majority of the nodes.
    pub fn policy(&self) -> Policy {
        let origin = Origin {
            stage: Stage::Development,
            organism: self.id(),
            history: 0,
        };
        let nodes: Vec<NodeKeys> = self.genesis.roster.nodes.iter().map(node_keys).collect();
        Policy::of_roster(&origin, &nodes, &[]).expect("a roster of three nodes makes a policy")
    }

    /// The four verifiers' confirmation of the quorum's first key.
    pub fn key_confirmations(&self) -> RawCommand {
        let confirm = |(name, _): &(&str, &str)| {
            let record = KeyConfirmationV1 {
                verifier_id: id(name),
                quorum_key_epoch: KeyEpoch(1),
                roster_epoch: RosterEpoch(1),
                transcript_digest: digest("transcript"),
                group_key: self.seed.key("group").public_key(),
                public_key_package_digest: digest("package"),
            };
            Envelope::seal(self.genesis.scope(), &self.seed.key(name), &record)
        };
        RawCommand::ActivateQuorumKey(VERIFIERS.iter().map(confirm).collect())
    }

    /// A command of an agent, with its idempotency key.
    fn originate(&self, agent: u64, now: u64, key: EventId, payload: &[u8]) -> Envelope {
        let name = agent_name(agent);
        let record = CausalEnvelopeV1 {
            event_id: key,
            actor_id: id(&name),
            actor_kind: ActorKind::Agent,
            issuer: id(&name),
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
            correlation_id: key,
            payload_digest: Digest::of(payload),
            issued_at: now,
            expires_at: now + 10 * MINUTE_MS,
        };
        Envelope::seal(self.genesis.scope(), &self.seed.key(&name), &record)
    }

    /// Asks that the landing of a new branch be frozen. `now` is state time.
    pub fn freeze(&self, agent: u64, now: u64, key: EventId) -> RawCommand {
        let proposal = ProposalV1 {
            audience: id(REPOSITORY),
            payload: ActionPayload::Land(LandPayload {
                resource: GitRef {
                    repository: id(REPOSITORY),
                    reference: Text::lossy(&format!("refs/heads/{}", &key.to_string()[..16])),
                },
                old: Bytes(Vec::new()),
                new: Bytes(key.0.0[..20].to_vec()),
            }),
            applicable_grant_id: Some(self.grant(agent)),
            executor_subject_id_optional: Some(id("gate")),
            delegation_grant_digest_optional: None,
            promotion_target_subject_id_optional: None,
            expected_store_version: 0,
            expected_boundary_version: 1,
            expected_contract_version: 1,
            evidence: vec![digest("gate receipt")],
            rollback: RollbackPlan::MoveRefBack,
            expires_at: now + 60 * MINUTE_MS,
            effect_deadline_ms: 10 * MINUTE_MS,
            mission_id_optional: None,
            ingress: Ingress::Cli,
        };
        let payload = proposal.to_canonical();
        RawCommand::FreezeIntent(self.originate(agent, now, key, &payload), Bytes(payload))
    }

    /// Takes an intent back.
    pub fn withdraw(&self, agent: u64, now: u64, key: EventId, intent: IntentDigest) -> RawCommand {
        let payload = WithdrawalV1 {
            intent_digest: intent,
            reason: Text::lossy("simulated"),
        };
        let payload = payload.to_canonical();
        RawCommand::Withdraw(self.originate(agent, now, key, &payload), Bytes(payload))
    }

    /// The gate is about to make the effect of a marker.
    pub fn claim(
        &self,
        transaction_id: TransactionId,
        marker: MarkerNumber,
        resource_id: ResourceId,
    ) -> RawCommand {
        let effect_key = Digest::of_parts(&[b"effect", &transaction_id.0.0]);
        let record = EffectClaimV1 {
            transaction_id,
            marker,
            resource_id,
            effect_key,
        };
        let scope = self.genesis.scope();
        RawCommand::ClaimEffect(Envelope::seal(scope, &self.seed.key("gate"), &record))
    }

    fn grant(&self, agent: u64) -> GrantId {
        let name = agent_name(agent);
        let mut grants = self.genesis.grants.iter();
        let grant = grants.find(|grant| grant.subject_id.as_str() == name);
        grant
            .map(AutonomyGrantV1::id)
            .expect("the genesis grants every agent")
    }

    /// An honest authorization of a frozen intent by GREEN and three votes; none if the state does not hold
    /// the intent or the quorum has no key.
    pub fn authorization(
        &self,
        authority: &Authority,
        intent: IntentDigest,
        draws: &mut Draws,
    ) -> Option<RawCommand> {
        let governance = authority.governance.as_ref()?;
        let frozen = &authority.intents.get(&intent)?.intent;
        let key_epoch = governance.quorum_key.as_ref()?.epoch;
        let scope = authority.scope()?;
        let now = authority.clock.state_time;
        let green = green(governance, frozen, intent, now, draws);
        let green = Envelope::seal(scope, &self.seed.key(SENTINEL), &green);
        let votes: BTreeMap<&str, Envelope> = VERIFIERS[..3]
            .iter()
            .map(|(name, _)| (*name, self.vote(scope, name, intent, governance, key_epoch)))
            .collect();
        let line = |(name, vote): (&&str, &Envelope)| SealLine {
            verifier_id: id(name),
            seal: vote.digest(),
        };
        let mut sheet = SealSheetV1 {
            intent_digest: intent,
            seals: votes.iter().map(line).collect(),
        };
        sheet.seals.sort();
        let decision = decision(governance, frozen, intent, &green, &votes, &sheet)?;
        Some(RawCommand::Authorize(Box::new(Authorization {
            intent_digest: intent,
            green,
            votes: votes.into_values().collect(),
            decision: Envelope::seal(scope, &self.seed.key("group"), &decision),
            sheet,
        })))
    }

    fn vote(
        &self,
        scope: Scope,
        name: &str,
        intent: IntentDigest,
        governance: &Governance,
        key_epoch: KeyEpoch,
    ) -> Envelope {
        let vote = VoteV1 {
            intent_digest: intent,
            verifier_id: id(name),
            verdict: VoteVerdict::Approve,
            findings_digest: digest(name),
            salt: self.seed.bytes(name),
            roster_epoch: governance.roster.roster_epoch,
            quorum_key_epoch: key_epoch,
        };
        Envelope::seal(scope, &self.seed.key(name), &vote)
    }

    /// An empty outbox of the sentinel.
    pub fn outbox(&self) -> Outbox {
        Outbox {
            key: self.seed.key(SENTINEL),
            scope: self.genesis.scope(),
            number: OutboxEpoch(0),
            root: Digest::ZERO,
            entries: Vec::new(),
        }
    }
}

/// The sentinel's chain of REDs.
pub struct Outbox {
    key: SigningKey,
    scope: Scope,
    number: OutboxEpoch,
    root: Digest,
    /// What is signed and not acknowledged yet, in order.
    entries: Vec<Envelope>,
}

impl Outbox {
    /// Signs the next RED; returns the digest of its record.
    pub fn sign(&mut self, scope: &RedScope, now: u64, draws: &mut Draws) -> Digest {
        let (scope_kind, scope_value) = scope.to_open();
        let verdict = RedVerdictV1 {
            verdict_id: draws.digest(),
            scope_kind,
            scope_value,
            negative_verbs: Vec::new(),
            rollback_candidate_plan_digest_optional: None,
            reason: Text::lossy("simulated"),
            issued_at: now,
        };
        let source = match scope {
            RedScope::Intent(intent) => Some(*intent),
            _ => None,
        };
        let verdict = Bytes(verdict.to_canonical());
        let number = self.number.next();
        let root = SentinelRedOutboxV1::root_after(
            &self.root,
            number,
            &Digest::of(&verdict.0),
            source.as_ref(),
        );
        let record = SentinelRedOutboxV1 {
            outbox_epoch: number,
            previous_outbox_root_digest: self.root,
            red_verdict: verdict,
            source_intent_digest_optional: source,
            signed_outbox_root_digest: root,
            protected_latest_outbox_epoch: number,
        };
        (self.number, self.root) = (number, root);
        let sealed = Envelope::seal(self.scope, &self.key, &record);
        let record = sealed.digest();
        self.entries.push(sealed);
        record
    }

    /// Everything not acknowledged yet, as one command; none if that is nothing.
    pub fn segment(&self) -> Option<RawCommand> {
        (!self.entries.is_empty()).then(|| RawCommand::LatchRed(self.entries.clone()))
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// The oldest `count` are latched: returns their digests and forgets them.
    pub fn acknowledge(&mut self, count: usize) -> Vec<Digest> {
        let count = count.min(self.entries.len());
        self.entries
            .drain(..count)
            .map(|entry| entry.digest())
            .collect()
    }
}

fn subject(seed: Seed, name: &str, actor_kind: ActorKind) -> Subject {
    Subject {
        subject_id: id(name),
        actor_kind,
        public_key: seed.key(name).public_key(),
    }
}

fn person_key(seed: Seed, created_at: u64) -> HumanKeyV1 {
    let secret = seed.bytes("authenticator").0;
    let authenticator = SoftAuthenticator::ed_dsa(secret, secret[..16].to_vec(), 0);
    let enrolled = authenticator.enrolled(id(PERSON), created_at);
    enrolled.expect("an Ed25519 key is always one")
}

fn roster_node(seed: Seed, node: u64) -> RosterNode {
    let name = node_name(node);
    let key = |kind: &str| seed.key(&format!("{name} {kind}")).public_key();
    RosterNode {
        node_id: NodeId(node),
        name: id(&name),
        seat: Seat::Voter,
        log_key: key("log"),
        cosigner_key: key("cosigner"),
        record_key: key("record"),
    }
}

fn node_keys(node: &RosterNode) -> NodeKeys {
    NodeKeys {
        label: node.name.to_string(),
        log: node.log_key,
        cosigner: node.cosigner_key,
    }
}

fn verifier(seed: Seed, (name, domain): &(&str, &str), identifier: u16) -> RosterVerifier {
    RosterVerifier {
        verifier_id: id(name),
        identifier,
        failure_domain: id(domain),
        vote_key: seed.key(name).public_key(),
        witness_key: seed.key(&format!("{name} witness")).public_key(),
        builds_digest: digest("builds"),
        policy_digest: digest("policy"),
    }
}

fn green(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    now: u64,
    draws: &mut Draws,
) -> SentinelVerdictV1 {
    SentinelVerdictV1 {
        verdict_id: draws.digest(),
        sentinel_identity_key_binary_policy_digest: governance.roster.sentinel.pin_digest(),
        metric_evidence_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        verdict: Verdict::Green,
        intent_digest: digest,
        intent_core_ref: digest,
        intent_canonicalization_version: intent.intent_canonicalization_version,
        constitution_epoch: governance.constitution.constitution_epoch,
        autonomy_epoch: governance.epoch.autonomy_epoch,
        risk_scope_digest: intent.risk_scope_digest,
        candidate_digest_optional: intent.candidate_digest_optional,
        nonce: draws.digest(),
        issued_at: now,
        expires_at: now + 5 * MINUTE_MS,
        reason_optional: None,
    }
}

fn decision(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    green: &Envelope,
    votes: &BTreeMap<&str, Envelope>,
    sheet: &SealSheetV1,
) -> Option<AgentQuorumDecisionV1> {
    let mut counted = Vec::new();
    for (name, vote) in votes {
        let verifier_id: VerifierId = id(name);
        let failure_domain = governance
            .roster
            .verifier(&verifier_id)?
            .failure_domain
            .clone();
        counted.push(CountedVote {
            verifier_id,
            verdict: VoteVerdict::Approve,
            findings_digest: self::digest(name),
            failure_domain,
            vote_digest: vote.digest(),
        });
    }
    counted.sort();
    let verdict = SentinelVerdictV1::from_canonical(&green.body.0).ok()?;
    Some(AgentQuorumDecisionV1 {
        binding: CommonBindingSet::of(intent, digest),
        executor_subject_id: intent.executor_subject_id_optional.clone()?,
        four_verifier_principals: VERIFIERS.iter().map(|(name, _)| id(name)).collect(),
        signed_votes_dissents: counted,
        sentinel_verdict_digest: green.digest(),
        evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        quorum_threshold: 3,
        minimum_failure_domains: 3,
        quorum_policy_digest: governance.quorum_policy_digest(),
        independence_spec_digest: governance.constitution.independence_spec.digest(),
        applicable_grant_id: intent.applicable_grant_id?,
        applicable_grant_digest: intent.applicable_grant_digest?,
        seal_sheet_digest: sheet.digest(),
        roster_epoch: governance.roster.roster_epoch,
        quorum_key_epoch: governance.quorum_key.as_ref()?.epoch,
        expires_at: verdict.expires_at,
    })
}
