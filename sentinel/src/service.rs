//! The service `redlatch.v1.Sentinel`: which role may call what, and the way in and out.
//!
//! A call runs to its end even if its caller hangs up. Nothing is decided here.

use std::future::Future;
use std::sync::Arc;

use redlatch_link::store::Store;
use redlatch_link::{Role, server_type, transport, world};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::sentinel_server::{Sentinel, SentinelServer};
use redlatch_types::{Canonical, Refusal};
use redlatch_watch::outbox::Progress;
use tonic::{Request, Response, Status};

use crate::desk::{Desk, NoVerdict, NotObeyed, Stopped};

/// The calls of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A verdict.
    Evaluate,
    /// A stop.
    Raise,
    /// What is in the outbox.
    Outbox,
}

/// Who may make a call. Anybody else is denied.
pub(crate) const fn caller_of(call: Call) -> Role {
    match call {
        Call::Evaluate => Role::Node,
        Call::Raise | Call::Outbox => Role::Operator,
    }
}

/// Roles that may connect at all.
pub(crate) const CALLERS: [Role; 2] = [Role::Node, Role::Operator];

/// The service's handle.
pub(crate) struct SentinelService<S>(Arc<Desk<S>>);

impl<S: Store> SentinelService<S> {
    /// The tonic service.
    pub(crate) fn server(desk: Arc<Desk<S>>) -> server_type!(SentinelServer<SentinelService<S>>) {
        SentinelServer::new(SentinelService(desk))
    }
}

/// Refuses a caller whose role may not make this call.
fn allow<T>(request: &Request<T>, call: Call) -> Result<(), Status> {
    let caller = transport::caller(request)?;
    if caller.role == caller_of(call) {
        return Ok(());
    }
    let text = format!("role {} may not call {call:?}", caller.role);
    Err(NoAnswer::Denied.status(text))
}

/// Runs a call to its end, whether or not the caller waits for it.
async fn to_the_end<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Status> {
    world::spawn(call)
        .await
        .map_err(|_| NoAnswer::Unavailable.status("the call failed"))
}

fn of_silence(silence: &NoVerdict) -> Status {
    match silence {
        NoVerdict::NotProven(why) => NoAnswer::Invalid.status(why.to_string()),
        NoVerdict::Silent(_) | NoVerdict::Stopping => {
            let code = Refusal::SentinelRequired.code();
            NoAnswer::Unavailable.status(format!("{code}: {silence}"))
        }
    }
}

fn of_disobedience(why: &NotObeyed) -> Status {
    let kind = match why {
        NotObeyed::Refused {
            refusal: Refusal::Unauthorized,
            ..
        } => NoAnswer::Denied,
        NotObeyed::Refused { .. } => NoAnswer::Invalid,
        NotObeyed::Stopping => NoAnswer::Unavailable,
    };
    kind.status(why.to_string())
}

const fn word(progress: Progress) -> (&'static str, Option<u64>) {
    match progress {
        Progress::Chained => ("chained", None),
        Progress::Latched(latch) => ("latched", Some(latch.0)),
        Progress::Terminal(latch) => ("terminal", Some(latch.0)),
        Progress::Closed => ("closed", None),
    }
}

#[tonic::async_trait]
impl<S: Store> Sentinel for SentinelService<S> {
    async fn evaluate(
        &self,
        request: Request<v1::EvaluateRequest>,
    ) -> Result<Response<v1::EvaluateResponse>, Status> {
        allow(&request, Call::Evaluate)?;
        let (desk, asked) = (Arc::clone(&self.0), request.into_inner());
        let judged = async move { desk.evaluate(&asked.freeze_receipt).await };
        match to_the_end(judged).await? {
            Ok(verdict) => Ok(Response::new(v1::EvaluateResponse {
                verdict_envelope: verdict.to_canonical(),
            })),
            Err(silence) => Err(of_silence(&silence)),
        }
    }

    async fn raise(
        &self,
        request: Request<v1::RaiseRequest>,
    ) -> Result<Response<v1::RaiseResponse>, Status> {
        allow(&request, Call::Raise)?;
        let (desk, order) = (Arc::clone(&self.0), request.into_inner().order);
        let raised = async move { desk.raise(&order).await };
        match to_the_end(raised).await? {
            Ok((number, entry)) => Ok(Response::new(v1::RaiseResponse {
                outbox_epoch: number.0,
                entry: entry.map(|it| it.to_canonical()).unwrap_or_default(),
            })),
            Err(why) => Err(of_disobedience(&why)),
        }
    }

    async fn outbox(
        &self,
        request: Request<v1::OutboxRequest>,
    ) -> Result<Response<v1::OutboxResponse>, Status> {
        allow(&request, Call::Outbox)?;
        let shown = self.0.outbox().await;
        let (entries, head, health) =
            shown.map_err(|Stopped| NoAnswer::Unavailable.status("the sentinel is stopping"))?;
        let entries = entries.into_iter().map(|(entry, progress)| {
            let (progress, latch) = word(progress);
            v1::OutboxEntry {
                entry: entry.to_canonical(),
                progress: progress.to_owned(),
                latch,
            }
        });
        Ok(Response::new(v1::OutboxResponse {
            entries: entries.collect(),
            head: head.0,
            health: health.to_string(),
        }))
    }
}
