//! Who says what: from a step to the admitted command that it stands for.
//!
//! Signatures are real and every signed command went through `admit`. What is said is the same
//! wherever it is said about the same things, so it is signed and admitted once and remembered.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use redlatch_journal::authority::{Authority, EffectStage, TransactionStage};
use redlatch_journal::development::authenticator::SoftAuthenticator;
use redlatch_journal::{Command, admit};
use redlatch_types::command::RawCommand;
use redlatch_types::mandate::Mandate;
use redlatch_types::records::*;
use redlatch_types::*;

use super::super::world::*;
use super::past::Past;
use super::scenario::{Aim, LANDINGS, Names, Scenario, Wish};
use super::step::{Claimer, Distortion, Flaw, Moment, Signer, Step};

/// How long an intent lives, and how long its effect may be claimed.
const INTENT_MS: u64 = 10 * MINUTE;
const EFFECT_MS: u64 = 2 * MINUTE;

/// A signed command, by its place in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Said(u32);

#[derive(Default)]
struct Book {
    places: HashMap<(Step, Digest), Option<Said>>,
    said: Vec<(Step, Arc<Command>)>,
}

/// Composes commands, and remembers those that needed signatures.
pub(super) struct Composer {
    scenario: Scenario,
    book: RwLock<Book>,
}

/// A command to be decided; `Said` if it was signed, so that it may come again.
pub(super) type Composed = (Arc<Command>, Option<Said>);

fn digest_of(value: &impl Canonical) -> Digest {
    Digest::of(&value.to_canonical())
}

impl Composer {
    pub(super) fn new(scenario: Scenario) -> Composer {
        Composer {
            scenario,
            book: RwLock::default(),
        }
    }

    /// What was said, as a step that says it again.
    pub(super) fn again(&self, said: Said) -> (Step, Arc<Command>) {
        let book = self.book.read().expect("no other thread panics in here");
        let (step, command) = &book.said[said.0 as usize];
        (Step::Again(Box::new(step.clone())), Arc::clone(command))
    }

    /// The command of a step; `None` if nobody could send it on this path.
    pub(super) fn compose(&self, step: &Step, state: &Authority, past: &Past) -> Option<Composed> {
        let wish = |w: &usize| &past.wishes[*w];
        let plain = |command: Command| Some((Arc::new(command), None));
        match step {
            Step::Prepare(w, c) => plain(Command::Prepare(wish(w).intent?, wish(c).capability?)),
            Step::Commit(w) => plain(Command::Commit(wish(w).transaction?)),
            Step::Abort(w, reason) => plain(Command::Abort(wish(w).transaction?, reason.clone())),
            Step::Activate(w) => plain(Command::Activate(wish(w).transaction?)),
            Step::ClaimSafety(r, a) => plain(Command::ClaimSafety(past.reds[*r].transaction(*a)?)),
            Step::FinishSafety(r, a) => {
                plain(Command::FinishSafety(past.reds[*r].transaction(*a)?))
            }
            Step::Again(_) => None,
            _ => {
                let about = self.about(step, state, past)?;
                self.remembered(step, about, || self.say(step, state, past))
            }
        }
    }

    fn remembered(
        &self,
        step: &Step,
        about: Digest,
        say: impl FnOnce() -> Option<RawCommand>,
    ) -> Option<Composed> {
        let key = (step.clone(), about);
        let found = |book: &Book| {
            let place = *book.places.get(&key)?;
            Some(place.map(|said| (Arc::clone(&book.said[said.0 as usize].1), Some(said))))
        };
        if let Some(known) = found(&self.book.read().expect("no other thread panics in here")) {
            return known;
        }
        let command = say().map(|raw| {
            let admitted = admit(&raw.to_canonical());
            Arc::new(admitted.expect("every party signs what it says"))
        });
        let mut book = self.book.write().expect("no other thread panics in here");
        if let Some(known) = found(&book) {
            return known;
        }
        let said = command.map(|command| {
            book.said.push((step.clone(), command));
            Said(u32::try_from(book.said.len() - 1).expect("fewer commands than that"))
        });
        book.places.insert(key.clone(), said);
        found(&book)?
    }

