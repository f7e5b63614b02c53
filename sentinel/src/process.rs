//! A whole sentinel over any store: in the order in which its parts may start.
//!
//! ```text
//!   the roster's sentinel? ─▶ outbox opened under a new writer generation, durably ─▶ serve
//!     └─ not yet: the journal is followed until an act of the root names it     ─▶ beats, repeats, journal
//! ```
//!
//! Actuator and nodes are not waited for: a sentinel that runs alone takes orders and states no GREEN. Only one
//! that replaces another asks the nodes first whether the root has named it.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use redlatch_link::Role;
use redlatch_link::diagnostics::{Condition, Readiness, Registry};
use redlatch_link::follow::{Follower, Trust, until_named};
use redlatch_link::store::Store;
use redlatch_link::transport::{
    self, Credentials, Dialer, Limits, Listener, Routes, TransportError,
};
use redlatch_link::world::{self, JoinHandle, Monotonic};
use redlatch_types::policy::Policy;
use redlatch_types::records::{GenesisV1, RosterV1};
use redlatch_types::{Envelope, NodeId, Scope, Signed, SigningKey};
use redlatch_watch::beats::BeatCounter;
use redlatch_watch::outbox::{self, Corrupt, Writer};
use redlatch_watch::verdict::Identity;
use redlatch_watch::{Judge, Officers, Outbox, Rules};
use tokio::sync::{Mutex, Notify, watch};

use crate::alarm::Alarm;
use crate::courier::Couriers;
use crate::desk::{Desk, Machine, NOTHING_KNOWN, Stopped};
use crate::driver;
use crate::follow;
use crate::metrics::SentinelMetrics;
use crate::service::{CALLERS, SentinelService};
use crate::start::StartFailure;
use crate::store::{self, Stored};

/// What a sentinel is made of.
pub struct SentinelParts<S> {
    /// Its store.
    pub store: S,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// What receipts must meet.
    pub policy: Policy,
    /// Signs verdicts, REDs, beats and acknowledgements.
    pub key: SigningKey,
    /// How it judges.
    pub rules: Rules,
    /// Life of a verdict, milliseconds of state time.
    pub verdict_ttl_ms: u64,
    /// Its certificate: role sentinel, the name in the roster.
    pub credentials: Credentials,
    /// Where nodes and the safety officer connect.
    pub address: SocketAddr,
    /// `host:port` of the nodes' client listeners, by name.
    pub nodes: BTreeMap<String, String>,
    /// `host:port` of the actuator's RED listener.
    pub actuator: String,
    /// Where ids and nonces come from.
    pub rng: ChaCha20Rng,
    /// Where its numbers go.
    pub metrics: Registry,
    /// Where it says what it waits for.
    pub readiness: Readiness,
}

/// A running sentinel.
pub struct SentinelProcess {
    address: SocketAddr,
    alarm: Alarm,
    generation: u64,
    stop: watch::Sender<bool>,
    server: JoinHandle<Result<(), TransportError>>,
    tasks: Vec<JoinHandle<()>>,
}

impl SentinelProcess {
    /// Starts a sentinel.
    ///
    /// # Errors
    /// [`StartFailure`].
    pub async fn start<S: Store>(parts: SentinelParts<S>) -> Result<SentinelProcess, StartFailure> {
        let compared = parts.readiness.condition(
            "journal",
            "the outbox was not yet compared with what a majority of the nodes remembers",
        );
        let beating = parts
            .readiness
            .condition("actuator", "the actuator has not answered yet");
        let mut parts = parts;
        let genesis = own_genesis(&parts)?;
        let dialer = Dialer::new(parts.credentials.clone());
        let addresses = parts.nodes.clone();
        let begun = begin(&mut parts, &genesis, &dialer, &compared).await?;
        let listener = Listener::bind(
            parts.address,
            &parts.credentials,
            &CALLERS,
            Limits::default(),
        )
        .await?;
        let address = listener.address();
        let (desk, generation) = assemble(parts, begun, &genesis, &dialer).await?;
        let next = desk.read_to(0, false).await.map_or(0, |known| known.next);
        let trust = desk.trust().await.map_err(|Stopped| stopped())?;
        let follower = Follower::new(&dialer, &addresses, trust, next)?;
        let (stop, stopped) = watch::channel(false);
        let routes = Routes::new().service(SentinelService::server(Arc::clone(&desk)));
        let server = world::spawn(transport::serve(listener, routes, until(stopped)));
        let alarm = desk.alarm.clone();
        let tasks = vec![
            world::spawn(follow::repeat(Arc::clone(&desk))),
            world::spawn(follow::beat(Arc::clone(&desk), beating)),
            world::spawn(follow::show(Arc::clone(&desk))),
            world::spawn(follow::journal(desk, follower, compared)),
        ];
        Ok(SentinelProcess {
            address,
            alarm,
            generation,
            stop,
            server,
            tasks,
        })
    }

