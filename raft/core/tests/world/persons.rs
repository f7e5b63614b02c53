//! Persons and changes of the organism: proposals, challenges, approvals, activations.

use redlatch_journal::development::{WEBAUTHN_ORIGIN, WEBAUTHN_RP_ID};
use redlatch_types::command::{HumanAuthorization, RawCommand};
use redlatch_types::event::Accepted;
use redlatch_types::records::*;
use redlatch_types::*;

use super::*;

/// A person with their authenticator.
pub struct Person {
    pub name: &'static str,
    pub client: u8,
    pub authenticator: SoftAuthenticator,
}

pub fn alice() -> Person {
    Person {
        name: "alice",
        client: OWNER,
        authenticator: authenticator(OWNER),
    }
}
pub fn bob() -> Person {
    Person {
        name: "bob",
        client: DEPUTY,
        authenticator: authenticator(DEPUTY),
    }
}

/// The grant of that subject is to be taken: a change that a person decides.
pub fn revoke(world: &World, subject: &str) -> ActionPayload {
    let grant = world.grant(subject);
    ActionPayload::GrantChange(Box::new(GrantPayload::Revoke(grant)))
}

/// A world with a change that waits for a person.
pub fn waits_for_a_person() -> (World, IntentDigest) {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    (world, digest)
}

impl World {
    /// The key of the sentinel in force.
    pub fn sentinel(&self) -> SigningKey {
        let next = key(NEXT_SENTINEL);
        match self.governance().roster.sentinel.key == next.public_key() {
            true => next,
            false => key(SENTINEL),
        }
    }
    pub fn governance(&self) -> redlatch_journal::authority::Governance {
        self.state
            .authority
            .governance
            .clone()
            .expect("after genesis")
    }

    /// A change of the organism itself, as the governor proposes it.
    pub fn change(&self, payload: ActionPayload) -> ProposalV1 {
        let resource = payload.resource().id();
        let version = self.state.authority.resources.get(&resource);
        let target = match &payload {
            ActionPayload::GrantChange(change) => match &**change {
                GrantPayload::Promote(p) => Some(p.grant.subject_id.clone()),
                _ => None,
            },
            _ => None,
        };
        ProposalV1 {
            audience: id("organism"),
            expected_store_version: version.map_or(0, |r| r.store_version),
            payload,
            applicable_grant_id: None,
            executor_subject_id_optional: None,
            delegation_grant_digest_optional: None,
            promotion_target_subject_id_optional: target,
            expected_boundary_version: 1,
            expected_contract_version: 1,
            evidence: Vec::new(),
            rollback: RollbackPlan::FreezeRef,
            expires_at: self.now() + 60 * MINUTE,
            effect_deadline_ms: 10 * MINUTE,
            mission_id_optional: None,
            ingress: Ingress::Cli,
        }
    }
    pub fn freeze_change(&mut self, payload: ActionPayload) -> IntentDigest {
        let proposal = self.change(payload);
        let command = self.freeze_command(GOVERNOR, "governor", &proposal);
        match self.ok(command) {
            Accepted::Frozen(digest) => digest,
            other => panic!("{other:?}"),
        }
    }
    pub fn refused_change(&mut self, payload: ActionPayload) -> Refusal {
        let proposal = self.change(payload);
        let command = self.freeze_command(GOVERNOR, "governor", &proposal);
        self.refused(command)
    }

