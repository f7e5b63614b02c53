//! The canonical form of a state: what later decisions can depend on, and nothing else.
//!
//! Two states with equal shapes have equal futures: numbers are replaced by their rank, ids by
//! the wish or RED that they belong to, times by the point from which they are over, and what no
//! decision asks any more is left out. States are merged by shape. That the shape leaves out
//! nothing that decides is itself tested (`equal_shapes_have_equal_futures`), and a field that is
//! added to `Authority` does not compile here until somebody says what it means.

use redlatch_journal::authority::{
    Authority, EffectStage, Governance, Intent, IntentStage, Latch, LatchState, Resource,
    Transaction, TransactionStage,
};
use redlatch_types::event::{Ground, GroundCause};
use redlatch_types::limits::SAFETY_ATTEMPT_TTL_MS;
use redlatch_types::records::{ActionPayload, RedScope};
use redlatch_types::{Canonical, Digest};

use super::past::Past;
use super::scenario::Scenario;

/// A canonical form, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shape(Digest);

/// Hashes parts with their names, so that neighbours cannot be confused.
struct Form<'a> {
    bytes: Vec<u8>,
    scenario: &'a Scenario,
    past: &'a Past,
    now: u64,
    epoch: u64,
}

impl Shape {
    pub(super) fn of(scenario: &Scenario, state: &Authority, past: &Past) -> Shape {
        let Authority {
            governance,
            clock,
            intents,
            transactions,
            latches,
            grounds,
            outbox,
            resources,
            // A repeat is answered by no event, known or forgotten.
            idempotency: _,
            // How many audit lines were written decides about audit lines only.
            audits: _,
            // Numbers given so far: only the next one differs, and it is a name.
            issued: _,
            // Cleared between entries; see `probe` for what happens within one.
            stepped: _,
            challenges,
        } = state;
        let Some(governance) = governance else {
            return Shape(Digest::ZERO);
        };
        let mut form = Form {
            bytes: Vec::with_capacity(256),
            scenario,
            past,
            now: clock.state_time,
            epoch: governance.epoch.autonomy_epoch.0,
        };
        form.governance(governance);
        for wish in &past.wishes {
            let Some(digest) = wish.intent else {
                form.word(b'?');
                continue;
            };
            match intents.get(&digest) {
                None => form.word(b'x'),
                Some(live) => form.intent(state, governance, live),
            }
            let asked = challenges.values();
            let mut asked = asked.filter(|c| c.binding.intent_digest == digest);
            form.word(asked.next().map_or(b'-', |_| b'a'));
        }
        form.word(b'R');
        for resource in resources.values() {
            form.resource(state, resource);
        }
        form.word(b'L');
        for red in &past.reds {
            let latch = red.latch.map(|number| latches.get(&number));
            match latch {
                None => form.word(b'?'),
                Some(None) => form.word(b'x'),
                Some(Some(latch)) => form.latch(latch),
            }
        }
        form.word(b'G');
        for ground in grounds.values() {
            form.ground(ground);
        }
        form.number(outbox.number.0);
        form.number(outbox.early.len() as u64);
        form.number(outbox.broken.len() as u64);
        debug_assert!(transactions.len() <= intents.len());
        Shape(Digest::of(&form.bytes))
    }
}