    /// Where nodes and the safety officer connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writer generation of the outbox.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Runs until `stop` resolves, then lets open calls finish.
    ///
    /// # Errors
    /// [`StartFailure::Fatal`] at once if the sentinel must not go on; [`StartFailure::Transport`] if the
    /// server ends by itself.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), StartFailure> {
        let ended = tokio::select! {
            biased;
            cause = self.alarm.raised() => Err(StartFailure::Fatal(cause)),
            ended = &mut self.server => Err(of_server(ended).into()),
            () = stop => Ok(()),
        };
        for task in &self.tasks {
            task.abort();
        }
        self.stop.send_replace(true);
        if ended.is_ok() {
            // A server that ended with an error while stopping has nothing left to lose.
            let _ = self.server.await;
        }
        ended
    }
}

fn stopped() -> StartFailure {
    StartFailure::setting("data", "the store failed while starting")
}

fn of_server<J: std::fmt::Display>(ended: Result<Result<(), TransportError>, J>) -> TransportError {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => TransportError::Stopped("it ended early".to_owned()),
        Err(join) => TransportError::Stopped(join.to_string()),
    }
}

/// Resolves when the flag is set, or whoever could set it is gone.
async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// The genesis, if certificate and policy are of its organism.
fn own_genesis<S>(parts: &SentinelParts<S>) -> Result<GenesisV1, StartFailure> {
    let not_signed = || StartFailure::NotAGenesis {
        path: "genesis".into(),
    };
    let signed: Signed<GenesisV1> = parts.genesis.open().map_err(|_| not_signed())?;
    let genesis = signed.record();
    let by_root = *signed.key() == genesis.kernel.pinned_external_root_key
        && *signed.scope() == genesis.scope();
    if !by_root {
        return Err(not_signed());
    }
    let identity = parts.credentials.identity();
    if identity.organism != genesis.organism_id() {
        return Err(StartFailure::WrongOrganism {
            genesis: genesis.organism_id(),
            certificate: identity.organism,
        });
    }
    if parts.policy.origin().organism != genesis.organism_id() {
        return Err(StartFailure::OtherPolicy);
    }
    if identity.role != Role::Sentinel {
        return Err(StartFailure::NotTheSentinel(identity.short()));
    }
    Ok(genesis.clone())
}

/// What a sentinel begins with: its store, and whom it believes.
struct Begun {
    stored: Stored,
    trust: Trust,
}

