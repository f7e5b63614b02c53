//! Drawn instances of everything that is encoded: one door, [`Draw`], and a list of all types.
//!
//! ```text
//!   structs! · enums! · words! ──▶ impl Draw for each ──▶ STRUCTS, ENUMS, WORDS
//!        (a missing field or variant does not compile)        │ must be all names that
//!   sources of the crate ──▶ source.rs ───────────────────────┘ derive an encoding
//! ```
//!
//! A [`Gen`] draws from a seed, or draws the empty instance: zero, none, no element.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "shared by tests of several crates: each uses another part of it"
)]

use redlatch_types::command::{Authorization, HumanAuthorization, PolicyAuthorization, RawCommand};
use redlatch_types::event::{
    Accepted, Authorized, Basis, ChainPlace, Event, Ground, GroundCause, Origination, QuorumBasis,
    Reply, StateRootV1,
};
use redlatch_types::mandate::{Mandate, NegativeVerb};
use redlatch_types::records::*;
use redlatch_types::*;

/// Where drawn values come from.
pub struct Gen(Option<u64>);

impl Gen {
    /// Draws differ with the seed and are the same for the same seed.
    pub fn new(seed: u64) -> Gen {
        Gen(Some(seed))
    }

    /// Draws only what is empty: zero, none, the first variant.
    pub fn empty() -> Gen {
        Gen(None)
    }

    /// A value of any type.
    pub fn draw<T: Draw>(&mut self) -> T {
        T::draw(self)
    }

    /// The next number (splitmix64), or 0 of an empty generator.
    fn next(&mut self) -> u64 {
        let Some(state) = &mut self.0 else { return 0 };
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    /// The field or element called `_name`; the name only says in a macro what is drawn.
    fn part<T: Draw>(&mut self, _name: &str) -> T {
        T::draw(self)
    }
}

/// A type of which instances can be drawn.
pub trait Draw: Sized {
    /// The next instance.
    fn draw(g: &mut Gen) -> Self;
}

impl Draw for bool {
    fn draw(g: &mut Gen) -> bool {
        g.next() & 1 == 1
    }
}

/// Numbers at the edges of their encoding as often as any others.
impl Draw for u64 {
    fn draw(g: &mut Gen) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            23,
            24,
            255,
            256,
            65_535,
            65_536,
            0xffff_ffff,
            u64::MAX,
        ];
        match g.below(2) {
            0 => EDGES[g.below(EDGES.len())],
            _ => g.next(),
        }
    }
}

macro_rules! narrow {
    ($($ty:ty)*) => {$(
        impl Draw for $ty {
            fn draw(g: &mut Gen) -> $ty {
                g.draw::<u64>() as $ty
            }
        }
    )*};
}
narrow! { u8 u16 u32 }

macro_rules! bytes {
    ($($ty:ident $len:literal,)*) => {$(
        impl Draw for $ty {
            fn draw(g: &mut Gen) -> $ty {
                let mut bytes = [0; $len];
                bytes.iter_mut().for_each(|b| *b = (g.next() & 0xff) as u8);
                $ty(bytes)
            }
        }
    )*};
}
bytes! { Digest 32, PublicKey 32, Signature 64, }

impl Draw for Bytes {
    fn draw(g: &mut Gen) -> Bytes {
        let len = g.below(40);
        Bytes((0..len).map(|_| (g.next() & 0xff) as u8).collect())
    }
}

impl Draw for Name {
    fn draw(g: &mut Gen) -> Name {
        const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz./_-";
        let mut text = String::from(char::from(LETTERS[g.below(36)]));
        for _ in 0..g.below(64) {
            text.push(char::from(LETTERS[g.below(LETTERS.len())]));
        }
        Name::new(&text).unwrap()
    }
}

impl Draw for Text {
    fn draw(g: &mut Gen) -> Text {
        const LETTERS: [char; 6] = ['a', ' ', 'ß', '€', '"', '𐍈'];
        let text: String = (0..g.below(40)).map(|_| LETTERS[g.below(6)]).collect();
        Text::new(&text).unwrap()
    }
}

impl Draw for Refusal {
    fn draw(g: &mut Gen) -> Refusal {
        Refusal::ALL[g.below(Refusal::ALL.len())]
    }
}

impl<T: Draw> Draw for Option<T> {
    fn draw(g: &mut Gen) -> Option<T> {
        (g.below(2) == 1).then(|| g.draw())
    }
}

