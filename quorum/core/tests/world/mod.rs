//! A world for ballot tests: the journal's world, four verifiers with disks, a key ceremony.
//!
//! Everything is real: votes, nonces, the group key of a distributed key generation, and the
//! journal's own admit and decide at the end. Only messages travel by function call.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a world for tests: each file uses another part of it"
)]

#[path = "../../../../raft/core/tests/world/mod.rs"]
pub mod journal;

use std::collections::{BTreeMap, VecDeque};

use journal::{ACTUATOR, AGENT, MAIN, SENTINEL, START, VERIFIERS, World, id, key, seal_genesis};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use redlatch_ballot::coordinator::Deadlines;
use redlatch_ballot::messages::*;
use redlatch_ballot::records::*;
use redlatch_ballot::verifier::{Asked, Evaluation, Stored};
use redlatch_ballot::*;
use redlatch_types::command::{Authorization, RawCommand};
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

pub fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}
pub fn approve(_: usize) -> Evaluation {
    Evaluation {
        verdict: VoteVerdict::Approve,
        findings_digest: Digest::of(b"clean"),
    }
}
pub fn reject(_: usize) -> Evaluation {
    Evaluation {
        verdict: VoteVerdict::Reject,
        findings_digest: Digest::of(b"too large"),
    }
}
pub fn asked(term: u64) -> Asked {
    Asked {
        term,
        fresh: Digest::of(&term.to_be_bytes()),
    }
}
pub fn name(member: usize) -> VerifierId {
    id(VERIFIERS[member].0)
}
pub fn member(verifier: &VerifierId) -> usize {
    VERIFIERS
        .iter()
        .position(|v| v.0 == verifier.as_str())
        .unwrap()
}
pub const DEADLINES: Deadlines = Deadlines {
    seal_by: 1_000,
    decide_by: 10_000,
    share_ms: 500,
};

/// What survives a crash.
#[derive(Default, Clone)]
pub struct Disk(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl Disk {
    pub fn write(&mut self, rows: &[Row]) {
        for row in rows {
            self.0.insert(row.key(), row.value().to_vec());
        }
    }
    pub fn ballot(&self, intent: &IntentDigest) -> Option<BallotRecordV1> {
        let bytes = self.0.get(&Row::ballot_key(intent))?;
        Some(BallotRecordV1::from_canonical(bytes).unwrap())
    }
    pub fn boot(&self) -> Option<BootRecordV1> {
        let bytes = self.0.get(&Row::boot_key())?;
        Some(BootRecordV1::from_canonical(bytes).unwrap())
    }
    pub fn shares(&self) -> Vec<Vec<u8>> {
        let share = |(k, v): (&Vec<u8>, &Vec<u8>)| (k[0] == Row::SHARES).then(|| v.clone());
        let boot = Row::boot_key();
        self.0
            .iter()
            .filter(|(k, _)| **k != boot)
            .filter_map(share)
            .collect()
    }
}

/// One verifier: its disk and its machine of this boot.
pub struct Desk {
    pub seat: OwnSeat,
    pub disk: Disk,
    pub machine: Option<Verifier>,
    pub rng: ChaCha20Rng,
}

impl Desk {
    /// Boots from the disk alone.
    pub fn boot(&mut self, terms: &Terms) {
        let sealed = self.sealed_share();
        let share = sealed
            .as_ref()
            .zip(terms.quorum_key())
            .map(|(s, k)| s.activate(k).unwrap());
        let stored = Stored {
            boot: self.disk.boot(),
            share_epoch: sealed.map_or(KeyEpoch(0), |s| s.epoch()),
            remembered_generation: None,
            was_rolled_back: false,
        };
        let (machine, effects) =
            Verifier::start(terms.clone(), self.seat.clone(), share, &stored).unwrap();
        self.machine = Some(machine);
        assert!(self.carry_out(effects).is_empty());
    }
    pub fn sealed_share(&self) -> Option<SealedShare> {
        let bytes = self.disk.shares().pop()?;
        let organism = self.disk.boot().unwrap().organism_id;
        Some(SealedShare::from_bytes(&bytes, organism, self.seat.identifier).unwrap())
    }
    pub fn carry_out(&mut self, effects: Vec<VerifierEffect>) -> Vec<Answer> {
        let mut said = Vec::new();
        for effect in effects {
            match effect {
                VerifierEffect::Persist(rows) => self.disk.write(&rows),
                VerifierEffect::Send(answer) => said.push(answer),
            }
        }
        said
    }
    pub fn packet(
        &mut self,
        frozen: &FrozenIntent,
        asked: Asked,
        evaluation: Evaluation,
    ) -> Result<SealedAnswerV1, Refused> {
        let stored = self.disk.ballot(&frozen.digest());
        let machine = self.machine.as_mut().unwrap();
        let effects = match machine.handle_packet(frozen, asked, stored.as_ref(), &mut self.rng)? {
            Next::Effects(effects) => effects,
            Next::Evaluate => {
                machine.cast(frozen, evaluation, asked, stored.as_ref(), &mut self.rng)?
            }
        };
        match self.carry_out(effects).pop() {
            Some(Answer::Sealed(answer)) => Ok(*answer),
            other => panic!("{other:?}"),
        }
    }
    pub fn open(&mut self, sheet: &SealSheetV1) -> Result<Envelope, Refused> {
        let stored = self.disk.ballot(&sheet.intent_digest);
        let effects = self
            .machine
            .as_mut()
            .unwrap()
            .open(sheet, stored.as_ref())?;
        match self.carry_out(effects).pop() {
            Some(Answer::Opened(vote)) => Ok(vote),
            other => panic!("{other:?}"),
        }
    }
    pub fn sign(&mut self, package: &SigningPackageV1) -> Result<Envelope, Refused> {
        let stored = self.disk.ballot(&package.intent_digest);
        let effects = self
            .machine
            .as_mut()
            .unwrap()
            .sign(package, stored.as_ref())?;
        match self.carry_out(effects).pop() {
            Some(Answer::Share(share)) => Ok(share),
            other => panic!("{other:?}"),
        }
    }
}

/// The journal and the four.
pub struct Court {
    pub world: World,
    pub terms: Terms,
    pub desks: Vec<Desk>,
    pub public: PublicKeyPackageV1,
}

pub fn ceremony_id(n: u8) -> CeremonyId {
    CeremonyId {
        nonce: Digest::of(&[n]),
        roster_epoch: RosterEpoch(1),
        quorum_key_epoch: KeyEpoch(1),
    }
}

/// A genesis whose verifiers stand in these domains.
pub fn journal_with(domains: [&str; 4]) -> (World, GenesisV1) {
    let mut parties = journal::parties();
    for (verifier, domain) in parties.verifiers.iter_mut().zip(domains) {
        verifier.failure_domain = id(domain);
    }
    let genesis = redlatch_journal::development::genesis(parties);
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&genesis));
    world.tick(START + 1_000);
    (world, genesis)
}

