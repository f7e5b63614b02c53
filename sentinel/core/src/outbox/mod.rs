//! The RED outbox: hash-chained, gap-free, never lost, sent until it is over (M1-I32).
//!
//! ```text
//!   RED requests ─coalesce─▶ chain ─▶ Persist ─▶ Deliver(actuator) ─▶ Deliver(node 1) …
//!                                       ▲
//!   Chained ──latch──▶ Latched ──terminal──▶ Terminal ──acknowledged──▶ Closed ─▶ deleted
//!           (each a proven event of the journal; stored by the next Persist)
//! ```
//!
//! - **Never lost.** A RED is signed and persisted in one step, then delivered to everybody
//!   with backoff until a proven latch and a proven terminal event. Every delivery to a
//!   receiver carries the whole segment after what it has acknowledged.
//! - **Bounded** (FAULTS 94). What asks for the same is coalesced before it is chained. Of the
//!   slots for open entries the last is reserved for one RED of scope *everything*: when the
//!   others are used up, further REDs widen into it and none is dropped.
//! - **Not rolled back** (FAULTS 34, 55). Heads that journal and actuator remember are compared
//!   with this one. If theirs is longer or another, the outbox is damaged for good: GREEN is
//!   refused and RED *everything* is chained behind what they know.
//!
//! - **In force until its reset.** A closed entry is gone, its RED is not: it stands until the
//!   proven `GroundsReset` that names the ground under which it was latched (DESIGN §6).
//!
//! The outbox does not believe a latch, a terminal state or a reset that is not proven, does not
//! close an entry because a receiver has it, and never weakens or withdraws a RED.

mod chain;
mod deliver;
mod lanes;
mod request;
mod standing;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use redlatch_types::event::Event;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::{RedLatchReceiptV1, RedVerdictV1, SentinelRedOutboxV1};
use redlatch_types::{
    Bytes, Canonical, Digest, Envelope, GroundNumber, IntentDigest, NodeId, OutboxEpoch, Scope,
    SigningKey,
};

pub use chain::{ChainFault, Head, Owner, verify_chain};
pub use deliver::Delivery;
use lanes::Lanes;
pub use lanes::{RETRY_FIRST_MS, RETRY_MAX_MS, Receiver};
pub use request::{RedRequest, stops};
use request::{asks_for, coalesce, is_everything, lost_request, verdict_record, widened};
pub use standing::{Posture, STANDING_KEPT_MAX, STANDING_MAX};
pub use stored::{
    Corrupt, Damage, Found, Keep, Link, OutboxStateV1, Progress, StandingV1, StoredEntryV1, Write,
};

/// Slots for entries whose stop is not complete; the last is reserved for *everything*.
pub const OPEN_MAX: usize = 128;
/// Entries kept in all; closed ones wait here for the ones before them.
pub const KEPT_MAX: usize = 2 * OPEN_MAX;
/// Bytes of one delivered segment; the rest follows when it is acknowledged.
pub const SEGMENT_BYTES_MAX: usize = 192 * 1024;

/// Who remembers a head of this outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// The journal's watermark, the highest that a majority of nodes answers.
    Journal,
    /// The actuator.
    Actuator,
}

/// Whether a GREEN may be stated as far as the outbox is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Nobody remembers more than it holds, and it has room.
    Sound,
    /// Journal and actuator have not both been asked since the start.
    Unconfirmed,
    /// Only the reserved slot is left, or not even that.
    Full,
    /// Somebody remembers a longer or another chain.
    Damaged,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Health::Sound => "sound",
            Health::Unconfirmed => "not yet compared with what journal and actuator remember",
            Health::Full => "no room but for a RED of scope everything",
            Health::Damaged => "journal or actuator remember another chain",
        })
    }
}

/// What the outbox wants done, in order. If a `Persist` fails, nothing after it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write and sync.
    Persist(Box<Write>),
    /// Send; the answer comes back as an input, or never.
    Deliver(Delivery),
    /// Tell people: the outbox is damaged.
    Alarm(Damage),
}

/// Who writes the outbox.
#[derive(Debug)]
pub struct Writer {
    /// Organism and its epoch.
    pub scope: Scope,
    /// The sentinel's key.
    pub key: SigningKey,
    /// Nodes of the roster.
    pub nodes: Vec<NodeId>,
}

/// The outbox.
#[derive(Debug)]
pub struct Outbox {
    writer: Writer,
    state: OutboxStateV1,
    entries: BTreeMap<OutboxEpoch, StoredEntryV1>,
    verdicts: BTreeMap<OutboxEpoch, RedVerdictV1>,
    asked: BTreeSet<Memory>,
    lanes: Lanes,
    unwritten: Option<Unwritten>,
}

