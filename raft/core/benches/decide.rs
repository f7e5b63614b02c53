//! What deciding costs beside the signatures that it rests on: a landing by the quorum, from its freeze to its
//! marker. `decide` and `evolve` of the four commands against the Ed25519 verifications of the same commands,
//! in one run; the target is below 1.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use redlatch_journal::{Authority, Command, admit, decide, evolve};
use redlatch_types::command::RawCommand;
use redlatch_types::records::{AgentQuorumDecisionV1, CausalEnvelopeV1, SentinelVerdictV1, VoteV1};
use redlatch_types::sign::{preimage, verify};
use redlatch_types::{Canonical, Envelope, PublicKey, Record, Signature};
use world::*;

#[path = "../tests/world/mod.rs"]
mod world;

/// Rounds of the paired measurement.
const ROUNDS: u32 = 2_000;

/// One command, and the state in which it is decided.
struct Step {
    before: Authority,
    command: Command,
}

/// One signature with what it is over.
struct Signed {
    key: PublicKey,
    message: Vec<u8>,
    signature: Signature,
}

impl Signed {
    fn of<T: Record>(envelope: &Envelope) -> Signed {
        Signed {
            key: envelope.key,
            message: preimage(T::TYPE, &envelope.scope, &envelope.digest()),
            signature: envelope.signature,
        }
    }
}

/// The four commands of a landing with the states before them, and every signature in them.
fn landing() -> (Vec<Step>, Vec<Signed>) {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 1);
    let freeze = world.freeze_command(AGENT, "agent", &proposal);
    let mut steps = Vec::new();
    let mut signed = Vec::new();
    step(&mut world, &freeze, &mut steps);
    let digest = *world.state.authority.intents.keys().next().expect("frozen");
    let given = world.authorization(digest, &approvals());
    signed.push(Signed::of::<SentinelVerdictV1>(&given.green));
    signed.extend(given.votes.iter().map(Signed::of::<VoteV1>));
    signed.push(Signed::of::<AgentQuorumDecisionV1>(&given.decision));
    if let RawCommand::FreezeIntent(envelope, _) = &freeze {
        signed.push(Signed::of::<CausalEnvelopeV1>(envelope));
    }
    step(
        &mut world,
        &RawCommand::Authorize(Box::new(given)),
        &mut steps,
    );
    let prepare = next(&world);
    step(&mut world, &prepare, &mut steps);
    let commit = next(&world);
    step(&mut world, &commit, &mut steps);
    (steps, signed)
}

fn step(world: &mut World, command: &RawCommand, steps: &mut Vec<Step>) {
    let mut before = world.state.authority.clone();
    // As at the start of an entry.
    before.stepped.clear();
    let bytes = command.to_canonical();
    let command_admitted = admit(&bytes).expect("signed by those who may");
    world.ok(command.clone());
    steps.push(Step {
        before,
        command: command_admitted,
    });
}

/// What follows from where the landing stands.
fn next(world: &World) -> RawCommand {
    use redlatch_journal::authority::IntentStage;
    let (digest, live) = world.state.authority.intents.iter().next().expect("live");
    match &live.stage {
        IntentStage::Authorized(permit) => RawCommand::Prepare(*digest, permit.capability.id()),
        IntentStage::InTransaction(id) => RawCommand::Commit(*id),
        IntentStage::Frozen => panic!("it is authorized"),
    }
}

fn decided(mut states: Vec<Authority>, steps: &[Step]) -> Vec<Authority> {
    for (state, step) in states.iter_mut().zip(steps) {
        let outcome = decide(state, &step.command);
        assert!(outcome.reply.is_ok(), "{:?}", outcome.reply);
        for event in &outcome.events {
            evolve(state, event);
        }
    }
    states
}

fn states(steps: &[Step]) -> Vec<Authority> {
    steps.iter().map(|step| step.before.clone()).collect()
}

fn verified(signed: &[Signed]) {
    for it in signed {
        black_box(verify(&it.key, &it.message, &it.signature)).expect("they hold");
    }
}

/// Both in turns, so that whatever else the machine does meets both.
fn ratio(steps: &[Step], signed: &[Signed]) -> f64 {
    let (mut deciding, mut verifying) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        let ready = states(steps);
        let begun = Instant::now();
        let after = black_box(decided(ready, steps));
        deciding += begun.elapsed();
        drop(after);
        let begun = Instant::now();
        verified(signed);
        verifying += begun.elapsed();
    }
    deciding.as_secs_f64() / verifying.as_secs_f64()
}

fn main() {
    let (steps, signed) = landing();
    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("decide and evolve: a landing by the quorum", |it| {
        it.iter_batched(
            || states(&steps),
            |ready| decided(ready, &steps),
            BatchSize::SmallInput,
        );
    });
    let name = format!("verify: its {} Ed25519 signatures", signed.len());
    criterion.bench_function(&name, |it| it.iter(|| verified(&signed)));
    criterion.final_summary();
    println!(
        "decide and evolve cost {:.2} times its signatures",
        ratio(&steps, &signed)
    );
}
