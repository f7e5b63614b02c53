//! `redlatch bench append`: closed-loop clients over real TLS with signed commands.
//!
//! Each client freezes an intent and takes it back, in turn, so that live state stays bounded; each accepted
//! command is one append. Latency is what a client sees, from its call to the applied answer.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use hdrhistogram::Histogram;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::{Again, CallError, Nodes};
use redlatch_link::world::{self, Monotonic};
use redlatch_types::event::{Accepted, Reply};
use redlatch_types::records::{ActionPayload, GitRef, LandPayload, ProposalV1, Text, WithdrawalV1};
use redlatch_types::{Bytes, EventId, IntentDigest, Scope};

use crate::answer::Bench;
use crate::client::{Client, Signer, Stamp, random, refused};
use crate::in_force::InForce;
use crate::{Common, Done, intent, output};

/// How long a command is accepted: short, so that few first outcomes are remembered.
const COMMAND_TTL_MS: u64 = 8_000;
/// How long an intent would live that a client leaves behind.
const INTENT_TTL_MS: u64 = 60_000;
/// How often clients learn state time.
const STAMP_EVERY: Duration = Duration::from_millis(500);
/// Longest latency that is told apart, in microseconds.
const MICROS_MAX: u64 = 120_000_000;

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Appends per second and their latency.
    Append(Append),
}

#[derive(Args)]
pub(crate) struct Append {
    /// Clients at once, each with a connection of its own and one command at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    clients: u16,
    /// How long to measure.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// How long to run before measuring.
    #[arg(long, default_value_t = 2)]
    warmup: u32,
}

/// What all clients of one run share.
struct Run {
    signer: Signer,
    proposal: ProposalV1,
    scope: Scope,
    /// State time by the last signed status.
    state_time: AtomicU64,
    /// Accepted commands, warm-up included, for the progress line.
    appends: AtomicU64,
    deadline: Duration,
    measure_from: Monotonic,
    until: Monotonic,
}

/// What one client saw.
struct Seen {
    latencies: Histogram<u64>,
    errors: BTreeMap<String, u64>,
}

pub(crate) async fn run(command: &BenchCommand, common: &Common) -> Done {
    let BenchCommand::Append(arguments) = command;
    let client = Arc::new(Client::current(common, "agent").await?);
    let scope = wake(&client).await?;
    let connections: Vec<Nodes> = (0..arguments.clients)
        .map(|_| client.another_connection())
        .collect::<Result<_, _>>()?;
    let run = Arc::new(prepare(&client, scope, arguments).await?);
    run.learn_time(&client).await?;
    let stamping = world::spawn(keep_time(Arc::clone(&client), Arc::clone(&run)));
    let showing = world::spawn(progress(
        Arc::clone(&run),
        u64::from(arguments.warmup) + u64::from(arguments.seconds),
    ));
    let clients: Vec<_> = connections
        .into_iter()
        .map(|nodes| world::spawn(closed_loop(nodes, Arc::clone(&run))))
        .collect();
    let mut all = Seen::new()?;
    for client in clients {
        let seen = client
            .await
            .map_err(|error| Failure::new(ExitCode::Error, format!("a client stopped: {error}")))?;
        all.add(&seen?)?;
    }
    stamping.abort();
    showing.abort();
    let report = all.report(arguments);
    output::print(common.output, &report, text)?;
    Ok(u8::from(report.appends.0 == 0))
}

/// One freeze and its withdrawal: state time moves on, and everything that is refused is refused now.
async fn wake(client: &Client) -> Result<Scope, Failure> {
    let (signer, in_force) = client.signer().await?;
    let mut proposal = intent::proposal(&signer, &in_force, land(&in_force)?, None)?;
    let mut scope = None;
    let submitted = {
        let event = EventId(random());
        let freeze = client.submit_stamped(&signer, event, COMMAND_TTL_MS, |stamp| {
            scope = Some(stamp.scope);
            proposal.expires_at = stamp.state_time + COMMAND_TTL_MS;
            signer.freeze(stamp, event, &proposal)
        });
        freeze.await?
    };
    let Accepted::Frozen(digest) = submitted.accepted().map_err(refused)? else {
        return Err(Failure::new(
            ExitCode::Error,
            "a freeze was answered as something else",
        ));
    };
    let event = EventId(random());
    let withdrawal = withdrawal(digest);
    client
        .submit_stamped(&signer, event, COMMAND_TTL_MS, |stamp| {
            signer.withdraw(stamp, event, &withdrawal)
        })
        .await?
        .accepted()
        .map_err(refused)?;
    scope.ok_or_else(|| Failure::new(ExitCode::Error, "no command was stamped"))
}