    /// Everything that the bytes of a step's command depend on, beside the step itself.
    fn about(&self, step: &Step, state: &Authority, past: &Past) -> Option<Digest> {
        let epoch = state.governance.as_ref()?.epoch.autonomy_epoch;
        let now = state.clock.state_time;
        Some(match step {
            Step::Freeze(w) => {
                let resource = state.resources.get(&self.resource(*w).id());
                let held = resource.map(|r| (r.head.clone(), r.store_version));
                let grants: Vec<GrantId> =
                    state.governance.as_ref()?.grants.keys().copied().collect();
                let grounds: Vec<GroundNumber> = state.grounds.keys().copied().collect();
                digest_of(&(now, epoch, held, grants, grounds))
            }
            Step::Challenge(w) | Step::Withdraw(w) => digest_of(&(past.wishes[*w].intent?, now)),
            Step::Authorize(w, _) => {
                let intent = past.wishes[*w].intent?;
                state.intents.get(&intent)?;
                digest_of(&(intent, self.asked(state, &intent)))
            }
            Step::AuthorizeAgain(w) | Step::AuthorizeBadly(w, _) => {
                let intent = past.wishes[*w].intent?;
                state.intents.get(&intent)?;
                digest_of(&(intent, now, epoch, self.asked(state, &intent)))
            }
            Step::Claim(w, _) | Step::Report(w, _) => {
                let wish = &past.wishes[*w];
                let made = claim_made(state, &wish.transaction?);
                digest_of(&(wish.transaction?, wish.marker?, made))
            }
            Step::Red(_, last) => {
                let aims = self.scenario.reds[..=*last].iter();
                let scopes: Option<Vec<RedScope>> = aims.map(|r| scope(r.aim, past)).collect();
                digest_of(&scopes?)
            }
            Step::Store(r) | Step::StoreBadly(r, _) => {
                let latch = state.latches.get(&past.reds[*r].latch?)?;
                let previous = latch.attempt.as_ref().map(|a| a.intent.digest());
                digest_of(&(latch.receipt.digest(), previous, epoch))
            }
            Step::PrepareSafety(r, a, _) => {
                let stored = past.reds[*r].attempts.iter();
                digest_of(&stored.clone().find(|s| s.attempt_sequence == *a)?.digest())
            }
            Step::Acknowledge(r) => digest_of(&past.reds[*r].latch?),
            Step::Tick => {
                let next = self.scenario.point(now) + 1;
                (next < self.scenario.times.len()).then(|| digest_of(&now))?
            }
            _ => return None,
        })
    }

    /// The open challenge about an intent, and the counter of the authenticator that answers.
    fn asked(&self, state: &Authority, intent: &IntentDigest) -> Option<(ChallengeId, u64)> {
        let challenges = state.challenges.iter();
        let (id, _) = challenges
            .clone()
            .find(|(_, c)| c.binding.intent_digest == *intent)?;
        let keys = &state.governance.as_ref()?.human_keys;
        let held = keys.get(&human_key("alice", OWNER).id())?;
        Some((*id, u64::from(held.counter)))
    }

    pub(super) fn resource(&self, wish: usize) -> ResourceRef {
        match self.scenario.wishes[wish] {
            Wish::Land(_, reference) => ResourceRef::GitRef(GitRef {
                repository: id("repo"),
                reference: Text::lossy(reference),
            }),
            Wish::Demote | Wish::Reset(_) => ResourceRef::Organism(Text::default()),
        }
    }

