//! Whether a committed intent is the authority for exactly this update (FAULTS 82, 85).

use redlatch_types::checkpoint::Origin;
use redlatch_types::records::{CommitMarkerV1, EffectClaimV1, SovereignActionIntentV1};
use redlatch_types::{Bytes, Canonical, Digest, IntentDigest, Name, OrganismId, SubjectId};

use super::token::{Honoured, Token};
use super::update::Landing;
use crate::gate::refusal::Refused;

/// Who this gate is and what it stands in front of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    /// The organism it obeys.
    pub(crate) organism: OrganismId,
    /// The repository, by the name under which grants know it.
    pub(crate) repository: Name,
    /// The subject it is enrolled as.
    pub(crate) subject: SubjectId,
}

/// The authority for one update: what the gate claims, and the token it honours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// The intent.
    pub(crate) intent: IntentDigest,
    /// What is claimed of the journal.
    pub(crate) claim: EffectClaimV1,
    /// What is remembered of the resource.
    pub(crate) honoured: Honoured,
}

/// Compares an intent and its proven marker with an update, field by field.
///
/// # Errors
/// [`Refused::OtherIntent`] if any of them differs.
pub(crate) fn bind(
    post: &Post,
    landing: &Landing,
    asked: IntentDigest,
    intent: &SovereignActionIntentV1,
    origin: &Origin,
    marker: &CommitMarkerV1,
) -> Result<Permit, Refused> {
    let land = intent.payload.land().ok_or(Refused::OtherIntent)?;
    let same = origin.organism == post.organism
        && intent.digest() == asked
        && marker.intent_digest == asked
        && intent.action == intent.payload.class()
        && land.resource.repository == post.repository
        && land.resource.reference == landing.reference
        && land.old.0 == landing.old_bytes()
        && land.new.0 == landing.new.bytes()
        && intent.candidate_digest_optional == Some(land.candidate_digest())
        && intent.executor_subject_id_optional.as_ref() == Some(&post.subject);
    if !same {
        return Err(Refused::OtherIntent);
    }
    let claim = EffectClaimV1 {
        transaction_id: marker.transaction_id,
        marker: marker.marker,
        resource_id: land.resource.id(),
        effect_key: effect_key(origin, marker),
    };
    let honoured = Honoured {
        token: Token {
            history: origin.history,
            marker: marker.marker,
        },
        intent: asked,
        old: Bytes(land.old.0.clone()),
        new: Bytes(land.new.0.clone()),
    };
    Ok(Permit {
        intent: asked,
        claim,
        honoured,
    })
}

/// The effect's idempotency key: one per marker, whatever the attempt (FAULTS 78).
fn effect_key(origin: &Origin, marker: &CommitMarkerV1) -> Digest {
    Digest::of_parts(&[
        b"redlatch/v1/git-effect\0",
        &origin.organism.0.0,
        &origin.history.to_be_bytes(),
        &marker.marker.to_canonical(),
        &marker.transaction_id.0.0,
    ])
}

#[cfg(test)]
pub(crate) mod tests {
    use redlatch_types::checkpoint::Stage;
    use redlatch_types::records::*;
    use redlatch_types::*;

    use super::*;
    use crate::git::{ObjectFormat, ObjectId};

    struct Case {
        post: Post,
        landing: Landing,
        asked: IntentDigest,
        intent: SovereignActionIntentV1,
        origin: Origin,
        marker: CommitMarkerV1,
    }

    fn id(n: u8) -> ObjectId {
        ObjectId::parse(&hex::encode([n; 20]), ObjectFormat::Sha1).unwrap()
    }

    fn land() -> LandPayload {
        LandPayload {
            resource: GitRef {
                repository: "repo".parse().unwrap(),
                reference: Text::lossy("refs/heads/main"),
            },
            old: Bytes(vec![1; 20]),
            new: Bytes(vec![2; 20]),
        }
    }