impl Form<'_> {
    fn word(&mut self, word: u8) {
        self.bytes.push(word);
    }
    fn number(&mut self, number: u64) {
        self.bytes.extend(number.to_be_bytes());
    }
    fn yes(&mut self, yes: bool) {
        self.word(if yes { b'1' } else { b'0' });
    }

    /// The first point at which `time` is reached; 0 if it is over already.
    fn until(&mut self, time: u64) {
        let points = 0..self.scenario.times.len();
        let first = points.clone().find(|p| self.scenario.time(*p) >= time);
        let over = time <= self.now;
        let point = first.unwrap_or(self.scenario.times.len());
        self.number(if over { 0 } else { point as u64 + 1 });
    }

    fn governance(&mut self, governance: &Governance) {
        let Governance {
            organism_id: _,
            organism_epoch,
            history: _,
            kind: _,
            kernel: _,
            constitution,
            roster,
            epoch,
            grants,
            subjects: _,
            quorum_key,
            // The counter of the only authenticator: every approval is composed with the next.
            human_keys: _,
            feature_level: _,
            root_acts: _,
            last_key_epoch: _,
        } = governance;
        self.number(self.scenario.point(self.now) as u64);
        self.number(*organism_epoch);
        self.number(constitution.constitution_epoch.0);
        self.number(roster.roster_epoch.0);
        self.number(self.epoch);
        self.bytes.extend(epoch.active_mode.to_canonical());
        self.yes(epoch.issuance_frozen);
        self.yes(quorum_key.is_some());
        let mut held: Vec<Vec<u8>> = grants
            .values()
            .map(|held| {
                let left = held.grant.budget.saturating_sub(held.committed).min(4);
                let subject = held.grant.subject_id.as_str().to_owned();
                (subject, held.grant.max_tier, left).to_canonical()
            })
            .collect();
        held.sort();
        self.bytes.extend(held.concat());
    }

    fn intent(&mut self, state: &Authority, governance: &Governance, live: &Intent) {
        let intent = &live.intent;
        let resource = state.resources.get(&intent.payload.resource().id());
        let version = resource.map_or(0, |r| r.store_version);
        let head = resource.and_then(|r| r.head.as_ref());
        let fits = match (head, intent.payload.swap()) {
            (Some(head), Some((old, _))) => head == old,
            _ => true,
        };
        let current = intent.autonomy_epoch.0 == self.epoch;
        let granted = intent
            .applicable_grant_id
            .is_none_or(|grant| governance.grants.contains_key(&grant));
        match &live.stage {
            IntentStage::Frozen => {
                self.word(b'f');
                self.until(intent.expires_at);
                // From when on a verdict about it may have been signed.
                self.number(self.scenario.point(live.frozen_at) as u64);
            }
            IntentStage::Authorized(permit) => {
                self.word(b'a');
                self.until(intent.expires_at);
                self.until(permit.capability.expires_at);
                self.until(permit.verdict_expires_at);
            }
            IntentStage::InTransaction(id) => match state.transactions.get(id) {
                None => self.word(b'?'),
                Some(transaction) => {
                    if !self.transaction(
                        intent.expires_at,
                        transaction,
                        intent.action.is_external(),
                    ) {
                        return;
                    }
                }
            },
        }
        self.yes(current);
        self.yes(granted);
        self.yes(fits && version == intent.expected_store_version);
        self.payload(state, governance, &intent.payload);
    }

    /// Whether anything about its intent still matters.
    fn transaction(&mut self, intent_ends: u64, held: &Transaction, external: bool) -> bool {
        match &held.stage {
            TransactionStage::Prepared => {
                self.word(b'p');
                self.until(intent_ends);
                self.until(held.transaction.expires_at.min(held.verdict_expires_at));
                true
            }
            TransactionStage::Committed(marker, effect) => match effect {
                EffectStage::Unclaimed => {
                    self.word(b'c');
                    self.until(marker.effect_deadline);
                    if !external {
                        self.until(intent_ends);
                    }
                    true
                }
                EffectStage::Claimed(..) => {
                    self.word(b'e');
                    false
                }
                EffectStage::Done(_) => {
                    self.word(b'd');
                    false
                }
                EffectStage::Failed(_) => {
                    self.word(b'l');
                    false
                }
                EffectStage::Unknown => {
                    self.word(b'u');
                    false
                }
                EffectStage::Withheld(_) => {
                    self.word(b'w');
                    false
                }
            },
        }
    }

    fn payload(&mut self, state: &Authority, governance: &Governance, payload: &ActionPayload) {
        match payload {
            ActionPayload::ResetFrozen(reset) => {
                for (rank, number) in state.grounds.keys().enumerate() {
                    if reset.grounds.contains(number) {
                        self.number(rank as u64);
                    }
                }
                let dead = |n: &&redlatch_types::GroundNumber| !state.grounds.contains_key(n);
                self.number(reset.grounds.iter().filter(dead).count() as u64);
            }
            ActionPayload::GrantChange(change) => {
                if let redlatch_types::records::GrantPayload::Demote(grant, tier) = &**change {
                    let held = governance.grants.get(grant);
                    self.yes(held.is_some_and(|held| *tier < held.grant.max_tier));
                }
            }
            _ => {}
        }
    }

    fn resource(&mut self, state: &Authority, held: &Resource) {
        let Resource {
            resource,
            head,
            // Compared by each live intent, above.
            store_version: _,
            reserved_by,
        } = held;
        self.bytes.extend(resource.to_canonical());
        self.bytes.extend(head.to_canonical());
        let holder = reserved_by.filter(|id| state.transactions.contains_key(id));
        let wish = holder.and_then(|id| self.past.wish_of(&id));
        self.number(wish.map_or(0, |w| w as u64 + 1));
    }

    fn scopes(&mut self, scopes: &[RedScope]) {
        for scope in scopes {
            match scope {
                RedScope::Intent(digest) => {
                    self.word(b'i');
                    self.number(self.past.wish(digest).map_or(0, |w| w as u64 + 1));
                }
                other => self.bytes.extend(other.to_canonical()),
            }
        }
    }

    fn latch(&mut self, latch: &Latch) {
        let mandate = &latch.receipt.mandate;
        self.scopes(&mandate.scopes);
        self.bytes.extend(mandate.verbs.to_canonical());
        self.yes(mandate.rollback_candidate_plan_digest.is_some());
        let attempt = match &latch.state {
            LatchState::Pending => {
                self.word(b'p');
                latch.attempt.as_ref()
            }
            LatchState::Committing(_) => {
                self.word(b'c');
                None
            }
            LatchState::Terminal(_) => {
                self.word(b't');
                None
            }
        };
        if let Some(attempt) = attempt {
            self.number(attempt.intent.attempt_sequence);
            if attempt.intent.expected_autonomy_epoch.0 == self.epoch {
                self.until(attempt.stored_at + SAFETY_ATTEMPT_TTL_MS);
            } else {
                self.number(0);
            }
            self.yes(attempt.prepared.is_some());
        }
    }

    fn ground(&mut self, ground: &Ground) {
        let Ground {
            number: _,
            scopes,
            cause,
        } = ground;
        self.word(b'g');
        self.scopes(scopes);
        match cause {
            GroundCause::Latch(latch) => {
                self.word(b'l');
                self.number(self.past.red(*latch).map_or(0, |r| r as u64 + 1));
            }
            GroundCause::ChainGap(number) => {
                self.word(b'c');
                self.number(number.0);
            }
            GroundCause::ChainBreak(number) => {
                self.word(b'b');
                self.number(number.0);
            }
            GroundCause::RootAct(number) => {
                self.word(b'r');
                self.number(*number);
            }
        }
    }
}
