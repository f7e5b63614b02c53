//! LatchRed: a correctly signed RED of this organism always latches (DESIGN §6).
//!
//! Refused are only the wrong key and the wrong organism; an exact repeat is answered with
//! what it led to. Everything else latches, at worst with scope everything: a gap in the
//! chain, a fork of it, an entry that this build cannot read, an earlier organism epoch.

use redlatch_types::event::{Accepted, ChainPlace, Event, Ground, GroundCause};
use redlatch_types::limits::RED_EARLY_MAX;
use redlatch_types::mandate::{Mandate, mandate};
use redlatch_types::records::{OutboxAckV1, RedLatchReceiptV1, RedScope, SentinelRedOutboxV1};
use redlatch_types::{Digest, GroundNumber, LatchNumber, OutboxEpoch, Refusal, Signed};

use super::{Decision, governance, signed_by};
use crate::admit::RedEntry;
use crate::authority::{Authority, Governance, Latch, LatchState};
use crate::evolve::evolve;
use crate::planted::Bug;

/// Latches a segment in order, in one entry.
pub(super) fn latch(state: &Authority, segment: &[RedEntry]) -> Decision {
    let governance = governance(state)?;
    for red in segment {
        let envelope = red.signed.envelope();
        if envelope.scope.organism_id != governance.organism_id {
            return Err(Refusal::WrongOrganism);
        }
        if envelope.key != governance.roster.sentinel.key {
            return Err(Refusal::Unauthorized);
        }
    }
    // Each entry of the segment is judged after the ones before it.
    let mut after = state.clone();
    let mut events = Vec::new();
    let mut numbers = Vec::new();
    for red in segment {
        let governance = after.governance.as_ref().ok_or(Refusal::NoGenesis)?;
        let (event, number) = latch_one(&after, governance, red);
        if let Some(event) = event {
            evolve(&mut after, &event);
            events.push(event);
        }
        numbers.extend(number);
    }
    Ok((events, Accepted::Latched(numbers)))
}

/// The event of one RED, if it is not an exact repeat, and the latch it leads to.
fn latch_one(
    state: &Authority,
    governance: &Governance,
    red: &RedEntry,
) -> (Option<Event>, Option<LatchNumber>) {
    let body = red.signed.envelope().digest();
    let Some(entry) = &red.entry else {
        let known = state.outbox.broken.contains(&body) || Bug::UnreadableRedIgnored.planted();
        return if known || state.outbox.broken.len() >= RED_EARLY_MAX {
            (None, None)
        } else {
            with_number(latched(
                state,
                governance,
                red,
                None,
                ChainPlace::Unreadable,
            ))
        };
    };
    // The root covers the number, and admission has seen that it does.
    let known = of_this_chain(state)
        .find(|l| l.receipt.sentinel_outbox_root_digest == entry.signed_outbox_root_digest);
    let known = known.map(|l| l.receipt.latch_epoch);
    match place(state, entry) {
        Place::Repeat => (None, known),
        Place::NowInOrder => (
            Some(Event::RedChained(
                entry.outbox_epoch,
                entry.signed_outbox_root_digest,
            )),
            known,
        ),
        Place::Broken if state.outbox.broken.contains(&body) => (None, known),
        // Everything is frozen by as many grounds as are kept apart: one more changes nothing.
        Place::Broken if state.outbox.broken.len() >= RED_EARLY_MAX => (None, known),
        Place::Early if state.outbox.early.len() >= RED_EARLY_MAX => (None, known),
        Place::Broken => with_number(latched(
            state,
            governance,
            red,
            Some(entry),
            ChainPlace::Broken,
        )),
        Place::Early => with_number(latched(
            state,
            governance,
            red,
            Some(entry),
            ChainPlace::Early,
        )),
        Place::Next => with_number(latched(
            state,
            governance,
            red,
            Some(entry),
            ChainPlace::Next,
        )),
    }
}

fn with_number(latched: (Event, LatchNumber)) -> (Option<Event>, Option<LatchNumber>) {
    (Some(latched.0), Some(latched.1))
}

enum Place {
    Repeat,
    Next,
    NowInOrder,
    Early,
    Broken,
}

/// Live latches of the sentinel in force: one before it has numbered its entries as well.
fn of_this_chain(state: &Authority) -> impl Iterator<Item = &Latch> {
    let before = state.outbox.begins_after;
    let latches = state.latches.values();
    latches.filter(move |l| l.receipt.latch_epoch > before)
}