impl<T: Draw> Draw for Vec<T> {
    fn draw(g: &mut Gen) -> Vec<T> {
        (0..g.below(3)).map(|_| g.draw()).collect()
    }
}

impl<T: Draw> Draw for Box<T> {
    fn draw(g: &mut Gen) -> Box<T> {
        Box::new(g.draw())
    }
}

macro_rules! wrapped {
    ($($ty:ident)*) => {$(
        impl Draw for $ty {
            fn draw(g: &mut Gen) -> $ty {
                $ty(g.draw())
            }
        }
    )*};
}
wrapped! {
    OrganismId IntentDigest CapabilityId TransactionId GrantId EventId ResourceId ChallengeId
    HumanKeyId NodeId TickNumber MarkerNumber LatchNumber GroundNumber AutonomyEpoch
    ConstitutionEpoch RosterEpoch KeyEpoch OutboxEpoch SubjectId VerifierId FailureDomain
    MissionId
}

/// A drawn type as a value: its name, and what is asked of every encoding.
pub struct Type {
    /// Its name in the source.
    pub name: &'static str,
    /// Canonical bytes of a drawn instance, which were read back as the same.
    pub draw: fn(&mut Gen) -> Vec<u8>,
    /// Whether altered bytes are refused or say something else, and say it in one way only.
    pub tells_apart: fn(&[u8], &[u8]) -> bool,
}

impl Type {
    const fn of<T: Draw + Canonical + PartialEq + std::fmt::Debug>(name: &'static str) -> Type {
        Type {
            name,
            draw: |g| {
                let value: T = g.draw();
                let bytes = value.to_canonical();
                assert_eq!(T::from_canonical(&bytes).as_ref(), Ok(&value));
                bytes
            },
            tells_apart: |bytes, altered| match T::from_canonical(altered) {
                Ok(other) => {
                    other.to_canonical() == altered && T::from_canonical(bytes) != Ok(other)
                }
                Err(_) => true,
            },
        }
    }
}