    /// Composes and signs.
    fn say(&self, step: &Step, state: &Authority, past: &Past) -> Option<RawCommand> {
        match step {
            Step::Freeze(w) => self.freeze(*w, state),
            Step::Challenge(w) => {
                let mut world = World::at(state.clone(), 1_000 * (*w as u64 + 1) + 100);
                Some(world.challenge_command(past.wishes[*w].intent?, &alice()))
            }
            Step::Withdraw(w) => self.withdraw(*w, state, past),
            Step::Authorize(w, moment) => {
                self.authorize(past.wishes[*w].intent?, *w, state, *moment, None, 200)
            }
            Step::AuthorizeAgain(w) => {
                let now = self.moment(state)?;
                self.authorize(past.wishes[*w].intent?, *w, state, now, None, 300)
            }
            Step::AuthorizeBadly(w, flaw) => {
                let now = self.moment(state)?;
                self.authorize(past.wishes[*w].intent?, *w, state, now, Some(*flaw), 400)
            }
            Step::Claim(w, who) => {
                Some(RawCommand::ClaimEffect(self.claim(*w, *who, state, past)?))
            }
            Step::Report(w, outcome) => self.report(*w, *outcome, state, past),
            Step::Red(first, last) => self.red(*first, *last, state, past),
            Step::Store(r) => {
                let attempt = attempt(*r, state, past, None)?;
                let fits = attempt.attempt_sequence <= self.scenario.attempts;
                fits.then(|| RawCommand::StoreSafetyIntent(Box::new(attempt)))
            }
            Step::StoreBadly(r, how) => {
                let attempt = attempt(*r, state, past, Some(*how))?;
                Some(RawCommand::StoreSafetyIntent(Box::new(attempt)))
            }
            Step::PrepareSafety(r, a, signer) => {
                let mut stored = past.reds[*r].attempts.iter();
                let stored = stored.find(|s| s.attempt_sequence == *a)?;
                let n = match signer {
                    Signer::Actuator => ACTUATOR,
                    Signer::Gate => GATE,
                };
                Some(World::at(state.clone(), 0).capability_command(stored, n))
            }
            Step::Acknowledge(r) => {
                let world = World::at(state.clone(), 0);
                Some(world.ack(past.reds[*r].latch?, *r as u64 + 1))
            }
            Step::Tick => {
                let world = World::at(state.clone(), 0);
                let next = self.scenario.point(world.now()) + 1;
                let time = self.scenario.time(next);
                let readings = world.readings(&[(1, time), (2, time)]);
                Some(RawCommand::Tick(state.clock.tick.next(), readings))
            }
            _ => None,
        }
    }

    pub(super) fn moment(&self, state: &Authority) -> Option<Moment> {
        Some(Moment {
            point: self.scenario.point(state.clock.state_time),
            epoch: state.governance.as_ref()?.epoch.autonomy_epoch.0,
        })
    }

    fn freeze(&self, wish: usize, state: &Authority) -> Option<RawCommand> {
        let mut world = World::at(state.clone(), 1_000 * (wish as u64 + 1));
        let (subject, n, mut proposal) = match self.scenario.wishes[wish] {
            Wish::Land(agent, reference) => {
                let resource = state.resources.get(&self.resource(wish).id());
                let head = resource.and_then(|r| r.head.as_ref());
                let old = head.and_then(|head| head.0.first()).copied();
                let new = u8::try_from(wish + 1).ok()?;
                let proposal = world.proposal(agent.name(), reference, old.unwrap_or(0), new);
                (agent.name(), agent.key(), proposal)
            }
            Wish::Demote => {
                let demotion = GrantPayload::Demote(world.grant("agent"), Tier::A1);
                let payload = ActionPayload::GrantChange(Box::new(demotion));
                ("governor", GOVERNOR, world.change(payload))
            }
            Wish::Reset(names) => {
                let live = state.grounds.keys().copied();
                let grounds: Vec<GroundNumber> = match names {
                    Names::All => live.collect(),
                    Names::First => live.take(1).collect(),
                };
                if grounds.is_empty() {
                    return None;
                }
                let cause = Text::lossy("repaired");
                let payload = ActionPayload::ResetFrozen(ResetPayload { grounds, cause });
                ("governor", GOVERNOR, world.change(payload))
            }
        };
        proposal.expires_at = world.now() + INTENT_MS;
        proposal.effect_deadline_ms = EFFECT_MS;
        Some(world.freeze_command(n, subject, &proposal))
    }

