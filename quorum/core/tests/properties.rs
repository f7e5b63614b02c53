//! Properties over random hostile schedules with crashes (FAULTS 32, 35).
//!
//! A coordinator that knows everything ever said sends packets, sheets and packages in any
//! order, and verifiers lose their memory between any two effects. Whatever happens:
//! no two released shares share a nonce commitment, each releaser approved exactly what it
//! signed, and nobody votes twice or opens two sheets.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use redlatch_ballot::messages::*;
use redlatch_ballot::verifier::Evaluation;
use redlatch_ballot::*;
use redlatch_types::records::*;
use redlatch_types::*;
use world::*;

#[derive(Debug, Clone)]
enum Act {
    /// Ask a verifier, under a term; its evaluators would now say this.
    Ask(usize, u64, bool),
    /// Ask it to open one of the sheets that the coordinator made up.
    Open(usize, usize),
    /// Ask it to sign: which subset, which of each member's issues, which sheet, which GREEN.
    Sign(usize, usize, [usize; 3], usize, usize),
    /// Lose the memory.
    Crash(usize),
}

/// An act, and after how many of its effects the verifier crashes, if it does.
type Timed = (Act, Option<usize>);

fn act() -> impl Strategy<Value = Timed> {
    let member = 0..4usize;
    let act = prop_oneof![
        4 => (member.clone(), 1..4u64, prop::bool::weighted(0.9)).prop_map(|(m, t, v)| Act::Ask(m, t, v)),
        4 => (member.clone(), 0..2usize).prop_map(|(m, s)| Act::Open(m, s)),
        6 => (member.clone(), 0..4usize, [0..8usize, 0..8, 0..8], 0..2usize, 0..2usize)
            .prop_map(|(m, s, i, sheet, g)| Act::Sign(m, s, i, sheet, g)),
        1 => member.prop_map(Act::Crash),
    ];
    (act, prop::option::weighted(0.2, 0..3usize))
}

/// What the hostile coordinator knows.
struct Known {
    frozen: FrozenIntent,
    seals: BTreeMap<usize, SealedAnswerV1>,
    issues: BTreeMap<usize, Vec<Envelope>>,
    votes: BTreeMap<usize, Envelope>,
    opened: BTreeMap<usize, BTreeSet<Digest>>,
    greens: Vec<Envelope>,
    released: Vec<(usize, SigningPackageV1, Envelope)>,
}

impl Known {
    /// The two sheets it tells: everybody it heard of, or the first three.
    fn sheet(&self, which: usize) -> Option<SealSheetV1> {
        let take = if which == 0 { 4 } else { 3 };
        let answers: Vec<_> = self.seals.values().take(take).cloned().collect();
        (answers.len() >= 3).then(|| sheet_of(&self.frozen, &answers))
    }

    fn package(
        &self,
        subset: usize,
        issues: [usize; 3],
        sheet: usize,
        green: usize,
    ) -> Option<SigningPackageV1> {
        let subset = Subset::ALL[subset];
        let sheet = self.sheet(sheet)?;
        let mut commitments = Vec::new();
        for (m, pick) in subset.members().into_iter().zip(issues) {
            let known = self.issues.get(&(usize::from(m) - 1))?;
            // The newest is what signs; older ones are tried too.
            let at = known
                .len()
                .checked_sub(1 + pick % 2 * usize::from(pick > 5))?;
            commitments.push(known[at].clone());
        }
        let votes = sheet
            .seals
            .iter()
            .filter_map(|l| self.votes.get(&member(&l.verifier_id)).cloned())
            .collect();
        Some(SigningPackageV1 {
            intent_digest: self.frozen.digest(),
            subset,
            sheet,
            votes,
            green: self.greens[green].clone(),
            commitments,
        })
    }
}

fn effects_of(
    court: &mut Court,
    known: &Known,
    act: &Act,
) -> Option<(usize, Result<Vec<VerifierEffect>, Refused>)> {
    let frozen = &known.frozen;
    let at = match act {
        Act::Ask(m, ..) | Act::Open(m, _) | Act::Sign(m, ..) | Act::Crash(m) => *m,
    };
    let desk = &mut court.desks[at];
    let stored = desk.disk.ballot(&frozen.digest());
    let stored = stored.as_ref();
    let machine = desk.machine.as_mut()?;
    let result = match act {
        Act::Crash(_) => return Some((at, Ok(Vec::new()))),
        Act::Ask(_, term, yes) => {
            let verdict = if *yes {
                VoteVerdict::Approve
            } else {
                VoteVerdict::Reject
            };
            let evaluation = Evaluation {
                verdict,
                findings_digest: Digest::of(&[u8::from(*yes)]),
            };
            match machine.handle_packet(frozen, asked(*term), stored, &mut desk.rng) {
                Ok(Next::Effects(effects)) => Ok(effects),
                Ok(Next::Evaluate) => {
                    machine.cast(frozen, evaluation, asked(*term), stored, &mut desk.rng)
                }
                Err(refused) => Err(refused),
            }
        }
        Act::Open(_, which) => machine.open(&known.sheet(*which)?, stored),
        Act::Sign(_, subset, issues, sheet, green) => {
            machine.sign(&known.package(*subset, *issues, *sheet, *green)?, stored)
        }
    };
    Some((at, result))
}

