//! Real commands with one thing changed and every signature made anew.
//!
//! ```text
//!   command ─▶ parts (as it travels · each signed record · payload · assertion)
//!                └─▶ tree of CBOR items ─▶ one item changed ─▶ sealed again by the same keys
//! ```
//!
//! So a changed field meets the check that is about it, and not the signature over it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by tests and the fuzz target: each uses another part of it"
)]

use std::collections::BTreeMap;

use redlatch_types::command::RawCommand;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// One CBOR item of definite length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Major type 0 or 1 and its argument.
    Number(u8, u64),
    Bytes(Vec<u8>),
    Text(Vec<u8>),
    List(Vec<Item>),
    Map(Vec<(Item, Item)>),
    /// Major type 7: false, true, null.
    Simple(u64),
}

impl Item {
    /// The one item that `bytes` are; `None` for anything that no record of ours contains.
    pub fn read(bytes: &[u8]) -> Option<Item> {
        let (item, rest) = Item::read_one(bytes)?;
        rest.is_empty().then_some(item)
    }

    fn read_one(bytes: &[u8]) -> Option<(Item, &[u8])> {
        let (first, rest) = bytes.split_first()?;
        let width = match first & 0x1f {
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            28.. => return None,
            _ => 0,
        };
        let (wide, mut rest) = rest.split_at_checked(width)?;
        let argument = match width {
            0 => u64::from(first & 0x1f),
            _ => wide.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        let length = usize::try_from(argument).ok()?;
        Some(match first >> 5 {
            major @ (0 | 1) => (Item::Number(major, argument), rest),
            2 => {
                let (bytes, rest) = rest.split_at_checked(length)?;
                (Item::Bytes(bytes.to_vec()), rest)
            }
            3 => {
                let (text, rest) = rest.split_at_checked(length)?;
                (Item::Text(text.to_vec()), rest)
            }
            4 => {
                let mut items = Vec::new();
                for _ in 0..length {
                    let (item, after) = Item::read_one(rest)?;
                    items.push(item);
                    rest = after;
                }
                (Item::List(items), rest)
            }
            5 => {
                let mut pairs = Vec::new();
                for _ in 0..length {
                    let (name, after) = Item::read_one(rest)?;
                    let (value, after) = Item::read_one(after)?;
                    pairs.push((name, value));
                    rest = after;
                }
                (Item::Map(pairs), rest)
            }
            7 => (Item::Simple(argument), rest),
            _ => return None,
        })
    }

    /// The canonical bytes.
    pub fn write(&self) -> Vec<u8> {
        match self {
            Item::Number(major, argument) => head(*major, *argument),
            Item::Bytes(bytes) => [head(2, bytes.len() as u64), bytes.clone()].concat(),
            Item::Text(text) => [head(3, text.len() as u64), text.clone()].concat(),
            Item::List(items) => {
                let mut bytes = head(4, items.len() as u64);
                items.iter().for_each(|item| bytes.extend(item.write()));
                bytes
            }
            Item::Map(pairs) => {
                let mut bytes = head(5, pairs.len() as u64);
                for (name, value) in pairs {
                    bytes.extend(name.write());
                    bytes.extend(value.write());
                }
                bytes
            }
            Item::Simple(argument) => head(7, *argument),
        }
    }

    /// Every way to change one thing in it: where, and the whole as it is then.
    pub fn changes(&self) -> Vec<(String, Item)> {
        let mut found: Vec<(String, Item)> = Vec::new();
        let here = |item| (String::new(), item);
        match self {
            Item::Number(major, n) => {
                found.extend(n.checked_add(1).map(|n| here(Item::Number(*major, n))));
                found.extend(n.checked_sub(1).map(|n| here(Item::Number(*major, n))));
            }
            Item::Bytes(bytes) => found.push(here(Item::Bytes(altered(bytes)))),
            Item::Text(text) => {
                let mut longer = text.clone();
                longer.push(b'x');
                found.push(here(Item::Text(longer)));
            }
            Item::Simple(argument) => found.push(here(Item::Simple(argument ^ 1))),
            Item::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    found.extend(item.changes().into_iter().map(|(path, changed)| {
                        let mut items = items.clone();
                        items[at] = changed;
                        (below(at as u64, &path), Item::List(items))
                    }));
                    let mut fewer = items.clone();
                    fewer.remove(at);
                    found.push((below(at as u64, "gone"), Item::List(fewer)));
                }
            }
            Item::Map(pairs) => {
                for (at, (name, value)) in pairs.iter().enumerate() {
                    let Item::Number(_, number) = name else {
                        continue;
                    };
                    found.extend(value.changes().into_iter().map(|(path, changed)| {
                        let mut pairs = pairs.clone();
                        pairs[at].1 = changed;
                        (below(*number, &path), Item::Map(pairs))
                    }));
                    let mut fewer = pairs.clone();
                    fewer.remove(at);
                    found.push((below(*number, "gone"), Item::Map(fewer)));
                }
            }
        }
        found
    }
}