/// Reads the store and finds the roster that names this sentinel. A store that another one has begun is not
/// gone on with: its outbox is that one's.
async fn begin<S: Store>(
    parts: &mut SentinelParts<S>,
    genesis: &GenesisV1,
    dialer: &Dialer,
    compared: &Condition,
) -> Result<Begun, StartFailure> {
    let store = parts.store.clone();
    let stored = world::blocking(move || store::stored(&store)).await?;
    let own = parts.key.public_key();
    // A store of before it was written down is the first sentinel's.
    let owner = stored.owner.unwrap_or(genesis.roster.sentinel.key);
    if !stored.is_new && owner != own {
        return Err(StartFailure::AnothersStore);
    }
    let trust = Trust::resume(parts.policy.clone(), genesis, stored.trust.clone())
        .map_err(|error| StartFailure::setting("policy", error.to_string()))?;
    let next = trust.in_force().next;
    let mut follower = Follower::new(dialer, &parts.nodes, trust, next)?;
    let is_own = |roster: &RosterV1| roster.sentinel.key == own;
    let asks = !is_own(&follower.trust().in_force().roster);
    if asks {
        compared.unmet(
            "no roster that is known here names this key; the nodes are asked for a later one",
        );
        if !until_named(&mut follower, is_own, &mut parts.rng).await {
            return Err(StartFailure::WrongKey);
        }
    }
    let trust = follower.trust().clone();
    let identity = parts.credentials.identity();
    if identity.name != trust.in_force().roster.sentinel.name.as_str() {
        return Err(StartFailure::NotTheSentinel(identity.short()));
    }
    let (store, kept) = (parts.store.clone(), asks.then(|| trust.kept().clone()));
    world::blocking(move || store::own(&store, &own, kept.as_ref())).await?;
    Ok(Begun { stored, trust })
}

/// The machine from its store, under a new writer generation that is durable, and all beside it.
async fn assemble<S: Store>(
    parts: SentinelParts<S>,
    begun: Begun,
    genesis: &GenesisV1,
    dialer: &Dialer,
) -> Result<(Arc<Desk<S>>, u64), StartFailure> {
    let Begun { stored, trust } = begun;
    let (scope, roster) = (trust.scope(), trust.in_force().roster.clone());
    let judge = Judge::open(
        Identity {
            pin: roster.sentinel.pin_digest(),
            verdict_ttl_ms: parts.verdict_ttl_ms,
        },
        parts.rules,
        stored.judgements.iter().map(Vec::as_slice),
    )?;
    let mut effects = Vec::new();
    let outbox = open_outbox(&stored, &parts.key, scope, &roster, &mut effects);
    let generation = outbox.generation();
    let couriers = Couriers::new(dialer, &roster, &parts.nodes, &parts.actuator)?;
    let metrics = SentinelMetrics::new(&parts.metrics, couriers.targets());
    metrics.opened(generation);
    let desk = Arc::new(Desk {
        store: parts.store,
        organism: scope.organism_id,
        key: parts.key,
        couriers,
        metrics,
        alarm: Alarm::new(),
        begun: Monotonic::now(),
        machine: Mutex::new(Some(Machine {
            judge,
            outbox,
            beats: BeatCounter::default(),
            rng: parts.rng,
            known: stored.known.unwrap_or(NOTHING_KNOWN),
            latched_at: 0,
            state_time: genesis.created_at,
            trust,
            officers: Officers::resume(&genesis.subjects, stored.officers),
        })),
        rescheduled: Notify::new(),
        news: Notify::new(),
    });
    if driver::run_outbox(&desk, effects).await.is_err() {
        return Err(StartFailure::Fatal(desk.alarm.raised().await));
    }
    Ok((desk, generation))
}

/// A store in which nothing was ever written is a new sentinel's; whether there was a longer outbox, journal
/// and actuator still know (FAULTS 34). Anything else that is not a whole outbox is damage.
fn open_outbox(
    stored: &Stored,
    key: &SigningKey,
    scope: Scope,
    roster: &RosterV1,
    effects: &mut Vec<outbox::Effect>,
) -> Outbox {
    let nodes: Vec<NodeId> = roster.nodes.iter().map(|it| it.node_id).collect();
    let writer = || Writer {
        scope,
        key: SigningKey::from_seed(*key.seed()),
        nodes: nodes.clone(),
    };
    match Outbox::open(writer(), &stored.outbox, 0, effects) {
        Ok(outbox) => outbox,
        Err(Corrupt::Missing) if stored.is_new => Outbox::first(writer(), effects),
        Err(corrupt) => {
            tracing::error!(%corrupt, "the outbox is not usable");
            Outbox::after_loss(writer(), stored.generation(), effects)
        }
    }
}