/// Changes that the next [`Effect::Persist`] takes along.
#[derive(Debug)]
struct Unwritten {
    expected_generation: Option<u64>,
    keep: Keep,
    put: BTreeSet<OutboxEpoch>,
    delete: Vec<OutboxEpoch>,
}

impl Outbox {
    /// The outbox of a sentinel that was just enrolled and never had one.
    pub fn first(writer: Writer, out: &mut Vec<Effect>) -> Outbox {
        Outbox::created(writer, None, None, out)
    }

    /// The outbox in place of one whose records are gone or unreadable; `generation` is that
    /// of the store, if it can be read. It is damaged: it states RED everything as soon as it
    /// learns which head anybody remembers.
    pub fn after_loss(writer: Writer, generation: Option<u64>, out: &mut Vec<Effect>) -> Outbox {
        let outbox = Outbox::created(writer, Some(Damage::Lost), generation, out);
        out.push(Effect::Alarm(Damage::Lost));
        outbox
    }

    fn created(
        writer: Writer,
        damage: Option<Damage>,
        stored_generation: Option<u64>,
        out: &mut Vec<Effect>,
    ) -> Outbox {
        let state = OutboxStateV1 {
            generation: stored_generation.map_or(1, |g| g.saturating_add(1)),
            base: Head::ZERO,
            head: Head::ZERO,
            protected: OutboxEpoch(0),
            damage,
            standing: Vec::new(),
        };
        let mut outbox = Outbox::of(writer, state, BTreeMap::new(), stored_generation);
        outbox.touch(None).keep = Keep::Nothing;
        outbox.run(0, out);
        outbox
    }

    /// The outbox as it was persisted, under a new writer generation.
    ///
    /// # Errors
    /// [`Corrupt`] if the records are missing, unreadable or no whole chain.
    pub fn open(
        writer: Writer,
        found: &Found,
        now: u64,
        out: &mut Vec<Effect>,
    ) -> Result<Outbox, Corrupt> {
        let owner = Owner {
            organism_id: writer.scope.organism_id,
            key: writer.key.public_key(),
        };
        let (mut state, entries) = stored::read(owner, found)?;
        let before = state.generation;
        state.generation = before.saturating_add(1);
        let mut outbox = Outbox::of(writer, state, entries, Some(before));
        outbox.lanes.hurry(now);
        outbox.run(now, out);
        Ok(outbox)
    }

    fn of(
        writer: Writer,
        state: OutboxStateV1,
        entries: BTreeMap<OutboxEpoch, StoredEntryV1>,
        expected_generation: Option<u64>,
    ) -> Outbox {
        let verdicts = entries
            .iter()
            .filter_map(|(number, entry)| Some((*number, verdict_of(&entry.envelope)?)))
            .collect();
        Outbox {
            lanes: Lanes::new(&writer.nodes, state.base.number),
            writer,
            state,
            entries,
            verdicts,
            asked: BTreeSet::new(),
            unwritten: Some(Unwritten {
                expected_generation,
                keep: Keep::Rest,
                put: BTreeSet::new(),
                delete: Vec::new(),
            }),
        }
    }

    /// Number and root of the last entry.
    pub fn head(&self) -> Head {
        self.state.head
    }

    /// The writer generation of this process.
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// Entries kept, with how far they came.
    pub fn entries(&self) -> impl Iterator<Item = (OutboxEpoch, &StoredEntryV1)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// Whether GREEN may be stated as far as the outbox is concerned.
    pub fn health(&self) -> Health {
        if self.state.damage.is_some() {
            Health::Damaged
        } else if self.asked.len() < 2 {
            Health::Unconfirmed
        } else if !self.has_room() {
            Health::Full
        } else {
            Health::Sound
        }
    }

