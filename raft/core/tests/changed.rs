//! One thing changed in a real command, and one record empty: refused everywhere (FAULTS, cheap check 6).
//!
//! Whoever signs a record signs the changed one too, so that the check about the field is met and
//! not the one of the signature. What its signer may choose freely is listed, and no more than that.

use std::collections::BTreeSet;

use redlatch_journal::{Outcome, admit, decide};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::empty::empty_of;
use super::resealed::*;
use super::world::*;

/// What the journal says to these bytes in this state; `decide` cannot change it.
fn judged(moment: &Moment, bytes: &[u8]) -> Result<Accepted, Refusal> {
    let command = admit(bytes)?;
    decide(&moment.state.authority, &command).reply
}

/// A name for what a command is: its kind, and for a proposal what is proposed.
fn kind(command: &RawCommand) -> String {
    let text = format!("{command:?}");
    let name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
    match command {
        RawCommand::FreezeIntent(_, payload) => {
            let proposal = ProposalV1::from_canonical(&payload.0).expect("an accepted one");
            format!("{name} {}", proposal.payload.class())
        }
        _ => name,
    }
}

/// One moment of each kind, and of each part of it.
fn one_of_each() -> Vec<Moment> {
    let mut seen = BTreeSet::new();
    let all = moments().into_iter();
    all.filter(|moment| seen.insert((kind(&moment.command), parts(&moment.command).len())))
        .collect()
}

/// Fields by which a signer says another thing, as good as the first. Name of the record, number
/// of the field, and what it is.
const FREE: &[(&str, &str, &str)] = &[
    ("causal-envelope", "0", "event_id: another wish"),
    (
        "causal-envelope",
        "8",
        "correlation_id: for the client's own books",
    ),
    ("causal-envelope", "10", "issued_at: earlier"),
    ("causal-envelope", "11", "expires_at"),
    ("challenge-request", "2", "nonce: the client's share of it"),
    ("clock-reading", "3", "clock_ms: one of several clocks"),
    (
        "command",
        "1.0.14",
        "attempt_idempotency_key of a stop's attempt",
    ),
    ("command", "1.0.15", "nonce of a stop's attempt"),
    ("effect-claim", "3", "effect_key: the executor's own"),
    ("effect-outcome", "3", "outcome: what the executor saw"),
    (
        "effect-outcome",
        "4",
        "observed_head: what the executor saw",
    ),
    ("effect-outcome", "5", "detail: text"),
    ("rejoin", "2", "incarnation"),
    ("sentinel-verdict", "0", "verdict_id"),
    ("sentinel-verdict", "11", "nonce"),
    ("sentinel-verdict", "13", "expires_at"),
    ("withdrawal", "1", "reason: text"),
];

/// Records that are one wish as a whole: whoever signs may wish something else, within the law.
const WISHES: [&str; 2] = ["proposal", "root-act"];

/// What happens, if anything does.
fn events(moment: &Moment, bytes: &[u8]) -> Vec<Event> {
    admit(bytes).map_or_else(
        |_| Vec::new(),
        |command| match decide(&moment.state.authority, &command) {
            Outcome {
                reply: Ok(_),
                events,
            } => events,
            _ => Vec::new(),
        },
    )
}

#[test]
fn fault_052_one_changed_field_is_refused_unless_its_signer_may_choose_it() {
    let keys = Keyring::new();
    let mut accepted = BTreeSet::new();
    let mut tried = 0;
    for moment in one_of_each() {
        let red = matches!(moment.command, RawCommand::LatchRed(_));
        let honest = events(&moment, &moment.command.to_canonical());
        for (part, name, bytes) in parts(&moment.command) {
            let Some(item) = Item::read(&bytes) else {
                continue;
            };
            for (path, changed) in item.changes() {
                let bytes = keys.with(&moment.command, part, changed.write());
                let events = events(&moment, &bytes);
                tried += 1;
                if red && part != Part::Travelling {
                    assert!(!events.is_empty(), "a RED at {path} stops nothing");
                } else if !events.is_empty() {
                    assert_ne!(events, honest, "{name} {path}: the record does not say so");
                    accepted.insert((name, path));
                }
            }
        }
    }
    accepted.retain(|(name, _)| !WISHES.contains(name));
    let free: BTreeSet<(&str, String)> = FREE
        .iter()
        .map(|(name, path, _)| (*name, (*path).to_owned()))
        .collect();
    assert_eq!(accepted, free, "of {tried} changes");
    assert!(tried > 2_000, "{tried}");
}

#[test]
fn fault_052_an_empty_record_in_the_place_of_a_real_one_is_refused() {
    let keys = Keyring::new();
    for moment in one_of_each() {
        for (part, name, _) in parts(&moment.command) {
            let empty = match part {
                Part::Record(_) => empty_of(name),
                Part::Travelling => continue,
                Part::Payload | Part::ClientData(_) | Part::AuthenticatorData(_) => Vec::new(),
            };
            let reply = judged(&moment, &keys.with(&moment.command, part, empty));
            let red = matches!(moment.command, RawCommand::LatchRed(_));
            assert_eq!(reply.is_ok(), red, "{name} of {}", kind(&moment.command));
        }
    }
}

/// Kinds that no command carries among them: a beat, a status, an order, a claim of a boot.
#[test]
fn fault_056_a_record_signed_as_another_kind_serves_in_no_command() {
    let keys = Keyring::new();
    let mut tried = 0;
    for moment in one_of_each() {
        for (part, own, _) in parts(&moment.command) {
            let Part::Record(n) = part else { continue };
            for name in TYPES.iter().filter(|name| **name != own) {
                let reply = judged(&moment, &keys.under(&moment.command, n, name));
                assert_eq!(reply, Err(Refusal::BadSignature), "{own} as {name}");
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

/// The same words for another organism, for another epoch of it, or by somebody else.
#[test]
fn fault_056_a_record_serves_where_and_by_whom_it_was_meant() {
    type Change = fn(&mut Envelope);
    let changes: [(&str, Change); 5] = [
        ("organism", |e| {
            e.scope.organism_id = OrganismId(digest("x"))
        }),
        ("epoch after", |e| e.scope.organism_epoch += 1),
        ("epoch before", |e| e.scope.organism_epoch -= 1),
        ("stranger", |e| e.key = key(77).public_key()),
        ("other party", |e| {
            let other = [OTHER_AGENT, GATE].map(|n| key(n).public_key());
            e.key = other[usize::from(e.key == other[0])];
        }),
    ];
    let keys = Keyring::new();
    for moment in one_of_each() {
        let red = matches!(moment.command, RawCommand::LatchRed(_));
        for (part, name, _) in parts(&moment.command) {
            let Part::Record(n) = part else { continue };
            for (what, change) in changes {
                let command = keys.signed_as(&moment.command, n, change);
                let reply = judged(&moment, &command);
                // A RED of another epoch still stops, and more than it says.
                let stops = red && what.starts_with("epoch");
                assert_eq!(reply.is_ok(), stops, "{name} of another {what}: {reply:?}");
                if !stops && !what.starts_with("epoch") && what != "organism" {
                    assert_ne!(reply, Err(Refusal::WrongOrganism), "{name} {what}");
                }
            }
        }
    }
}