pub fn desks(terms: &Terms) -> Vec<Desk> {
    let desk = |(n, v): (u8, &(&str, u8, &str))| {
        let mut desk = Desk {
            seat: OwnSeat::find(terms, key(v.1)).unwrap(),
            disk: Disk::default(),
            machine: None,
            rng: rng(n),
        };
        desk.boot(terms);
        desk
    };
    (50..).zip(VERIFIERS.iter()).map(desk).collect()
}

/// Runs a whole ceremony and returns the four confirmations.
pub fn ceremony(terms: &Terms, desks: &mut [Desk], n: u8) -> Vec<Envelope> {
    let mut runs = Vec::new();
    let mut first = Vec::new();
    for desk in desks.iter_mut() {
        let boot = desk.machine.as_ref().unwrap().boot_record(KeyEpoch(0));
        let (run, effects) = Ceremony::begin(
            terms.clone(),
            desk.seat.clone(),
            ceremony_id(n),
            None,
            boot,
            1_000,
            &mut desk.rng,
        )
        .unwrap();
        runs.push(run);
        for effect in effects {
            match effect {
                CeremonyEffect::Persist(rows) => desk.disk.write(&rows),
                CeremonyEffect::Broadcast(said) => first.push(said),
                _ => panic!("round 1 only"),
            }
        }
    }
    let mut told = Vec::new();
    for run in &mut runs {
        for said in &first {
            for effect in run.handle_round1(said).unwrap() {
                match effect {
                    CeremonyEffect::Tell { to, message } => told.push((to, message)),
                    _ => panic!("round 2 only"),
                }
            }
        }
    }
    let mut confirmations = Vec::new();
    for (to, message) in told {
        let at = usize::from(to) - 1;
        for effect in runs[at].handle_round2(&message).unwrap() {
            match effect {
                CeremonyEffect::Persist(rows) => desks[at].disk.write(&rows),
                CeremonyEffect::Confirm(confirmation) => confirmations.push(confirmation),
                _ => panic!("the end only"),
            }
        }
    }
    assert!(runs.iter().all(Ceremony::is_finished));
    confirmations
}

impl Court {
    pub fn new() -> Court {
        Court::with_domains(["east", "north", "south", "west"])
    }