    fn withdraw(&self, wish: usize, state: &Authority, past: &Past) -> Option<RawCommand> {
        let mut world = World::at(state.clone(), 1_000 * (wish as u64 + 1) + 500);
        let payload = WithdrawalV1 {
            intent_digest: past.wishes[wish].intent?,
            reason: Text::default(),
        };
        let payload = payload.to_canonical();
        let (subject, n) = match self.scenario.wishes[wish] {
            Wish::Land(agent, _) => (agent.name(), agent.key()),
            Wish::Demote | Wish::Reset(_) => ("governor", GOVERNOR),
        };
        let record = world.envelope_record(subject, &payload);
        let envelope = Envelope::seal(world.scope(), &key(n), &record);
        Some(RawCommand::Withdraw(envelope, Bytes(payload)))
    }

    fn authorize(
        &self,
        intent: IntentDigest,
        wish: usize,
        state: &Authority,
        moment: Moment,
        flaw: Option<Flaw>,
        serial: u64,
    ) -> Option<RawCommand> {
        let mut then = state.clone();
        then.clock.state_time = self.scenario.time(moment.point);
        then.governance.as_mut()?.epoch.autonomy_epoch = AutonomyEpoch(moment.epoch);
        let mut world = World::at(then, 1_000 * (wish as u64 + 1) + serial);
        let mut green = world.green_record(intent);
        if flaw == Some(Flaw::Withheld) {
            green.verdict = Verdict::Withheld;
            green.reason_optional = Some(Text::lossy("not convinced"));
        }
        if flaw == Some(Flaw::BeforeTheFreeze) {
            green.issued_at = state.intents.get(&intent)?.frozen_at - 1;
        }
        let few = flaw == Some(Flaw::TwoVotes);
        let sealed = Envelope::seal(world.scope(), &key(SENTINEL), &green);
        let by_quorum = matches!(self.scenario.wishes[wish], Wish::Land(..));
        if by_quorum && flaw == Some(Flaw::WrongVariant) {
            return Some(RawCommand::AuthorizePolicy(Box::new(
                command::PolicyAuthorization {
                    intent_digest: intent,
                    green: sealed,
                    receipts: Vec::new(),
                },
            )));
        }
        if by_quorum {
            let voters = if few { 2 } else { 3 };
            let votes = (0..voters).map(|v| world.vote(intent, v, VoteVerdict::Approve));
            let votes = votes.collect();
            let given = world.authorization_of(intent, green, votes);
            return Some(RawCommand::Authorize(Box::new(given)));
        }
        let (challenge, counter) = self.asked(state, &intent)?;
        let mut alice = alice();
        let counter = u32::try_from(counter).ok()?;
        alice.authenticator =
            SoftAuthenticator::es256(&[OWNER + 100; 32], vec![OWNER; 16], counter).ok()?;
        let approval = world.approve(challenge, &mut alice);
        Some(RawCommand::AuthorizeHuman(Box::new(
            command::HumanAuthorization {
                intent_digest: intent,
                green: sealed,
                approvals: if few { Vec::new() } else { vec![approval] },
            },
        )))
    }

    fn claim(&self, w: usize, who: Claimer, state: &Authority, past: &Past) -> Option<Envelope> {
        let Wish::Land(agent, _) = self.scenario.wishes[w] else {
            return None;
        };
        let record = EffectClaimV1 {
            transaction_id: past.wishes[w].transaction?,
            marker: past.wishes[w].marker?,
            resource_id: self.resource(w).id(),
            effect_key: match who {
                Claimer::GateAgain => digest("another effect"),
                Claimer::Gate | Claimer::Agent => digest("effect"),
            },
        };
        let n = match who {
            Claimer::Agent => agent.key(),
            Claimer::Gate | Claimer::GateAgain => GATE,
        };
        Some(Envelope::seal(state.scope()?, &key(n), &record))
    }