/// The name of a variant and how to draw it.
pub type Way<T> = (&'static str, fn(&mut Gen) -> T);

/// An enum of which each variant can be drawn.
pub trait Ways: Sized {
    /// Every variant.
    fn ways() -> Vec<Way<Self>>;
}

macro_rules! structs {
    ($($ty:ident { $($field:ident),* $(,)? })*) => {
        $(impl Draw for $ty {
            fn draw(g: &mut Gen) -> $ty {
                $ty { $($field: g.part(stringify!($field)),)* }
            }
        })*

        /// Every encoded struct.
        pub const STRUCTS: &[Type] = &[$(Type::of::<$ty>(stringify!($ty)),)*];
    };
}

macro_rules! enums {
    ($($ty:ident { $($variant:ident $(($($part:tt),*))?,)* })*) => {
        $(impl Ways for $ty {
            fn ways() -> Vec<Way<$ty>> {
                // A variant that is not listed does not compile here.
                let _all = |value: &$ty| match value { $($ty::$variant { .. } => (),)* };
                vec![$((stringify!($variant), |g| {
                    let _: &Gen = g;
                    $ty::$variant $(($(g.part(stringify!($part))),*))?
                }),)*]
            }
        }

        impl Draw for $ty {
            fn draw(g: &mut Gen) -> $ty {
                let ways = $ty::ways();
                let (_, way) = ways[g.below(ways.len())];
                way(g)
            }
        })*

        /// Every encoded enum that has no words.
        pub const ENUMS: &[Type] = &[$(Type::of::<$ty>(stringify!($ty)),)*];
    };
}

macro_rules! words {
    ($($ty:ident)*) => {
        $(impl Draw for $ty {
            fn draw(g: &mut Gen) -> $ty {
                $ty::ALL[g.below($ty::ALL.len())]
            }
        })*

        /// Every encoded enum of words.
        pub const WORDS: &[Type] = &[$(Type::of::<$ty>(stringify!($ty)),)*];
    };
}

structs! {
    LandPayload { resource, old, new }
    SwapPayload { resource, old, new }
    AmendPayload { constitution }
    ModePayload { mode, activates_at, gate_receipts_digest, rollback_plan_digest }
    PromotionPayload { grant, replaces_optional, dataset_digest, rollback_digest }
    ResetPayload { grounds, cause }
    ResolvePayload { transaction_id, outcome, observed_head }
    GitRef { repository, reference }
    ExternalResource { realm, path }
    VoteV1 {
        intent_digest, verifier_id, verdict, findings_digest, salt, roster_epoch, quorum_key_epoch
    }
    SealedVoteV1 { scope, key, verifier_id, seal, signature }
    SealLine { verifier_id, seal }
    SealSheetV1 { intent_digest, seals }
    CountedVote { verifier_id, verdict, findings_digest, failure_domain, vote_digest }
    KeyConfirmationV1 {
        verifier_id, quorum_key_epoch, roster_epoch, transcript_digest, group_key,
        public_key_package_digest
    }
    SentinelBeatV1 { sequence, writer_generation, outbox_epoch, outbox_root_digest }
    PermitBeatV1 { nonce, held, sentinel, seen_outbox_epoch }
    CommonBindingSet {
        intent_digest, intent_core_ref, intent_canonicalization_version, issuer_subject_id,
        decision_subject_id, caller_subject_id, proposer_subject_id, executor_subject_id_optional,
        delegation_grant_digest_optional, required_authority_variant,
        action_policy_registry_digest, classifier_decision_digest, active_mode,
        autonomy_activation_receipt_id, risk_scope_digest, candidate_digest_optional,
        constitution_digest, constitution_epoch, autonomy_epoch, expected_store_epoch,
        expected_store_version, expected_boundary_version, expected_contract_version
    }
    PolicyClauseV1 {
        clause_id, action_classes, risk_domains, resource_environment_scope, required_gates,
        runners
    }
    PolicyDecisionV1 {
        binding, policy_digest, matched_clauses_digest, matched_clauses, risk_budget_scope_digest,
        proof_receipts_digest, sentinel_verdict_digest_optional,
        metric_evidence_rollout_rollback_digest, expires_at
    }
    CausalEnvelopeV1 {
        event_id, actor_id, actor_kind, issuer, mission_id_optional, store_version_optional,
        target_digest_optional, causation_id_optional, correlation_id, payload_digest, issued_at,
        expires_at, capability_id_optional, mission_head_id_optional, delegation_id_optional,
        block_id_optional, receipt_id_optional, presence_id_optional
    }
    ProposalV1 {
        audience, payload, applicable_grant_id, executor_subject_id_optional,
        delegation_grant_digest_optional, promotion_target_subject_id_optional,
        expected_store_version, expected_boundary_version, expected_contract_version, evidence,
        rollback, expires_at, effect_deadline_ms, mission_id_optional, ingress
    }
    WithdrawalV1 { intent_digest, reason }
    AgentQuorumDecisionV1 {
        binding, executor_subject_id, four_verifier_principals, signed_votes_dissents,
        sentinel_verdict_digest, evidence_rollout_rollback_digest, quorum_threshold,
        minimum_failure_domains, quorum_policy_digest, independence_spec_digest,
        applicable_grant_id, applicable_grant_digest, seal_sheet_digest, roster_epoch,
        quorum_key_epoch, expires_at
    }
    AuthorityDecisionV1 {
        binding, authority_kind, decision_digest, grant_id_optional, effective_tier_optional,
        promotion_subject_optional, sentinel_verdict_digest_optional,
        metric_evidence_rollout_rollback_digest, label, expires_at
    }
    AutonomyCapabilityV1 {
        binding, authority_decision_digest, decision_policy_digest, effective_tier,
        promotion_target_subject_id_optional, audience, action, applicable_grant_id,
        applicable_grant_digest, sentinel_verdict_digest_optional, nonce, issued_at, expires_at,
        budget, idempotency_key, capability_kind
    }
    EffectClaimV1 { transaction_id, marker, resource_id, effect_key }
    EffectOutcomeV1 { transaction_id, marker, claim_digest, outcome, observed_head, detail }
    FindingV1 { evaluator, verdict, sentences }
    FindingsV1 { intent_digest, verifier_id, findings }
    BootClaimV1 { verifier_id, generation, boot, key_epoch }
    GateFindingsV1 {
        verdict, exit_code_optional, started_at_clock, ended_at_clock, log_digest, log_bytes,
        findings
    }
    GateReceiptV1 {
        gate_id, spec_version, harness_fixture_digest, environment_digest, command,
        verdict_and_findings, provider_key_version, receipt_id, release_candidate_digest,
        artifact_digests, generated_at_clock, evidence_refs
    }
    CandidatePushV1 { repository, object }
    ClientIdentityV1 {
        subject_id, actor_kind, public_key, app_host_identity, enrollment_evidence, scopes,
        issuer, created_at, revoked_at_optional, person_optional
    }
    GenesisV1 {
        organism_name, kind, created_at, nonce, kernel, constitution, roster, subjects, grants,
        activations, human_keys, feature_level
    }
    SafetyKernelV1 {
        kernel_id, verifier_binary_digest, canonicalization_version, pinned_external_root_key,
        verified_boot_policy_digest, immutable_invariants_digest, minimum_verifier_seats,
        minimum_quorum_threshold, minimum_failure_domains, proposer_executor_nonvoting,
        sentinel_required_and_nonvoting, sentinel_red_absolute_veto,
        sentinel_outbox_antirollback_required, sentinel_identity_binary_policy_digest,
        safety_actuator_identity_binary_policy_digest, required_sentinel_unavailable_fail_closed,
        human_attestation_classes
    }
    ConstitutionV1 {
        constitution_epoch, previous_constitution_digest, effective_at, expires_at_optional,
        allowed_autonomy_modes, objectives_non_goals, budgets_risk_actions_digest,
        independence_spec, amendment_rules, old_runtime_approval_digest, safety_kernel_digest,
        quorum_signature_required, policy_clauses, human_approvals_required, webauthn_rp_id,
        webauthn_origins
    }
    IndependenceSpecV1 {
        four_voting_verifier_principals, quorum_threshold, minimum_failure_domains,
        blind_isolation_policy_digest, nonvoting_sentinel_id, proposer_executor_nonvoting
    }
    VerifierSeat { verifier_id, failure_domain }
    AutonomyEpochV1 {
        autonomy_epoch, active_mode, activation_receipt_id, grants_digest, issuance_frozen,
        constitution_epoch, quorum_key_epoch, constitution_digest, effective_at, safety_state
    }
    AutonomyGrantV1 {
        subject_id, role_id, mode, max_tier, action_classes, risk_domains,
        resource_environment_scope, budget, promotion_receipt_id, issued_at, expires_at,
        constitution_epoch, autonomy_epoch, delegate_subject_ids
    }
    ResourceScope { repository, ref_prefix }
    AutonomyActivationReceiptV1 {
        previous_mode_epoch_digest, previous_constitution_epoch, previous_autonomy_epoch,
        target_constitution_digest, activated_autonomy_epoch, activated_mode,
        gate_receipts_digest, rollback_plan_digest, activates_at, authority_decision_digest,
        grants_digest, safety_kernel_digest, previous_constitution_digest, quorum_policy_digest,
        issued_at
    }
    HumanKeyV1 {
        subject_id, credential_id, public_key, platform, attestation_class, app_host_identity,
        enrollment_evidence, scopes, created_at, rotated_at_optional, revoked_at_optional,
        counter, backup_eligible
    }
    ChallengeRequestV1 { intent_digest, approver_subject_id, nonce }
    OwnerChallengeV1 {
        binding, audience, action, payload_digest, idempotency_key, safety_kernel_digest,
        approver_subject_id, canonical_summary, nonce, issued_at, expires_at
    }
    HumanApprovalV1 {
        challenge_id, key_id, authenticator_data, client_data_json, signature, public_key,
        user_presence_flags, counter
    }
    HumanDecisionV1 {
        binding, challenge_ids, human_approval_digests, approvers, issued_at, expires_at
    }
    SovereignActionIntentV1 {
        intent_canonicalization_version, issuer_subject_id, decision_subject_id,
        caller_subject_id, proposer_subject_id, executor_subject_id_optional,
        delegation_grant_digest_optional, promotion_target_subject_id_optional, audience, action,
        payload, action_payload_digest, required_authority_variant, action_policy_registry_digest,
        classifier_decision_digest, active_mode, autonomy_activation_receipt_id,
        applicable_grant_id, applicable_grant_digest, tier, risk, risk_scope_digest,
        candidate_digest_optional, constitution_digest, constitution_epoch, autonomy_epoch,
        safety_kernel_digest, quorum_policy_digest, independence_spec_digest,
        expected_store_epoch, expected_store_version, expected_boundary_version,
        expected_contract_version, organism_repo_brain_digest,
        mission_head_block_candidate_promotion_digest, mode_grant_tier_risk_scope_budget_digest,
        metric_evidence_rollout_rollback_digest, evidence, rollback, mission_id_optional,
        idempotency_key, nonce, expires_at, effect_deadline_ms, ingress, effects
    }
    SentinelRedOutboxV1 {
        outbox_epoch, previous_outbox_root_digest, red_verdict, source_intent_digest_optional,
        signed_outbox_root_digest, protected_latest_outbox_epoch
    }
    RedVerdictV1 {
        verdict_id, scope_kind, scope_value, negative_verbs,
        rollback_candidate_plan_digest_optional, reason, issued_at
    }
    OutboxAckV1 { latch, outbox_epoch, sentinel_key }
    RaiseOrderV1 { order_id, scope, verbs, rollback_candidate_plan_digest_optional, reason }
    RootActV1 { number, previous_kernel_digest, kernel, roster, old_outbox_root_optional, reason }
    FeatureSupportV1 { node_id, roster_epoch, feature_level }
    RejoinV1 { node_id, roster_epoch, incarnation, record_key }
    RosterNode { node_id, name, seat, log_key, cosigner_key, record_key }
    RosterVerifier {
        verifier_id, identifier, failure_domain, vote_key, witness_key, builds_digest,
        policy_digest
    }
    PinnedParty { name, key, builds_digest, policy_digest }
    RosterV1 { roster_epoch, nodes, verifiers, sentinel, actuator }
    RedLatchReceiptV1 {
        latch_epoch, sentinel_outbox_epoch, sentinel_outbox_root_digest, red_verdict_digest,
        source_intent_digest_optional, mandate, latched_at, tick, constitution_epoch,
        autonomy_epoch
    }
    SafetyActionIntentV1 {
        safety_intent_canonicalization_version, attempt_sequence,
        rebased_from_attempt_digest_optional, source_intent_core_ref_optional,
        sentinel_red_verdict_digest, red_latch_receipt_digest, latch_epoch,
        actuator_identity_key_binary_policy_digest, expected_constitution_epoch,
        expected_autonomy_epoch, affected_grants_scope_digest, allowed_negative_actions_digest,
        rollback_candidate_plan_digest_optional, immutable_negative_mandate_digest,
        attempt_idempotency_key, nonce, valid_while_latch_pending
    }
    SafetyCapabilityV1 {
        safety_intent_digest, safety_intent_core_ref, attempt_sequence, red_latch_receipt_digest,
        latch_epoch, immutable_negative_mandate_digest,
        actuator_identity_key_binary_policy_digest, expected_autonomy_epoch,
        attempt_idempotency_key, nonce, safety_intent_canonicalization_version,
        sentinel_red_verdict_digest, expected_constitution_epoch, affected_grants_scope_digest,
        allowed_negative_actions_digest, rollback_candidate_plan_digest_optional
    }
    SafetyMarkerV1 {
        marker, transaction_id, latch_epoch, safety_intent_digest, old_autonomy_epoch,
        new_autonomy_epoch, committed_at, mandate, compensates, transaction_variant,
        positive_authority_decision_forbidden, safety_capability_id, authorization_snapshot
    }
    StatusV1 {
        node_id, nonce, intent_digest_optional, scope, effect, marker, active_mode,
        autonomy_epoch, constitution_epoch, roster_epoch, quorum_key_epoch, latch_epoch, history,
        tree_size, tick, state_time
    }
    ClockReadingV1 { node_id, roster_epoch, previous_tick, clock_ms }
    PositiveAuthorityTransactionV1 {
        binding, transaction_variant, capability_kind, capability_id, authority_decision_digest,
        applicable_grant_id, sentinel_verdict_digest_optional,
        promotion_target_subject_id_optional, expected_active_mode,
        expected_activation_receipt_id, identity_role_binding_digest,
        expected_pending_red_set_digest, expected_red_latch_epoch, tick, prepared_at, expires_at,
        decision_digest, effective_tier_optional, idempotency_key, nonce, rollback_plan_digest
    }
    AuthorizationSnapshotV1 {
        active_mode, activation_receipt_id, constitution_epoch, autonomy_epoch, grants_digest,
        latch_epoch, tick, state_time
    }
    CommitMarkerV1 {
        marker, transaction_id, intent_digest, transaction_digest, committed_at,
        authorization_snapshot, effect_deadline
    }
    SentinelVerdictV1 {
        verdict_id, sentinel_identity_key_binary_policy_digest, metric_evidence_rollback_digest,
        verdict, intent_digest, intent_core_ref, intent_canonicalization_version,
        constitution_epoch, autonomy_epoch, risk_scope_digest, candidate_digest_optional, nonce,
        issued_at, expires_at, reason_optional
    }
    Mandate { scopes, verbs, rollback_candidate_plan_digest }
    Origination { subject_id, event_id, payload_digest, expires_at, envelope, payload }
    Ground { number, scopes, cause }
    StateRootV1 { authority_digest, term, index, roster_epoch, size }
    Authorized { decision, capability, capability_id, verdict_expires_at, green, basis }
    QuorumBasis { votes, sheet, decision }
    HumanAuthorization { intent_digest, green, approvals }
    PolicyAuthorization { intent_digest, green, receipts }
    Authorization { intent_digest, green, votes, sheet, decision }
    Scope { organism_id, organism_epoch }
    Envelope { scope, key, body, signature }
}

enums! {
    ActionPayload {
        Land(_), ReleasePromote(_), ConstitutionAmend(_), ModeActivate(_), GrantChange(_),
        RosterChange(_), ResetFrozen(_), BlockRatify(_), BlockArchive(_), SubjectChange(_),
        KeyChange(_), VerifierSetChange(_), ExternalEffect(_), ResolveEffect(_),
    }
    GrantPayload { Promote(_), Demote(_, _), Revoke(_), }
    RosterPayload { Join(_), Promote(_), Remove(_), }
    SubjectPayload { Enrol(_), Rotate(_), Revoke(_), }
    KeyPayload { Enrol(_), Rotate(_, _), Revoke(_), }
    ResourceRef { GitRef(_), External(_), Organism(_), }
    RollbackPlan { MoveRefBack, FreezeRef, }
    RedScope { Intent(_), Mission(_), Subject(_), ActionClass(_), Everything, }
    AbortReason { Withdrawn, Expired, RedLatched, Frozen, EpochFenced, StaleHead, GrantEnded, }
    NegativeVerb { Freeze, FenceEpoch, Revoke, AbortPrepare, Demote, Rollback, }
    GroundCause { Latch(_), ChainGap(_), ChainBreak(_), RootAct(_), }
    ChainPlace { Next, Early, Broken, Unreadable, }
    Event {
        Bootstrapped(_, _), Ticked(_, _, _), QuorumKeyActivated(_, _, _, _), Frozen(_, _, _, _),
        Authorized(_), Prepared(_, _), Committed(_), Aborted(_, _, _), Withdrawn(_, _),
        EffectClaimed(_, _, _, _), EffectReported(_, _, _, _), EffectWithheld(_, _),
        RedLatched(_, _, _, _), RedChained(_, _), GrantRevoked(_), GrantDemoted(_, _),
        SafetyIntentStored(_), SafetyPrepared(_, _, _), LatchCommitting(_, _), SafetyCommitted(_),
        EpochPublished(_), SafetyTerminal(_, _), OutboxAcknowledged(_, _), Refused(_, _, _),
        StateRoot(_), ChallengeIssued(_, _, _), Activated(_, _, _), ConstitutionAmended(_),
        GrantGiven(_, _), SubjectChanged(_), HumanKeyChanged(_), RosterChanged(_),
        QuorumKeyVoided(_), GroundsReset(_), RootActed(_, _, _), FeatureLevelRaised(_, _),
        EffectResolved(_, _, _), NodeRejoined(_, _),
    }
    Basis { Quorum(_), Human(_, _), Policy(_, _), }
    Accepted {
        Bootstrapped, Ticked(_, _), QuorumKeyActivated(_), Frozen(_), Authorized(_), Prepared(_),
        Committed(_), Aborted(_), Withdrawn(_), EffectClaimed(_), EffectReported(_), Latched(_),
        SafetyStored(_), SafetyPrepared(_), SafetyCommitted(_), SafetyTerminal(_),
        OutboxAcknowledged(_), Checkpointed, ChallengeIssued(_), Activated(_, _), RootActed(_),
        FeatureLevelRaised(_), Rejoined(_),
    }
    Reply { Accepted(_), Refused(_), }
    RawCommand {
        Bootstrap(_), Tick(_, _), ActivateQuorumKey(_), FreezeIntent(_, _), Authorize(_),
        Prepare(_, _), Commit(_), Abort(_, _), Withdraw(_, _), ClaimEffect(_), ReportOutcome(_),
        LatchRed(_), StoreSafetyIntent(_), PrepareSafety(_), ClaimSafety(_), FinishSafety(_),
        AcknowledgeOutbox(_), Checkpoint, OpenChallenge(_, _), AuthorizeHuman(_),
        AuthorizePolicy(_), Activate(_), RootAct(_), RaiseFeatureLevel(_), Rejoin(_),
    }
}

words! {
    VoteVerdict ActorKind Mode AuthorityVariant Tier ActionClass RiskClass Effect Ingress
    RatificationLabel SentinelLine OutcomeKind GateVerdict OrganismKind SafetyState
    AttestationClass Seat ScopeState EffectState TransactionVariant Verdict
}