    /// What the judge must know.
    pub fn posture(&self) -> Posture<'_> {
        Posture {
            health: self.health(),
            standing: &self.state.standing,
        }
    }

    /// When [`Outbox::handle_timeout`] is due, if ever.
    pub fn next_wakeup(&self) -> Option<u64> {
        self.lanes.next_due()
    }

    /// Repeats what is due.
    pub fn handle_timeout(&mut self, now: u64, out: &mut Vec<Effect>) {
        self.run(now, out);
    }

    /// The roster has other nodes.
    pub fn handle_roster(&mut self, nodes: &[NodeId], now: u64, out: &mut Vec<Effect>) {
        self.lanes.set_nodes(nodes, self.state.base.number);
        self.lanes.hurry(now);
        self.run(now, out);
    }

    /// Chains REDs, persists them in one write and sends them. Returns for each request the
    /// number of the entry that carries it. Never refuses.
    pub fn handle_reds(
        &mut self,
        reds: Vec<RedRequest>,
        now: u64,
        out: &mut Vec<Effect>,
    ) -> Vec<OutboxEpoch> {
        let (merged, places) = coalesce(reds);
        let numbers: Vec<_> = merged.into_iter().map(|red| self.carry(red)).collect();
        self.lanes.hurry(now);
        self.run(now, out);
        places
            .into_iter()
            .filter_map(|at| numbers.get(at).copied())
            .collect()
    }

    /// Compares with what somebody remembers of this outbox. For the actuator this is also the
    /// acknowledgement of everything up to there.
    pub fn handle_remembered(
        &mut self,
        memory: Memory,
        known: Head,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        self.asked.insert(memory);
        let agrees = self.compare(known, now, out);
        if self.state.damage.is_some() && !self.states_everything() {
            self.state_everything(now);
        }
        if agrees && known.number > self.state.protected {
            self.state.protected = known.number;
            self.touch(None);
        }
        if memory == Memory::Actuator {
            let has = if agrees {
                known.number
            } else {
                self.state.base.number
            };
            self.acknowledge(has, now);
        }
        self.run(now, out);
    }

    /// Moves entries on by a proven event: latch, terminal, acknowledgement, reset. Others are ignored.
    pub fn handle_event(&mut self, event: &ProvenEvent, now: u64, out: &mut Vec<Effect>) {
        match event.event() {
            Event::RedLatched(receipt, _, ground, envelope)
                if envelope.key == self.writer.key.public_key() =>
            {
                self.latched(receipt, ground.number, now, out);
            }
            Event::SafetyTerminal(latch, _) => {
                self.advance(Progress::Latched(*latch), Progress::Terminal(*latch), now);
            }
            Event::OutboxAcknowledged(latch, _) => {
                self.advance(Progress::Terminal(*latch), Progress::Closed, now);
                self.prune();
            }
            Event::GroundsReset(grounds) => self.reset(grounds),
            _ => {}
        }
        self.run(now, out);
    }

    /// The entry that carries `red`: an open one that asks for as much, or a new one.
    fn carry(&mut self, red: RedRequest) -> OutboxEpoch {
        if let Some(number) = self.open_entry(|verdict, source| asks_for(verdict, source, &red)) {
            return number;
        }
        if self.has_room() {
            return self.chain(&red, Link::Previous);
        }
        let wide = self.open_entry(|verdict, _| is_everything(verdict));
        wide.unwrap_or_else(|| self.chain(&widened(&red), Link::Previous))
    }

    fn has_room(&self) -> bool {
        let open = self.entries.values().filter(|e| is_open(e.progress));
        open.count() + 1 < OPEN_MAX && self.entries.len() + 1 < KEPT_MAX
    }

    fn open_entry(
        &self,
        matches: impl Fn(&RedVerdictV1, Option<IntentDigest>) -> bool,
    ) -> Option<OutboxEpoch> {
        let open = self.entries.iter().filter(|(_, e)| is_open(e.progress));
        open.filter_map(|(number, entry)| {
            let verdict = self.verdicts.get(number)?;
            let record = record_of(&entry.envelope)?;
            matches(verdict, record.source_intent_digest_optional).then_some(*number)
        })
        .next()
    }

    /// Signs the next entry.
    fn chain(&mut self, red: &RedRequest, link: Link) -> OutboxEpoch {
        if let Link::Remembered(head) = link {
            self.state.head = head;
        }
        let verdict = verdict_record(red);
        let red_verdict = Bytes(verdict.to_canonical());
        let number = self.state.head.number.next();
        let root = SentinelRedOutboxV1::root_after(
            &self.state.head.root,
            number,
            &Digest::of(&red_verdict.0),
            red.source.as_ref(),
        );
        let record = SentinelRedOutboxV1 {
            outbox_epoch: number,
            previous_outbox_root_digest: self.state.head.root,
            red_verdict,
            source_intent_digest_optional: red.source,
            signed_outbox_root_digest: root,
            protected_latest_outbox_epoch: self.state.protected,
        };
        let entry = StoredEntryV1 {
            envelope: Envelope::seal(self.writer.scope, &self.writer.key, &record),
            progress: Progress::Chained,
            link,
        };
        self.entries.insert(number, entry);
        self.verdicts.insert(number, verdict);
        self.state.head = Head { number, root };
        self.stand(number, red.scope.clone());
        self.touch(Some(number));
        number
    }

    /// Whether this chain passes through `known`; if it cannot, the outbox is damaged.
    fn compare(&mut self, known: Head, now: u64, out: &mut Vec<Effect>) -> bool {
        if known.number > self.state.head.number {
            self.damage(Damage::RolledBack(known), out);
            self.chain(&lost_request(), Link::Remembered(known));
            self.lanes.hurry(now);
            return false;
        }
        match self.root_at(known.number) {
            Some(root) if root != known.root => {
                self.damage(Damage::Forked(known), out);
                false
            }
            Some(_) => true,
            // Closed long ago; an old memory says nothing against this chain.
            None => false,
        }
    }

    fn damage(&mut self, damage: Damage, out: &mut Vec<Effect>) {
        if self.state.damage != Some(damage) {
            self.state.damage = Some(damage);
            self.touch(None);
            out.push(Effect::Alarm(damage));
        }
    }

    fn state_everything(&mut self, now: u64) {
        self.chain(&lost_request(), Link::Previous);
        self.lanes.hurry(now);
    }

    /// The root after `number`, if it is still known here.
    fn root_at(&self, number: OutboxEpoch) -> Option<Digest> {
        if number == OutboxEpoch(0) {
            return Some(Digest::ZERO);
        }
        if number == self.state.base.number {
            return Some(self.state.base.root);
        }
        let entry = self.entries.get(&number)?;
        Some(record_of(&entry.envelope)?.signed_outbox_root_digest)
    }

    /// The actuator has everything up to `has`; what it has of another chain counts for nothing.
    fn acknowledge(&mut self, has: OutboxEpoch, now: u64) {
        let through = has.max(self.state.base.number);
        if let Some(lane) = self.lanes.lane_mut(Receiver::Actuator) {
            let progress = through > lane.acknowledged;
            // It may also have gone back: then it is served again.
            lane.acknowledged = through;
            if progress {
                lane.hurry(now);
            }
        }
    }

    fn latched(
        &mut self,
        receipt: &RedLatchReceiptV1,
        ground: GroundNumber,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        let known = Head {
            number: receipt.sentinel_outbox_epoch,
            root: receipt.sentinel_outbox_root_digest,
        };
        let was_ours = self.root_at(known.number) == Some(known.root);
        if known.number == OutboxEpoch(0) {
            // An entry that the journal could not read: none that this writer has signed.
            self.damage(Damage::Forked(known), out);
        }
        self.compare(known, now, out);
        if self.state.damage.is_some() && !self.states_everything() {
            self.state_everything(now);
        }
        let latched = Progress::Latched(receipt.latch_epoch);
        if let Some(entry) = self.entries.get_mut(&known.number)
            && was_ours
            && entry.progress == Progress::Chained
        {
            entry.progress = latched;
            self.stands_on(known.number, ground);
            self.touch(Some(known.number));
            self.lanes.hurry(now);
        }
    }

    fn advance(&mut self, from: Progress, to: Progress, now: u64) {
        let found = self.entries.iter_mut().find(|(_, e)| e.progress == from);
        if let Some((number, entry)) = found {
            entry.progress = to;
            let number = *number;
            if to == Progress::Closed {
                self.is_over(number);
            }
            self.touch(Some(number));
            self.lanes.hurry(now);
        }
    }

    /// Deletes closed entries from the front; the base keeps their head.
    fn prune(&mut self) {
        while let Some((number, entry)) = self.entries.first_key_value() {
            if entry.progress != Progress::Closed {
                break;
            }
            let number = *number;
            if let Some(root) = self.root_at(number) {
                self.state.base = Head { number, root };
            }
            self.entries.remove(&number);
            self.verdicts.remove(&number);
            let unwritten = self.touch(None);
            unwritten.put.remove(&number);
            unwritten.delete.push(number);
        }
    }

    fn touch(&mut self, entry: Option<OutboxEpoch>) -> &mut Unwritten {
        let generation = self.state.generation;
        let unwritten = self.unwritten.get_or_insert_with(|| Unwritten {
            expected_generation: Some(generation),
            keep: Keep::Rest,
            put: BTreeSet::new(),
            delete: Vec::new(),
        });
        unwritten.put.extend(entry);
        unwritten
    }

    /// Checks what must hold after every input; for tests and simulation.
    ///
    /// # Panics
    /// If an entry is missing between base and head, or something is owed and nobody is due.
    pub fn check(&self) {
        let last = self.entries.last_key_value().map(|(n, _)| *n);
        assert_eq!(
            last.unwrap_or(self.state.base.number),
            self.state.head.number
        );
        let mut before = self.state.base.number;
        for (number, entry) in &self.entries {
            assert!(entry.link != Link::Previous || *number == before.next());
            before = *number;
        }
        let open = self
            .entries
            .values()
            .any(|e| e.progress != Progress::Closed);
        let nodes = self.lanes.receivers().len() > 1;
        assert!(!open || !nodes || self.next_wakeup().is_some());
        assert!(self.unwritten.is_none());
    }
}

fn is_open(progress: Progress) -> bool {
    matches!(progress, Progress::Chained | Progress::Latched(_))
}

fn record_of(envelope: &Envelope) -> Option<SentinelRedOutboxV1> {
    SentinelRedOutboxV1::from_canonical(&envelope.body.0).ok()
}

fn verdict_of(envelope: &Envelope) -> Option<RedVerdictV1> {
    RedVerdictV1::from_canonical(&record_of(envelope)?.red_verdict.0).ok()
}