    fn report(
        &self,
        w: usize,
        outcome: OutcomeKind,
        state: &Authority,
        past: &Past,
    ) -> Option<RawCommand> {
        let claim = self.claim(w, Claimer::Gate, state, past)?;
        let made = claim_made(state, &past.wishes[w].transaction?);
        let intent = state.intents.get(&past.wishes[w].intent?)?;
        let (old, new) = intent.intent.payload.swap()?;
        let record = EffectOutcomeV1 {
            transaction_id: past.wishes[w].transaction?,
            marker: past.wishes[w].marker?,
            claim_digest: made.unwrap_or_else(|| claim.digest()),
            outcome,
            observed_head: if outcome == OutcomeKind::Done {
                new
            } else {
                old
            }
            .clone(),
            detail: Text::default(),
        };
        let sealed = Envelope::seal(state.scope()?, &key(GATE), &record);
        Some(RawCommand::ReportOutcome(sealed))
    }

    fn red(&self, first: usize, last: usize, state: &Authority, past: &Past) -> Option<RawCommand> {
        let mut outbox = Outbox::new();
        for red in &self.scenario.reds[..=last] {
            let scope = scope(red.aim, past)?;
            let source = match &scope {
                RedScope::Intent(digest) => Some(*digest),
                _ => None,
            };
            let verbs: Vec<u64> = red.verbs.iter().map(|v| v.number()).collect();
            let verdict = Outbox::verdict(&scope, &verbs, None).to_canonical();
            outbox.push(state.scope()?, source, verdict);
        }
        Some(RawCommand::LatchRed(outbox.entries.split_off(first)))
    }
}

/// The claim that stands without an outcome.
fn claim_made(state: &Authority, id: &TransactionId) -> Option<Digest> {
    match &state.transactions.get(id)?.stage {
        TransactionStage::Committed(_, EffectStage::Claimed(claim, _)) => Some(*claim),
        _ => None,
    }
}

/// What a RED names, if it can name it yet.
pub(super) fn scope(aim: Aim, past: &Past) -> Option<RedScope> {
    Some(match aim {
        Aim::Everything => RedScope::Everything,
        Aim::Subject(agent) => RedScope::Subject(id(agent.name())),
        Aim::Intent(wish) => RedScope::Intent(past.wishes[wish].intent?),
        Aim::Landings => RedScope::ActionClass(LANDINGS),
    })
}

/// The next attempt at the stop of a RED, distorted or not.
fn attempt(
    red: usize,
    state: &Authority,
    past: &Past,
    distortion: Option<Distortion>,
) -> Option<SafetyActionIntentV1> {
    let latch = past.reds[red].latch?;
    let previous = state.latches.get(&latch)?.attempt.as_ref();
    let previous = previous.map(|a| a.intent.clone());
    let number = previous.as_ref().map_or(1, |p| p.attempt_sequence + 1);
    let mut world = World::at(state.clone(), 100_000 + 100 * red as u64 + 10 * number);
    let mut attempt = world.attempt(latch);
    match distortion {
        None => {}
        Some(Distortion::ReusedNonce) => attempt.nonce = previous?.nonce,
        Some(Distortion::Wider) => {
            attempt.affected_grants_scope_digest = digest("more than the mandate");
            attempt.immutable_negative_mandate_digest = Mandate::everything().digest();
        }
        Some(Distortion::OldEpoch) => {
            let epoch = attempt.expected_autonomy_epoch.0.checked_sub(1)?;
            attempt.expected_autonomy_epoch = AutonomyEpoch(epoch);
        }
        Some(Distortion::Skipped) => attempt.attempt_sequence += 1,
    }
    Some(attempt)
}
