//! Rules of what is positive, of what holds a resource, and of how it ends.

use std::collections::BTreeMap;

use redlatch_types::IntentDigest;
use redlatch_types::event::{Authorized, Basis};
use redlatch_types::records::{
    AbortReason, AuthorityVariant, SentinelVerdictV1, TransactionVariant, Verdict, VoteV1,
    VoteVerdict,
};

use super::*;

impl Taken<'_> {
    pub(super) fn positive(&self, event: &Event, broken: &mut Broken) {
        match event {
            Event::Authorized(body) => self.authorized(body, broken),
            Event::Prepared(id, transaction) => {
                let digest = transaction.binding.intent_digest;
                self.unstopped(&digest, Rule::I34, broken);
                let stage = self.before.intents.get(&digest).map(|i| &i.stage);
                let Some(IntentStage::Authorized(permit)) = stage else {
                    return broken.unless(false, Rule::I2);
                };
                let now = self.before.clock.state_time;
                let lives = now < permit.capability.expires_at && now < permit.verdict_expires_at;
                broken.unless(lives, Rule::I14);
                broken.unless(
                    permit.capability.id() == transaction.capability_id,
                    Rule::I2,
                );
                self.in_place(&digest, broken);
                let first = self.past.wishes.iter().all(|w| w.transaction != Some(*id));
                broken.unless(first, Rule::Spent);
                let positive = transaction.transaction_variant
                    == TransactionVariant::PositiveAuthority
                    && transaction.capability_kind == permit.decision.authority_kind;
                broken.unless(positive, Rule::I29);
            }
            Event::Committed(marker) => {
                self.unstopped(&marker.intent_digest, Rule::I34, broken);
                self.in_place(&marker.intent_digest, broken);
                let now = self.before.clock.state_time;
                let Some((intent, held)) = held(self.before, &marker.transaction_id) else {
                    return broken.unless(false, Rule::I2);
                };
                broken.unless(held.stage == TransactionStage::Prepared, Rule::I2);
                let lives = now < held.transaction.expires_at && now < held.verdict_expires_at;
                broken.unless(lives && now < intent.intent.expires_at, Rule::I14);
            }
            Event::EffectClaimed(id, ..) | Event::Activated(id, ..) => {
                self.effective(event, id, broken);
            }
            Event::EffectWithheld(id, _) => {
                let stopped = held(self.before, id).is_some_and(|(intent, _)| {
                    let stopped = Stopped::is(self.before, &intent.intent);
                    let old = intent.intent.autonomy_epoch.0 != epoch(self.before);
                    stopped.latched || stopped.frozen || old
                });
                broken.unless(stopped, Rule::Ended);
            }
            Event::Aborted(id, _, reason) => {
                broken.unless(self.ends_truly(id, reason), Rule::Ended);
            }
            Event::Withdrawn(digest, _) => {
                let stage = self.before.intents.get(digest).map(|i| &i.stage);
                let open = match stage {
                    Some(IntentStage::InTransaction(id)) => held(self.before, id)
                        .is_some_and(|(_, t)| t.stage == TransactionStage::Prepared),
                    Some(_) => true,
                    None => false,
                };
                broken.unless(open, Rule::Ended);
            }
            Event::GroundsReset(grounds) => self.freed(grounds, broken),
            _ => {}
        }
    }

    /// Nothing positive in a stopped scope, or under an epoch that is over.
    fn unstopped(&self, digest: &IntentDigest, latched: Rule, broken: &mut Broken) {
        let Some(intent) = self.before.intents.get(digest) else {
            return broken.unless(false, Rule::I2);
        };
        let stopped = Stopped::is(self.before, &intent.intent);
        broken.unless(!stopped.latched, latched);
        broken.unless(!stopped.frozen, Rule::I14);
        let current = intent.intent.autonomy_epoch.0 == epoch(self.before);
        broken.unless(current, Rule::I14);
    }

    /// The resource is still where the intent found it.
    fn in_place(&self, digest: &IntentDigest, broken: &mut Broken) {
        let intent = self.before.intents.get(digest);
        broken.unless(intent.is_some_and(|i| fits(self.before, i)), Rule::I27);
    }

    /// Three different verifiers approve what the quorum decides.
    fn quorum(&self, votes: &[redlatch_types::Envelope], broken: &mut Broken) {
        let approving = votes.iter().filter_map(|vote| {
            let record = VoteV1::from_canonical(&vote.body.0).ok()?;
            (record.verdict == VoteVerdict::Approve).then_some(vote.key)
        });
        let keys: std::collections::BTreeSet<_> = approving.collect();
        broken.unless(keys.len() >= 3, Rule::L1);
    }

    fn authorized(&self, body: &Authorized, broken: &mut Broken) {
        let digest = body.decision.binding.intent_digest;
        self.unstopped(&digest, Rule::I15, broken);
        let Some(live) = self.before.intents.get(&digest) else {
            return;
        };
        broken.unless(live.stage == IntentStage::Frozen, Rule::I33);
        let past = self.past.wish(&digest).map(|w| &self.past.wishes[w]);
        broken.unless(past.is_some_and(|w| w.capability.is_none()), Rule::I33);
        let now = self.before.clock.state_time;
        broken.unless(now < live.intent.expires_at, Rule::I14);

        let kind = match &body.basis {
            Basis::Quorum(basis) => {
                self.quorum(&basis.votes, broken);
                AuthorityVariant::AgentQuorum
            }
            Basis::Human(..) => AuthorityVariant::Human,
            Basis::Policy(..) => AuthorityVariant::Policy,
        };
        let frozen = live.intent.required_authority_variant;
        let same = [
            kind,
            body.decision.authority_kind,
            body.capability.capability_kind,
        ];
        broken.unless(same.iter().all(|k| *k == frozen), Rule::I25);

        let sentinel = self
            .before
            .governance
            .as_ref()
            .map(|g| g.roster.sentinel.key);
        let green = SentinelVerdictV1::from_canonical(&body.green.body.0);
        let valid = green.is_ok_and(|green| {
            green.verdict == Verdict::Green
                && green.intent_digest == digest
                && green.autonomy_epoch.0 == epoch(self.before)
                && green.issued_at >= live.frozen_at
                && now < green.expires_at
        });
        broken.unless(valid && sentinel == Some(body.green.key), Rule::I22);
    }

    /// A claim or an activation: what makes a marker effective.
    fn effective(&self, event: &Event, id: &TransactionId, broken: &mut Broken) {
        let Some((intent, held)) = held(self.before, id) else {
            return broken.unless(false, Rule::I2);
        };
        self.unstopped(&intent.intent.digest(), Rule::I34, broken);
        let TransactionStage::Committed(marker, effect) = &held.stage else {
            return broken.unless(false, Rule::I2);
        };
        broken.unless(*effect == EffectStage::Unclaimed, Rule::Executor);
        let now = self.before.clock.state_time;
        broken.unless(now < marker.effect_deadline, Rule::Executor);
        let external = matches!(event, Event::EffectClaimed(..));
        broken.unless(intent.intent.action.is_external() == external, Rule::I2);
        if let Event::EffectClaimed(_, _, _, envelope) = event {
            let governance = self.before.governance.as_ref();
            let signer = governance.and_then(|g| g.subject_by_key(&envelope.key));
            let executor = intent.intent.executor_subject_id_optional.as_ref();
            let own = signer.is_some_and(|s| Some(&s.subject_id) == executor);
            broken.unless(own, Rule::Executor);
        }
    }

    /// Whether the reason for which a transaction ends is one that can be seen.
    fn ends_truly(&self, id: &TransactionId, reason: &AbortReason) -> bool {
        let Some((intent, held)) = held(self.before, id) else {
            return false;
        };
        let stopped = Stopped::is(self.before, &intent.intent);
        let now = self.before.clock.state_time;
        held.stage == TransactionStage::Prepared
            && match reason {
                AbortReason::RedLatched => stopped.latched,
                AbortReason::Frozen => stopped.frozen,
                AbortReason::EpochFenced => intent.intent.autonomy_epoch.0 != epoch(self.before),
                AbortReason::Expired => {
                    let ends = held.transaction.expires_at.min(held.verdict_expires_at);
                    now >= ends.min(intent.intent.expires_at)
                }
                AbortReason::StaleHead => !fits(self.before, intent),
                AbortReason::Withdrawn | AbortReason::GrantEnded => false,
            }
    }

    /// E.9: out of a freeze leads only A0, and nothing is left frozen by halves.
    fn freed(&self, grounds: &[redlatch_types::GroundNumber], broken: &mut Broken) {
        let reset = ResetPayload {
            grounds: grounds.to_vec(),
            cause: redlatch_types::records::Text::default(),
        };
        broken.unless(whole(self.before, &reset), Rule::Whole);
        let scopes: Vec<&RedScope> = grounds
            .iter()
            .filter_map(|n| self.before.grounds.get(n))
            .flat_map(|g| &g.scopes)
            .collect();
        let governance = self.after.governance.as_ref();
        let low = governance.is_some_and(|g| {
            g.grants.values().all(|held| {
                let concerned = scopes.iter().any(|scope| match scope {
                    RedScope::Everything => true,
                    RedScope::Subject(subject) => *subject == held.grant.subject_id,
                    RedScope::ActionClass(class) => held.grant.action_classes.contains(class),
                    RedScope::Intent(_) | RedScope::Mission(_) => false,
                });
                !concerned || held.grant.max_tier == redlatch_types::records::Tier::A0
            })
        });
        broken.unless(low, Rule::Whole);
    }

    /// At most one transaction holds a resource: a live preparation, or an effect that may be.
    pub(super) fn reservations(&self, broken: &mut Broken) {
        let state = self.after;
        let now = state.clock.state_time;
        let mut holders: BTreeMap<_, u32> = BTreeMap::new();
        for id in state.transactions.keys() {
            let Some((intent, transaction)) = held(state, id) else {
                continue;
            };
            let holds = match &transaction.stage {
                TransactionStage::Prepared => {
                    let stopped = Stopped::is(state, &intent.intent);
                    let ends = transaction.transaction.expires_at;
                    let lives = now < ends.min(transaction.verdict_expires_at)
                        && now < intent.intent.expires_at
                        && intent.intent.autonomy_epoch.0 == epoch(state);
                    lives && !stopped.latched && !stopped.frozen && fits(state, intent)
                }
                TransactionStage::Committed(marker, effect) => match effect {
                    EffectStage::Unclaimed => now < marker.effect_deadline,
                    EffectStage::Claimed(..) | EffectStage::Unknown => true,
                    _ => false,
                },
            };
            if holds {
                *holders
                    .entry(intent.intent.payload.resource().id())
                    .or_default() += 1;
            }
        }
        broken.unless(holders.values().all(|n| *n <= 1), Rule::Reserved);
    }
}

/// Whether the resource is where the intent expects it.
fn fits(state: &Authority, intent: &Intent) -> bool {
    let resource = state.resources.get(&intent.intent.payload.resource().id());
    let version = resource.map_or(0, |r| r.store_version);
    version == intent.intent.expected_store_version
}