async fn prepare(client: &Client, scope: Scope, arguments: &Append) -> Result<Run, Failure> {
    let (signer, in_force) = client.signer().await?;
    let proposal = intent::proposal(&signer, &in_force, land(&in_force)?, None)?;
    let begun = Monotonic::now();
    let measure_from = begun.plus(Duration::from_secs(arguments.warmup.into()));
    Ok(Run {
        signer,
        proposal,
        scope,
        state_time: AtomicU64::new(0),
        appends: AtomicU64::new(0),
        deadline: client.deadline,
        measure_from,
        until: measure_from.plus(Duration::from_secs(arguments.seconds.into())),
    })
}

/// A landing that nobody will decide on, in the repository of the subject's grant.
fn land(in_force: &InForce) -> Result<ActionPayload, Failure> {
    let scopes = in_force.grants.iter();
    let scope = scopes
        .flat_map(|(grant, _)| &grant.resource_environment_scope)
        .next()
        .ok_or_else(|| Failure::new(ExitCode::Refused, "the organism grants nothing"))?;
    Ok(ActionPayload::Land(LandPayload {
        resource: GitRef {
            repository: scope.repository.clone(),
            reference: Text::lossy(&format!("{}bench", scope.ref_prefix)),
        },
        old: Bytes::default(),
        new: Bytes(random().0.to_vec()),
    }))
}

fn withdrawal(intent_digest: IntentDigest) -> WithdrawalV1 {
    WithdrawalV1 {
        intent_digest,
        reason: Text::lossy("bench"),
    }
}

impl Run {
    async fn learn_time(&self, client: &Client) -> Result<(), CallError> {
        let status = client.status().await?;
        self.state_time
            .fetch_max(status.record().state_time, Ordering::Relaxed);
        Ok(())
    }

    fn stamp(&self) -> Stamp {
        let state_time = self.state_time.load(Ordering::Relaxed);
        Stamp {
            scope: self.scope,
            state_time,
            expires_at: state_time + COMMAND_TTL_MS,
        }
    }

    /// The next command of a client: takes back what is frozen, or freezes.
    fn command(&self, event: EventId, frozen: Option<IntentDigest>) -> Vec<u8> {
        let stamp = self.stamp();
        if let Some(digest) = frozen {
            return self.signer.withdraw(&stamp, event, &withdrawal(digest));
        }
        let mut proposal = self.proposal.clone();
        proposal.expires_at = stamp.state_time + INTENT_TTL_MS;
        self.signer.freeze(&stamp, event, &proposal)
    }
}

async fn keep_time(client: Arc<Client>, run: Arc<Run>) {
    loop {
        world::sleep(STAMP_EVERY).await;
        // A node that cannot answer now is asked again soon; commands live longer than that.
        let _ = run.learn_time(&client).await;
    }
}

/// One client: freeze, withdraw, freeze, …, one command at a time.
async fn closed_loop(nodes: Nodes, run: Arc<Run>) -> Result<Seen, Failure> {
    let mut seen = Seen::new()?;
    let mut frozen: Option<IntentDigest> = None;
    // Nothing is left behind: the last freeze is taken back after the end, unmeasured.
    while Monotonic::now() < run.until || frozen.is_some() {
        let event = EventId(random());
        let command = run.command(event, frozen);
        let again = Again::ByKey(run.signer.subject.subject_id.clone(), event);
        let begun = Monotonic::now();
        let answer = nodes
            .submit(&command, &again, run.deadline, Duration::ZERO)
            .await;
        let span = begun.elapsed();
        let measured = begun >= run.measure_from && begun < run.until;
        let error = match answer.map(|submitted| submitted.reply) {
            Ok(Reply::Accepted(accepted)) => {
                run.appends.fetch_add(1, Ordering::Relaxed);
                if measured {
                    seen.latency(span);
                }
                frozen = match accepted {
                    Accepted::Frozen(digest) => Some(digest),
                    _ => None,
                };
                continue;
            }
            Ok(Reply::Refused(refusal)) => refusal.code(),
            Err(error) => kind(&error),
        };
        // What could not be taken back ends by itself.
        frozen = None;
        if measured {
            *seen.errors.entry(error.to_owned()).or_default() += 1;
        }
    }
    Ok(seen)
}