fn below(number: u64, path: &str) -> String {
    match path {
        "" => number.to_string(),
        _ => format!("{number}.{path}"),
    }
}

fn altered(bytes: &[u8]) -> Vec<u8> {
    let mut altered = bytes.to_vec();
    match altered.last_mut() {
        Some(last) => *last ^= 1,
        None => altered.push(1),
    }
    altered
}

fn head(major: u8, argument: u64) -> Vec<u8> {
    let all = argument.to_be_bytes();
    let (info, width) = match argument {
        0..=23 => (argument.to_be_bytes()[7], 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    [&[major << 5 | info], &all[8 - width..]].concat()
}

/// A piece of a command that can be changed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The command as it travels: nothing is signed anew.
    Travelling,
    /// The record of its n-th envelope.
    Record(usize),
    /// What the client's envelope names.
    Payload,
    /// What the n-th person's browser and authenticator say.
    ClientData(usize),
    /// See above.
    AuthenticatorData(usize),
}

/// The envelopes of a command, each with the name under which it is signed. A new command does
/// not compile here until it says so.
pub fn envelopes(command: &mut RawCommand) -> Vec<(&'static str, &mut Envelope)> {
    fn all<'a>(
        name: &'static str,
        of: &'a mut [Envelope],
    ) -> Vec<(&'static str, &'a mut Envelope)> {
        of.iter_mut().map(|envelope| (name, envelope)).collect()
    }
    match command {
        RawCommand::Bootstrap(e) => vec![(GenesisV1::TYPE, e)],
        RawCommand::Tick(_, readings) => all(ClockReadingV1::TYPE, readings),
        RawCommand::ActivateQuorumKey(parts) => all(KeyConfirmationV1::TYPE, parts),
        RawCommand::FreezeIntent(e, _)
        | RawCommand::Withdraw(e, _)
        | RawCommand::OpenChallenge(e, _) => vec![(CausalEnvelopeV1::TYPE, e)],
        RawCommand::Authorize(given) => {
            let given = &mut **given;
            let mut found = vec![(SentinelVerdictV1::TYPE, &mut given.green)];
            found.extend(all(VoteV1::TYPE, &mut given.votes));
            found.push((AgentQuorumDecisionV1::TYPE, &mut given.decision));
            found
        }
        RawCommand::ClaimEffect(e) => vec![(EffectClaimV1::TYPE, e)],
        RawCommand::ReportOutcome(e) => vec![(EffectOutcomeV1::TYPE, e)],
        RawCommand::LatchRed(segment) => all(SentinelRedOutboxV1::TYPE, segment),
        RawCommand::PrepareSafety(e) => vec![(SafetyCapabilityV1::TYPE, e)],
        RawCommand::AcknowledgeOutbox(e) => vec![(OutboxAckV1::TYPE, e)],
        RawCommand::AuthorizeHuman(given) => vec![(SentinelVerdictV1::TYPE, &mut given.green)],
        RawCommand::AuthorizePolicy(given) => {
            let given = &mut **given;
            let mut found = vec![(SentinelVerdictV1::TYPE, &mut given.green)];
            found.extend(all(GateReceiptV1::TYPE, &mut given.receipts));
            found
        }
        RawCommand::RootAct(e) => vec![(RootActV1::TYPE, e)],
        RawCommand::RaiseFeatureLevel(supports) => all(FeatureSupportV1::TYPE, supports),
        RawCommand::Rejoin(e) => vec![(RejoinV1::TYPE, e)],
        RawCommand::Prepare(..)
        | RawCommand::Commit(..)
        | RawCommand::Abort(..)
        | RawCommand::StoreSafetyIntent(..)
        | RawCommand::ClaimSafety(..)
        | RawCommand::FinishSafety(..)
        | RawCommand::Checkpoint
        | RawCommand::Activate(..) => Vec::new(),
    }
}

/// The private halves of every key of these worlds.
pub struct Keyring(BTreeMap<PublicKey, SigningKey>);

impl Keyring {
    pub fn new() -> Keyring {
        let keys = (0..=u8::MAX).map(|n| (key(n).public_key(), key(n)));
        Keyring(keys.collect())
    }

    /// Gives `envelope` another body, under a signature that holds.
    fn reseal(&self, name: &str, envelope: &mut Envelope, body: Vec<u8>) {
        let preimage = sign::preimage(name, &envelope.scope, &Digest::of(&body));
        if let Some(key) = self.0.get(&envelope.key) {
            envelope.signature = key.sign(&preimage);
        }
        envelope.body = Bytes(body);
    }

    /// `command` whose n-th record is signed under the name of another kind.
    pub fn under(&self, command: &RawCommand, n: usize, name: &str) -> Vec<u8> {
        let mut command = command.clone();
        let (_, envelope) = envelopes(&mut command).swap_remove(n);
        let body = envelope.body.0.clone();
        self.reseal(name, envelope, body);
        command.to_canonical()
    }