    pub fn with_domains(domains: [&str; 4]) -> Court {
        let (mut world, genesis) = journal_with(domains);
        let terms = Terms::of_genesis(&genesis).unwrap();
        let mut desks = desks(&terms);
        let confirmations = ceremony(&terms, &mut desks, 1);
        assert_eq!(confirmations.len(), 4);
        let confirmed = confirmations[0].open::<KeyConfirmationV1>().unwrap();
        world.ok(RawCommand::ActivateQuorumKey(confirmations));
        let terms = terms.with_key(QuorumKey::of(confirmed.record()));
        for desk in &mut desks {
            desk.boot(&terms);
        }
        let public = desks[0].sealed_share().unwrap().public().clone();
        Court {
            world,
            terms,
            desks,
            public,
        }
    }

    pub fn freeze(&mut self, new: u8) -> FrozenIntent {
        let digest = self.world.freeze(MAIN, 0, new);
        self.frozen(digest)
    }

    /// The intent of one of the journal's own freeze leaves.
    pub fn frozen(&self, digest: IntentDigest) -> FrozenIntent {
        let is_it = |leaf: &&Vec<u8>| matches!(Event::from_canonical(leaf), Ok(Event::Frozen(d, ..)) if d == digest);
        let leaf = self.world.leaves.iter().find(is_it).unwrap();
        let proof = FreezeProof::of_verified_leaf(leaf).unwrap();
        let bytes = self.world.intent(digest).to_canonical();
        FrozenIntent::check(&proof, &bytes).unwrap()
    }

    pub fn green(&mut self, digest: IntentDigest) -> Envelope {
        let record = self.world.green_record(digest);
        Envelope::seal(self.world.scope(), &key(SENTINEL), &record)
    }

    pub fn coordinator(&self, frozen: &FrozenIntent, term: u64) -> (Coordinator, Vec<Step>) {
        Coordinator::begin(
            self.terms.clone(),
            frozen.clone(),
            &self.public,
            term,
            DEADLINES,
        )
        .unwrap()
    }

    pub fn crash(&mut self, at: usize) {
        self.desks[at].machine = None;
        let terms = self.terms.clone();
        self.desks[at].boot(&terms);
    }

    /// All seals, in the order of members, with commitments.
    pub fn seals(
        &mut self,
        frozen: &FrozenIntent,
        evaluate: impl Fn(usize) -> Evaluation,
    ) -> Vec<SealedAnswerV1> {
        (0..4)
            .map(|i| self.desks[i].packet(frozen, asked(1), evaluate(i)).unwrap())
            .collect()
    }

    /// A package that every honest member of `subset` signs: all four sealed, opened, GREEN.
    pub fn package(
        &mut self,
        frozen: &FrozenIntent,
        subset: Subset,
        evaluate: impl Fn(usize) -> Evaluation,
    ) -> SigningPackageV1 {
        let answers = self.seals(frozen, evaluate);
        let sheet = sheet_of(frozen, &answers);
        let votes = (0..4)
            .map(|i| self.desks[i].open(&sheet).unwrap())
            .collect();
        let commitments = subset
            .members()
            .iter()
            .map(|m| answers[usize::from(*m) - 1].commitments.clone().unwrap())
            .collect();
        SigningPackageV1 {
            intent_digest: frozen.digest(),
            subset,
            sheet,
            votes,
            green: self.green(frozen.digest()),
            commitments,
        }
    }
}

pub fn sheet_of(frozen: &FrozenIntent, answers: &[SealedAnswerV1]) -> SealSheetV1 {
    let mut seals: Vec<SealLine> = answers
        .iter()
        .map(|a| SealLine {
            verifier_id: a.sealed.verifier_id.clone(),
            seal: a.sealed.seal,
        })
        .collect();
    seals.sort();
    SealSheetV1 {
        intent_digest: frozen.digest(),
        seals,
    }
}

/// What a run of the coordinator's steps led to.
#[derive(Debug, Default)]
pub struct Verdicts {
    pub authorization: Option<Authorization>,
    pub abstained: Option<Abstention>,
    pub blamed: Vec<VerifierId>,
}

/// How the world behaves while steps are carried out.
pub struct Script<'a> {
    pub evaluate: &'a dyn Fn(usize) -> Evaluation,
    /// Members that never answer.
    pub down: Vec<usize>,
    /// Members that answer no package.
    pub mute: Vec<usize>,
    pub sentinel: bool,
    /// Called before each step; may crash members.
    pub before: &'a mut dyn FnMut(&mut Court, &Step),
    /// May falsify a share on its way.
    pub share: &'a mut dyn FnMut(usize, Envelope) -> Envelope,
}