fn kind(error: &CallError) -> &'static str {
    match error {
        CallError::Unavailable(_) => "unavailable",
        CallError::Limit(_) => "limit",
        CallError::Indeterminate(_) => "indeterminate",
        CallError::Denied(_) => "denied",
        CallError::NotTrusted(_) => "not_trusted",
        CallError::Invalid(_) => "invalid",
        CallError::NotYet(_) => "not_yet",
        CallError::Absent(_) => "absent",
        CallError::Misbehaved { .. } => "misbehaved",
    }
}

impl Seen {
    fn new() -> Result<Seen, Failure> {
        let latencies = Histogram::new_with_bounds(1, MICROS_MAX, 3)
            .map_err(|error| Failure::new(ExitCode::Error, format!("no histogram: {error:?}")))?;
        Ok(Seen {
            latencies,
            errors: BTreeMap::new(),
        })
    }

    fn latency(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.latencies
            .saturating_record(micros.clamp(1, MICROS_MAX));
    }

    fn add(&mut self, other: &Seen) -> Result<(), Failure> {
        self.latencies
            .add(&other.latencies)
            .map_err(|error| Failure::new(ExitCode::Error, format!("no histogram: {error:?}")))?;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }

    fn report(self, arguments: &Append) -> Bench {
        let ms = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1_000.0;
        let seconds = f64::from(arguments.seconds);
        let appends = self.latencies.len();
        // A bench does not run long enough for a count to lose precision.
        let exact = u32::try_from(appends).unwrap_or(u32::MAX);
        Bench {
            clients: arguments.clients,
            seconds: arguments.seconds,
            warmup_seconds: arguments.warmup,
            appends: appends.into(),
            appends_per_second: if seconds > 0.0 {
                f64::from(exact) / seconds
            } else {
                0.0
            },
            p50_ms: ms(self.latencies.value_at_quantile(0.5)),
            p90_ms: ms(self.latencies.value_at_quantile(0.9)),
            p99_ms: ms(self.latencies.value_at_quantile(0.99)),
            max_ms: ms(self.latencies.max()),
            errors: self
                .errors
                .into_iter()
                .map(|(kind, count)| (kind, count.into()))
                .collect(),
        }
    }
}

fn text(report: &Bench) -> String {
    let mut text = output::lines(&[
        ("clients", report.clients.to_string()),
        (
            "appends",
            format!("{} in {} s", report.appends, report.seconds),
        ),
        ("appends/s", format!("{:.1}", report.appends_per_second)),
        ("p50", format!("{:.2} ms", report.p50_ms)),
        ("p90", format!("{:.2} ms", report.p90_ms)),
        ("p99", format!("{:.2} ms", report.p99_ms)),
        ("max", format!("{:.2} ms", report.max_ms)),
    ]);
    if report.errors.is_empty() {
        text.push_str("errors     none\n");
    }
    for (kind, count) in &report.errors {
        text.push_str(&format!("errors     {kind}: {count}\n"));
    }
    text
}

/// A line on standard error that says how far it is, for people only.
async fn progress(run: Arc<Run>, seconds: u64) {
    let mut before = 0;
    for second in 1..=seconds {
        world::sleep(Duration::from_secs(1)).await;
        let appends = run.appends.load(Ordering::Relaxed);
        let mut out = std::io::stderr();
        if out.is_terminal() {
            let done = usize::try_from(second * 30 / seconds.max(1)).unwrap_or(30);
            let bar = format!("{}{}", "#".repeat(done), ".".repeat(30 - done.min(30)));
            // A terminal that is gone is no reason to stop measuring.
            let _ = write!(
                out,
                "\r[{bar}] {second}/{seconds} s  {}/s   ",
                appends - before
            );
            if second == seconds {
                let _ = writeln!(out);
            }
        }
        before = appends;
    }
}