    /// `command` whose n-th record is signed for another scope or by another key.
    pub fn signed_as(
        &self,
        command: &RawCommand,
        n: usize,
        change: impl Fn(&mut Envelope),
    ) -> Vec<u8> {
        let mut command = command.clone();
        let (name, envelope) = envelopes(&mut command).swap_remove(n);
        change(envelope);
        let body = envelope.body.0.clone();
        self.reseal(name, envelope, body);
        command.to_canonical()
    }

    /// `command` with `bytes` in place of the part, everything around it signed anew.
    pub fn with(&self, command: &RawCommand, part: Part, bytes: Vec<u8>) -> Vec<u8> {
        let mut command = command.clone();
        match part {
            Part::Travelling => return bytes,
            Part::Record(n) => {
                let (name, envelope) = envelopes(&mut command).swap_remove(n);
                self.reseal(name, envelope, bytes);
            }
            Part::Payload => self.with_payload(&mut command, bytes),
            Part::ClientData(n) | Part::AuthenticatorData(n) => {
                if let RawCommand::AuthorizeHuman(given) = &mut command {
                    asserted_anew(&mut given.approvals[n], part, bytes);
                }
            }
        }
        command.to_canonical()
    }

    fn with_payload(&self, command: &mut RawCommand, bytes: Vec<u8>) {
        let (RawCommand::FreezeIntent(envelope, payload)
        | RawCommand::Withdraw(envelope, payload)
        | RawCommand::OpenChallenge(envelope, payload)) = command
        else {
            return;
        };
        let mut record = CausalEnvelopeV1::from_canonical(&envelope.body.0).unwrap();
        record.payload_digest = Digest::of(&bytes);
        self.reseal(CausalEnvelopeV1::TYPE, envelope, record.to_canonical());
        *payload = Bytes(bytes);
    }
}

/// The assertion with other statements, signed by the same authenticator; what the approval
/// repeats of them follows.
fn asserted_anew(approval: &mut HumanApprovalV1, part: Part, bytes: Vec<u8>) {
    let holder = [OWNER, DEPUTY].into_iter().map(authenticator).find(|a| {
        let cose = a.public_key().unwrap().to_cose();
        cose == approval.public_key.0
    });
    let mut data = approval.authenticator_data.0.clone();
    let mut client = approval.client_data_json.0.clone();
    match part {
        Part::ClientData(_) => client = bytes,
        _ => data = bytes,
    }
    if let Some(flags) = data.get(32) {
        approval.user_presence_flags = *flags;
    }
    if let Some(counter) = data.get(33..37) {
        approval.counter = u32::from_be_bytes(counter.try_into().unwrap());
    }
    if let Some(holder) = holder {
        approval.signature = Bytes(holder.sign(data.clone(), client.clone()).signature);
    }
    approval.authenticator_data = Bytes(data);
    approval.client_data_json = Bytes(client);
}

/// The parts of a command with the name and the bytes of each.
pub fn parts(command: &RawCommand) -> Vec<(Part, &'static str, Vec<u8>)> {
    let mut found = vec![(Part::Travelling, "command", command.to_canonical())];
    let mut copy = command.clone();
    for (n, (name, envelope)) in envelopes(&mut copy).into_iter().enumerate() {
        found.push((Part::Record(n), name, envelope.body.0.clone()));
    }
    match command {
        RawCommand::FreezeIntent(_, payload) => {
            found.push((Part::Payload, "proposal", payload.0.clone()));
        }
        RawCommand::Withdraw(_, payload) => {
            found.push((Part::Payload, "withdrawal", payload.0.clone()));
        }
        RawCommand::OpenChallenge(_, payload) => {
            found.push((Part::Payload, "challenge-request", payload.0.clone()));
        }
        RawCommand::AuthorizeHuman(given) => {
            for (n, approval) in given.approvals.iter().enumerate() {
                let client = approval.client_data_json.0.clone();
                found.push((Part::ClientData(n), "client-data", client));
                let data = approval.authenticator_data.0.clone();
                found.push((Part::AuthenticatorData(n), "authenticator-data", data));
            }
        }
        _ => {}
    }
    found
}

/// The moments of the two histories: a command, and the state that accepted it.
pub struct Moment {
    pub state: redlatch_journal::State,
    pub command: RawCommand,
}

/// Every accepted command of the histories with the state before it.
pub fn moments() -> Vec<Moment> {
    let mut found = Vec::new();
    for world in [full_history(), governed_history()] {
        let mut state = redlatch_journal::State::new();
        for (entry, index) in world.entries.iter().zip(1..) {
            let at = redlatch_journal::EntryId {
                term: 1,
                leader: 1,
                index,
            };
            let mut before = state.clone();
            // As the command meets it: in an entry of its own.
            before.authority.stepped.clear();
            let outcomes = state.apply(at, entry).outcomes;
            if outcomes[0].reply.is_ok() {
                found.push(Moment {
                    state: before,
                    command: RawCommand::from_canonical(&entry[0]).unwrap(),
                });
            }
        }
    }
    found
}