    pub(crate) fn intent() -> SovereignActionIntentV1 {
        let subject: SubjectId = "agent".parse().unwrap();
        SovereignActionIntentV1 {
            intent_canonicalization_version: 1,
            issuer_subject_id: "journal".parse().unwrap(),
            decision_subject_id: subject.clone(),
            caller_subject_id: subject.clone(),
            proposer_subject_id: subject,
            executor_subject_id_optional: Some("gate".parse().unwrap()),
            delegation_grant_digest_optional: None,
            promotion_target_subject_id_optional: None,
            audience: "repo".parse().unwrap(),
            action: ActionClass::Land,
            payload: ActionPayload::Land(land()),
            action_payload_digest: Digest::ZERO,
            required_authority_variant: AuthorityVariant::AgentQuorum,
            action_policy_registry_digest: Digest::ZERO,
            classifier_decision_digest: Digest::ZERO,
            active_mode: Mode::PolicyAutonomous,
            autonomy_activation_receipt_id: Digest::ZERO,
            applicable_grant_id: None,
            applicable_grant_digest: None,
            tier: Tier::A3,
            risk: RiskClass::Low,
            risk_scope_digest: Digest::ZERO,
            candidate_digest_optional: Some(land().candidate_digest()),
            constitution_digest: Digest::ZERO,
            constitution_epoch: ConstitutionEpoch(1),
            autonomy_epoch: AutonomyEpoch(2),
            safety_kernel_digest: Digest::ZERO,
            quorum_policy_digest: Digest::ZERO,
            independence_spec_digest: Digest::ZERO,
            expected_store_epoch: 1,
            expected_store_version: 0,
            expected_boundary_version: 1,
            expected_contract_version: 1,
            organism_repo_brain_digest: Digest::ZERO,
            mission_head_block_candidate_promotion_digest: Digest::ZERO,
            mode_grant_tier_risk_scope_budget_digest: Digest::ZERO,
            metric_evidence_rollout_rollback_digest: Digest::ZERO,
            evidence: vec![],
            rollback: RollbackPlan::MoveRefBack,
            mission_id_optional: None,
            idempotency_key: EventId(Digest::ZERO),
            nonce: Digest::ZERO,
            expires_at: 1,
            effect_deadline_ms: 1,
            ingress: Ingress::Cli,
            effects: vec![],
        }
    }

    fn marker(intent: IntentDigest) -> CommitMarkerV1 {
        CommitMarkerV1 {
            marker: MarkerNumber(5),
            transaction_id: TransactionId(Digest::of(b"transaction")),
            intent_digest: intent,
            transaction_digest: Digest::ZERO,
            committed_at: 1,
            authorization_snapshot: AuthorizationSnapshotV1 {
                active_mode: Mode::PolicyAutonomous,
                activation_receipt_id: Digest::ZERO,
                constitution_epoch: ConstitutionEpoch(1),
                autonomy_epoch: AutonomyEpoch(2),
                grants_digest: Digest::ZERO,
                latch_epoch: LatchNumber(0),
                tick: TickNumber(1),
                state_time: 1,
            },
            effect_deadline: 2,
        }
    }

    fn case() -> Case {
        let organism = OrganismId(Digest::of(b"organism"));
        Case {
            post: Post {
                organism,
                repository: "repo".parse().unwrap(),
                subject: "gate".parse().unwrap(),
            },
            landing: Landing {
                reference: Text::lossy("refs/heads/main"),
                old: Some(id(1)),
                new: id(2),
            },
            asked: intent().digest(),
            intent: intent(),
            origin: Origin {
                stage: Stage::Development,
                organism,
                history: 3,
            },
            marker: marker(intent().digest()),
        }
    }

    fn bound(case: &Case) -> Result<Permit, Refused> {
        bind(
            &case.post,
            &case.landing,
            case.asked,
            &case.intent,
            &case.origin,
            &case.marker,
        )
    }

    #[test]
    fn exactly_the_frozen_update_is_permitted() {
        let permit = bound(&case()).expect("permitted");
        assert_eq!(permit.claim.resource_id, land().resource.id());
        assert_eq!(permit.honoured.token.history, 3);
        assert_eq!(permit.honoured.token.marker, MarkerNumber(5));
        assert_eq!(
            bound(&case()),
            Ok(permit),
            "a repeat claims under the same key"
        );
    }

    #[test]
    fn fault_085_one_differing_field_is_another_authority() {
        type Change = fn(&mut Case);
        let changes: [Change; 13] = [
            |c| c.post.organism = OrganismId(Digest::ZERO),
            |c| c.post.repository = "other".parse().unwrap(),
            |c| c.post.subject = "gate2".parse().unwrap(),
            |c| c.landing.reference = Text::lossy("refs/heads/other"),
            |c| c.landing.reference = Text::lossy("refs/heads/main2"),
            |c| c.landing.old = None,
            |c| c.landing.old = Some(id(9)),
            |c| c.landing.new = id(9),
            |c| c.asked = IntentDigest(Digest::ZERO),
            |c| c.marker.intent_digest = IntentDigest(Digest::ZERO),
            |c| c.intent.expires_at += 1,
            |c| {
                c.intent.candidate_digest_optional = None;
                c.asked = c.intent.digest();
                c.marker.intent_digest = c.asked;
            },
            |c| {
                c.intent.executor_subject_id_optional = None;
                c.asked = c.intent.digest();
                c.marker.intent_digest = c.asked;
            },
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = case();
            change(&mut changed);
            assert_eq!(bound(&changed), Err(Refused::OtherIntent), "change {at}");
        }
    }

    #[test]
    fn another_marker_or_history_is_another_effect() {
        let first = bound(&case()).expect("permitted");
        let mut other = case();
        other.origin.history = 4;
        assert_ne!(
            bound(&other).expect("permitted").claim.effect_key,
            first.claim.effect_key
        );
        let mut other = case();
        other.marker.marker = MarkerNumber(6);
        assert_ne!(
            bound(&other).expect("permitted").claim.effect_key,
            first.claim.effect_key
        );
    }
}