fn learn(known: &mut Known, at: usize, act: &Act, answer: Answer) {
    match answer {
        Answer::Sealed(answer) => {
            if let Some(before) = known.seals.get(&at) {
                assert_eq!(before.sealed, answer.sealed, "one vote per intent");
            }
            if let Some(commitments) = &answer.commitments {
                let issues = known.issues.entry(at).or_default();
                if issues.last() != Some(commitments) {
                    issues.push(commitments.clone());
                }
            }
            known.seals.insert(at, *answer);
        }
        Answer::Opened(vote) => {
            let Act::Open(_, which) = act else {
                panic!("only a sheet opens a vote")
            };
            let sheet = known.sheet(*which).unwrap().digest();
            let sheets = known.opened.entry(at).or_default();
            sheets.insert(sheet);
            assert_eq!(sheets.len(), 1, "one sheet per intent");
            known.votes.insert(at, vote);
        }
        Answer::Share(share) => {
            let Act::Sign(_, subset, issues, sheet, green) = act else {
                panic!("only a package gets a share")
            };
            let package = known.package(*subset, *issues, *sheet, *green).unwrap();
            known.released.push((at, package, share));
        }
    }
}

/// Runs a schedule; returns what was released.
fn run(acts: &[Timed]) -> (Court, Known) {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let greens = vec![court.green(frozen.digest()), court.green(frozen.digest())];
    let mut known = Known {
        frozen,
        seals: BTreeMap::new(),
        issues: BTreeMap::new(),
        votes: BTreeMap::new(),
        opened: BTreeMap::new(),
        greens,
        released: Vec::new(),
    };
    for (act, crash_after) in acts {
        let Some((at, result)) = effects_of(&mut court, &known, act) else {
            continue;
        };
        let mut effects = result.unwrap_or_default();
        effects.truncate(crash_after.unwrap_or(usize::MAX));
        for answer in court.desks[at].carry_out(effects) {
            learn(&mut known, at, act, answer);
        }
        if crash_after.is_some() || matches!(act, Act::Crash(_)) {
            court.crash(at);
        }
    }
    (court, known)
}

/// No two different shares of one verifier rest on one nonce (FAULTS 32).
fn no_shared_commitment(known: &Known) {
    let mut used: BTreeMap<Vec<u8>, Envelope> = BTreeMap::new();
    for (at, package, share) in &known.released {
        let of_mine = package
            .commitments
            .iter()
            .map(|c| SigningCommitmentsV1::from_canonical(&c.body.0).unwrap())
            .find(|c| c.verifier_id == name(*at))
            .unwrap();
        let pair = of_mine.for_subset(package.subset).unwrap();
        for half in [&pair.hiding, &pair.binding] {
            if let Some(before) = used.insert(half.0.clone(), share.clone()) {
                assert_eq!(before, *share, "one nonce, one share");
            }
        }
    }
}

/// A released share implies the releaser's own APPROVE for exactly that intent (FAULTS 35).
fn released_implies_approved(court: &Court, known: &Known) {
    for (at, package, _) in &known.released {
        let stored = court.desks[*at].disk.ballot(&package.intent_digest);
        let vote = VoteV1::from_canonical(&stored.unwrap().vote.body.0).unwrap();
        assert_eq!(vote.verdict, VoteVerdict::Approve);
        assert_eq!(vote.intent_digest, package.intent_digest);
        let line = package.sheet.seal_of(&name(*at));
        assert_eq!(line, Some(&Digest::of(&vote.to_canonical())));
    }
}

/// A schedule that gets as far as shares: random ones alone rarely do.
fn prelude() -> Vec<Timed> {
    let ask = (0..4).map(|m| (Act::Ask(m, 1, true), None));
    let open = (0..4).map(|m| (Act::Open(m, 0), None));
    ask.chain(open).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn fault_032_no_schedule_makes_one_nonce_serve_two_packages(
        tail in prop::collection::vec(act(), 1..40),
    ) {
        let schedule = [prelude(), tail].concat();
        let (court, known) = run(&schedule);
        no_shared_commitment(&known);
        released_implies_approved(&court, &known);
    }

    #[test]
    fn fault_035_from_nothing_no_schedule_releases_a_share_without_an_own_approval(
        schedule in prop::collection::vec(act(), 1..60),
    ) {
        let (court, known) = run(&schedule);
        no_shared_commitment(&known);
        released_implies_approved(&court, &known);
    }
}

#[test]
fn the_prelude_leads_to_shares_so_the_properties_are_not_empty() {
    let sign = (0..4).flat_map(|s| (0..4).map(move |m| Act::Sign(m, s, [0; 3], 0, 0)));
    let tail: Vec<Timed> = sign.map(|a| (a, None)).collect();
    let (court, known) = run(&[prelude(), tail].concat());
    assert_eq!(known.released.len(), 12, "each member in its three subsets");
    no_shared_commitment(&known);
    released_implies_approved(&court, &known);
}