    pub fn challenge_command(&mut self, digest: IntentDigest, person: &Person) -> RawCommand {
        let request = ChallengeRequestV1 {
            intent_digest: digest,
            approver_subject_id: id(person.name),
            nonce: self.fresh(),
        };
        let payload = request.to_canonical();
        let record = self.envelope_record(person.name, &payload);
        let envelope = Envelope::seal(self.scope(), &key(person.client), &record);
        RawCommand::OpenChallenge(envelope, Bytes(payload))
    }
    pub fn challenge(&mut self, digest: IntentDigest, person: &Person) -> ChallengeId {
        let command = self.challenge_command(digest, person);
        match self.ok(command) {
            Accepted::ChallengeIssued(id) => id,
            other => panic!("{other:?}"),
        }
    }
    pub fn approve(&self, challenge: ChallengeId, person: &mut Person) -> HumanApprovalV1 {
        self.approve_at(challenge, person, WEBAUTHN_RP_ID, WEBAUTHN_ORIGIN)
    }
    pub fn approve_at(
        &self,
        challenge: ChallengeId,
        person: &mut Person,
        rp_id: &str,
        origin: &str,
    ) -> HumanApprovalV1 {
        let record = &self.state.authority.challenges[&challenge];
        let value = redlatch_journal::webauthn::challenge(
            &self.scope(),
            &record.nonce,
            &record.binding.intent_digest,
            &Digest::of(&record.canonical_summary.0),
            &id(person.name),
        );
        let asserted = person.authenticator.assert(rp_id, origin, &value);
        HumanApprovalV1 {
            challenge_id: challenge,
            key_id: human_key(person.name, person.client).id(),
            user_presence_flags: asserted.authenticator_data[32],
            counter: person.authenticator.counter(),
            authenticator_data: Bytes(asserted.authenticator_data),
            client_data_json: Bytes(asserted.client_data_json),
            signature: Bytes(asserted.signature),
            public_key: human_key(person.name, person.client).public_key,
        }
    }
    pub fn human_authorization(
        &mut self,
        digest: IntentDigest,
        mut approvals: Vec<HumanApprovalV1>,
    ) -> RawCommand {
        approvals.sort_by_key(|a| a.challenge_id);
        let green = self.green_record(digest);
        RawCommand::AuthorizeHuman(Box::new(HumanAuthorization {
            intent_digest: digest,
            green: Envelope::seal(self.scope(), &self.sentinel(), &green),
            approvals,
        }))
    }
    /// Alice decides.
    pub fn decide(&mut self, digest: IntentDigest) -> CapabilityId {
        let mut alice = alice();
        alice.authenticator = self.alice.take().unwrap_or(alice.authenticator);
        let challenge = self.challenge(digest, &alice);
        let approval = self.approve(challenge, &mut alice);
        self.alice = Some(alice.authenticator);
        let command = self.human_authorization(digest, vec![approval]);
        match self.ok(command) {
            Accepted::Authorized(capability) => capability,
            other => panic!("{other:?}"),
        }
    }
    /// From the proposal to the marker.
    pub fn commit_change(&mut self, payload: ActionPayload) -> TransactionId {
        let digest = self.freeze_change(payload);
        let capability = self.decide(digest);
        let transaction = match self.ok(RawCommand::Prepare(digest, capability)) {
            Accepted::Prepared(id) => id,
            other => panic!("{other:?}"),
        };
        self.ok(RawCommand::Commit(transaction));
        transaction
    }
    /// From the proposal to its effect.
    pub fn make_change(&mut self, payload: ActionPayload) -> AutonomyEpoch {
        let transaction = self.commit_change(payload);
        match self.ok(RawCommand::Activate(transaction)) {
            Accepted::Activated(_, epoch) => epoch,
            other => panic!("{other:?}"),
        }
    }

    /// The constitution that would follow, changed.
    pub fn amended(&self, change: impl FnOnce(&mut ConstitutionV1)) -> ActionPayload {
        let current = self.governance().constitution;
        let mut next = ConstitutionV1 {
            constitution_epoch: current.constitution_epoch.next(),
            previous_constitution_digest: current.digest(),
            old_runtime_approval_digest: Digest::ZERO,
            effective_at: self.now(),
            ..current
        };
        change(&mut next);
        ActionPayload::ConstitutionAmend(Box::new(AmendPayload { constitution: next }))
    }
    /// A grant of the agent, one tier above the one it has.
    pub fn promotion(&self, change: impl FnOnce(&mut PromotionPayload)) -> ActionPayload {
        let replaced = self.grant("agent");
        let current = self.governance().grants[&replaced].grant.clone();
        let mut promotion = PromotionPayload {
            grant: AutonomyGrantV1 {
                max_tier: Tier::A4,
                promotion_receipt_id: Digest::ZERO,
                ..current
            },
            replaces_optional: Some(replaced),
            dataset_digest: digest("dataset"),
            rollback_digest: digest("rollback"),
        };
        change(&mut promotion);
        ActionPayload::GrantChange(Box::new(GrantPayload::Promote(promotion)))
    }
}
