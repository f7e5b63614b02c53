//! `decide`: every check against the state, nothing changed (DESIGN D3).
//!
//! One file per family of commands. A check that fails yields a [`Refusal`] and nothing else;
//! a check that holds is never repeated in `evolve`. Every positive command passes
//! [`fence::fence`], the one place where latches, freezes and the epoch stop it.

mod activate;
mod authorize;
mod client;
mod deciders;
mod effect;
mod effects;
mod fence;
mod freeze;
mod genesis;
mod payload;
mod red;
pub(crate) mod root;
mod roster;
mod safety;
pub(crate) mod terms;
mod tick;
mod transaction;

pub use authorize::check_approval;

use redlatch_types::event::{Accepted, Event};
use redlatch_types::limits::AUDITS_PER_SUBJECT_AND_TICK_MAX;
use redlatch_types::{Digest, Refusal, Scope, Signed};

use crate::admit::Command;
use crate::authority::{Authority, Governance};

/// What a command leads to: events to evolve by, in order, and the reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// What happened. After a refusal only audit lines, or the record of a withheld effect.
    pub events: Vec<Event>,
    /// What the caller is told.
    pub reply: Result<Accepted, Refusal>,
}

/// Events and reply of an accepted command. A repeat has no events.
type Decision = Result<(Vec<Event>, Accepted), Refusal>;

/// Decides `command` against `state`.
pub fn decide(state: &Authority, command: &Command) -> Outcome {
    let decision = match command {
        Command::Bootstrap(genesis) => genesis::bootstrap(state, genesis),
        Command::Tick(number, readings) => tick::tick(state, *number, readings),
        Command::ActivateQuorumKey(confirmations) => {
            genesis::activate_quorum_key(state, confirmations)
        }
        Command::FreezeIntent(freeze) => freeze::freeze(state, freeze),
        Command::Withdraw(withdraw) => client::withdraw(state, withdraw),
        Command::Authorize(given) => authorize::by_quorum(state, given),
        Command::AuthorizeHuman(given) => authorize::by_humans(state, given),
        Command::AuthorizePolicy(given) => authorize::by_policy(state, given),
        Command::OpenChallenge(request) => authorize::open_challenge(state, request),
        Command::Prepare(intent, capability) => transaction::prepare(state, intent, capability),
        Command::Commit(transaction) => transaction::commit(state, transaction),
        Command::Abort(transaction, reason) => transaction::abort(state, transaction, reason),
        Command::ClaimEffect(claim) => return effect::claim(state, claim),
        Command::ReportOutcome(outcome) => effect::report(state, outcome),
        Command::LatchRed(segment) => red::latch(state, segment),
        Command::AcknowledgeOutbox(ack) => red::acknowledge(state, ack),
        Command::StoreSafetyIntent(attempt) => safety::store_intent(state, attempt),
        Command::PrepareSafety(capability) => safety::prepare(state, capability),
        Command::ClaimSafety(transaction) => safety::claim(state, transaction),
        Command::FinishSafety(transaction) => safety::finish(state, transaction),
        Command::Activate(transaction) => activate::activate(state, transaction),
        Command::RootAct(act) => root::act(state, act),
        Command::RaiseFeatureLevel(supports) => root::raise_feature_level(state, supports),
        Command::Rejoin(rejoin) => root::rejoin(state, rejoin),
        Command::Checkpoint => governance(state).map(|_| (Vec::new(), Accepted::Checkpointed)),
    };
    match decision {
        Ok((events, accepted)) => Outcome {
            events,
            reply: Ok(accepted),
        },
        Err(refusal) => Outcome {
            events: audit(state, command, refusal),
            reply: Err(refusal),
        },
    }
}

/// The governance in force.
fn governance(state: &Authority) -> Result<&Governance, Refusal> {
    state.governance.as_ref().ok_or(Refusal::NoGenesis)
}

/// Refuses what was signed for another organism or another organism epoch (D6).
fn in_scope(governance: &Governance, scope: &Scope) -> Result<(), Refusal> {
    let here = scope.organism_id == governance.organism_id
        && scope.organism_epoch == governance.organism_epoch;
    here.then_some(()).ok_or(Refusal::WrongOrganism)
}

/// Refuses a signed record unless it is for here and now and by `key`.
fn signed_by<T>(
    governance: &Governance,
    signed: &Signed<T>,
    key: &redlatch_types::PublicKey,
) -> Result<(), Refusal> {
    in_scope(governance, signed.scope())?;
    (signed.key() == key)
        .then_some(())
        .ok_or(Refusal::Unauthorized)
}

/// An audit line for an enrolled subject, at most so many per tick (D3): a refusal may be
/// seen by everyone, but cannot be used to fill the journal.
fn audit(state: &Authority, command: &Command, refusal: Refusal) -> Vec<Event> {
    let Some((governance, envelope)) = state.governance.as_ref().zip(command.client()) else {
        return Vec::new();
    };
    let Some(subject) = governance.subject_by_key(envelope.key()) else {
        return Vec::new();
    };
    let written = state.audits.get(&subject.subject_id).copied().unwrap_or(0);
    if in_scope(governance, envelope.scope()).is_err() || written >= AUDITS_PER_SUBJECT_AND_TICK_MAX
    {
        return Vec::new();
    }
    let what: Digest = envelope.digest();
    vec![Event::Refused(subject.subject_id.clone(), refusal, what)]
}