impl Court {
    /// Carries out steps until nothing is left, moving the clock to the next deadline when idle.
    pub fn drive(
        &mut self,
        frozen: &FrozenIntent,
        coordinator: &mut Coordinator,
        steps: Vec<Step>,
        script: &mut Script<'_>,
    ) -> Verdicts {
        let mut queue: VecDeque<Step> = steps.into();
        let mut verdicts = Verdicts::default();
        let mut now = 0;
        loop {
            while let Some(step) = queue.pop_front() {
                (script.before)(self, &step);
                let next = self.step(frozen, coordinator, step, script, now, &mut verdicts);
                queue.extend(next);
            }
            let Some(at) = coordinator.next_timeout() else {
                return verdicts;
            };
            now = now.max(at);
            queue.extend(coordinator.handle_timeout(now));
        }
    }

    fn step(
        &mut self,
        frozen: &FrozenIntent,
        coordinator: &mut Coordinator,
        step: Step,
        script: &mut Script<'_>,
        now: u64,
        verdicts: &mut Verdicts,
    ) -> Vec<Step> {
        let is_down = |to: &VerifierId| script.down.contains(&member(to));
        let request = step.request().map(|(_, request)| request);
        let superseded =
            |s: &Step| matches!(s, Step::Open { sheet, .. } if coordinator.sheet() != Some(sheet));
        if superseded(&step) {
            return Vec::new();
        }
        let refuse = |coordinator: &mut Coordinator, to: &VerifierId, refused: &Refused| {
            coordinator.handle_refusal(to, request.unwrap(), refused.refusal(), now)
        };
        match step {
            Step::Ask { to, .. } | Step::Open { to, .. } | Step::Sign { to, .. }
                if is_down(&to) =>
            {
                Vec::new()
            }
            Step::Sign { to, .. } if script.mute.contains(&member(&to)) => Vec::new(),
            Step::Ask { to, term } => {
                let at = member(&to);
                let evaluation = (script.evaluate)(at);
                match self.desks[at].packet(frozen, asked(term), evaluation) {
                    Ok(answer) => coordinator.handle_sealed(&to, answer, now).unwrap(),
                    Err(refused) => refuse(coordinator, &to, &refused),
                }
            }
            Step::Open { to, sheet } => match self.desks[member(&to)].open(&sheet) {
                Ok(vote) => coordinator.handle_opened(&to, &vote, now).unwrap(),
                Err(Refused::AlreadyOpened(sheet)) => {
                    coordinator.handle_other_sheet(&to, *sheet, now)
                }
                Err(refused) => refuse(coordinator, &to, &refused),
            },
            Step::Sign { to, package } => {
                let at = member(&to);
                match self.desks[at].sign(&package) {
                    Ok(share) => {
                        let share = (script.share)(at, share);
                        coordinator
                            .handle_share(&to, &share, now)
                            .unwrap_or_default()
                    }
                    Err(refused) => refuse(coordinator, &to, &refused),
                }
            }
            Step::Sentinel if script.sentinel => {
                let green = self.green(frozen.digest());
                coordinator.handle_verdict(&green, now).unwrap()
            }
            Step::Sentinel => Vec::new(),
            Step::Blame(blame) => {
                verdicts.blamed.push(blame.verifier_id);
                Vec::new()
            }
            Step::Authorize(authorization) => {
                verdicts.authorization = Some(*authorization);
                Vec::new()
            }
            Step::Abstain(why) => {
                verdicts.abstained = Some(why);
                Vec::new()
            }
        }
    }

    /// One ballot by an honest coordinator.
    pub fn ballot(
        &mut self,
        frozen: &FrozenIntent,
        evaluate: &dyn Fn(usize) -> Evaluation,
        down: &[usize],
    ) -> Verdicts {
        let (mut coordinator, steps) = self.coordinator(frozen, 1);
        let mut script = Script {
            evaluate,
            down: down.to_vec(),
            mute: vec![],
            sentinel: true,
            before: &mut |_, _| {},
            share: &mut |_, share| share,
        };
        self.drive(frozen, &mut coordinator, steps, &mut script)
    }

    /// The journal takes the authorization and mints.
    pub fn accept(&mut self, authorization: Authorization) -> CapabilityId {
        match self
            .world
            .ok(RawCommand::Authorize(Box::new(authorization)))
        {
            Accepted::Authorized(capability) => capability,
            other => panic!("{other:?}"),
        }
    }
}

/// Keys that tests sign with when they play somebody hostile.
pub fn strangers() -> [u8; 2] {
    [AGENT, ACTUATOR]
}