/// Where an entry stands relative to the watermark (M1-I32).
fn place(state: &Authority, entry: &SentinelRedOutboxV1) -> Place {
    let outbox = &state.outbox;
    let number = entry.outbox_epoch;
    let early = outbox.early.get(&number);
    if number == outbox.number.next() && number != outbox.number {
        let follows = entry.previous_outbox_root_digest == outbox.root.unwrap_or(Digest::ZERO);
        return match early {
            _ if !follows => Place::Broken,
            Some(root) if *root != entry.signed_outbox_root_digest => Place::Broken,
            Some(_) => Place::NowInOrder,
            None => Place::Next,
        };
    }
    if number > outbox.number {
        return match early {
            Some(root) if *root == entry.signed_outbox_root_digest => Place::Repeat,
            Some(_) => Place::Broken,
            None => Place::Early,
        };
    }
    // At or below the watermark: the last one can be compared; an older one is a repeat only
    // if its latch is still known, else it is archived and was latched in its turn.
    let is_watermark = number == outbox.number;
    if is_watermark {
        let same = outbox.root == Some(entry.signed_outbox_root_digest);
        return if same && !Bug::RedLatchedAgain.planted() {
            Place::Repeat
        } else {
            Place::Broken
        };
    }
    let live = of_this_chain(state).find(|l| l.receipt.sentinel_outbox_epoch == number);
    match live {
        Some(l) if l.receipt.sentinel_outbox_root_digest != entry.signed_outbox_root_digest => {
            Place::Broken
        }
        _ if number == OutboxEpoch(0) => Place::Broken,
        _ => Place::Repeat,
    }
}

/// Builds the latch: mandate, ground, receipt.
fn latched(
    state: &Authority,
    governance: &Governance,
    red: &RedEntry,
    entry: Option<&SentinelRedOutboxV1>,
    place: ChainPlace,
) -> (Event, LatchNumber) {
    let number = state.issued.latch.next();
    let envelope = red.signed.envelope();
    let current_epoch = envelope.scope.organism_epoch == governance.organism_epoch;
    let mandate = match entry {
        Some(entry)
            if (place == ChainPlace::Next && current_epoch)
                || Bug::GapStopsItsScopeOnly.planted() =>
        {
            let source = entry
                .source_intent_digest_optional
                .and_then(|d| state.intents.get(&d));
            mandate(&entry.red_verdict, source.map(|i| &i.intent))
        }
        _ => Mandate::everything(),
    };
    let receipt = RedLatchReceiptV1 {
        latch_epoch: number,
        sentinel_outbox_epoch: entry.map_or(OutboxEpoch(0), |e| e.outbox_epoch),
        sentinel_outbox_root_digest: entry.map_or(Digest::ZERO, |e| e.signed_outbox_root_digest),
        red_verdict_digest: entry.map_or(envelope.digest(), |e| e.red_verdict_digest()),
        source_intent_digest_optional: entry.and_then(|e| e.source_intent_digest_optional),
        mandate,
        latched_at: state.clock.state_time,
        tick: state.clock.tick,
        constitution_epoch: governance.constitution.constitution_epoch,
        autonomy_epoch: governance.epoch.autonomy_epoch,
    };
    let ground = ground_of(state, &receipt, place);
    let event = Event::RedLatched(Box::new(receipt), place, ground, envelope.clone());
    (event, number)
}

fn ground_of(state: &Authority, receipt: &RedLatchReceiptV1, place: ChainPlace) -> Ground {
    let number: GroundNumber = state.issued.ground.next();
    let (scopes, cause) = match place {
        ChainPlace::Next => (
            receipt.mandate.scopes.clone(),
            GroundCause::Latch(receipt.latch_epoch),
        ),
        ChainPlace::Early => (
            vec![RedScope::Everything],
            GroundCause::ChainGap(receipt.sentinel_outbox_epoch),
        ),
        ChainPlace::Broken | ChainPlace::Unreadable => (
            vec![RedScope::Everything],
            GroundCause::ChainBreak(receipt.sentinel_outbox_epoch),
        ),
    };
    Ground {
        number,
        scopes,
        cause,
    }
}

/// The sentinel holds the terminal acknowledgement: the latch may leave the live state. Its
/// ground stays until a reset.
pub(super) fn acknowledge(state: &Authority, ack: &Signed<OutboxAckV1>) -> Decision {
    let governance = governance(state)?;
    signed_by(governance, ack, &governance.roster.sentinel.key)?;
    let record = ack.record();
    let accepted = Accepted::OutboxAcknowledged(record.latch);
    let Some(latch) = state.latches.get(&record.latch) else {
        let issued = record.latch.0 >= 1 && record.latch <= state.issued.latch;
        return if issued {
            Ok((Vec::new(), accepted))
        } else {
            Err(Refusal::WrongState)
        };
    };
    let closes = matches!(latch.state, LatchState::Terminal(_))
        && latch.receipt.sentinel_outbox_epoch == record.outbox_epoch
        && record.sentinel_key == governance.roster.sentinel.key;
    if !closes {
        return Err(Refusal::WrongState);
    }
    Ok((
        vec![Event::OutboxAcknowledged(
            record.latch,
            ack.envelope().clone(),
        )],
        accepted,
    ))
}
