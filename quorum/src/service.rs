//! The service `redlatch.v1.Verifier`: which role may call what, and the way in and out.
//!
//! A call runs to its end even if its caller hangs up: a vote half cast would be a vote nobody hears of
//! (FAULTS 30). Nothing is decided here.

use std::future::Future;
use std::sync::Arc;

use redlatch_ballot::verifier::Answer;
use redlatch_link::store::Store;
use redlatch_link::{PeerIdentity, Role, server_type, transport, world};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::verifier_server::{Verifier, VerifierServer};
use redlatch_types::{Canonical, Digest, Refusal};
use tonic::{Request, Response, Status};

use crate::ceremony::Conductor;
use crate::fellows::Boots;
use crate::signer::{NoVote, Signer};

/// The calls of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// What the verifier is ready for.
    Key,
    /// A sealed vote.
    Ballot,
    /// An opened vote.
    Open,
    /// A signature share.
    Sign,
    /// Findings.
    Findings,
    /// A fellow's boot.
    Boot,
    /// A ceremony message.
    Ceremony,
}

/// Who may make a call. Anybody else is denied.
pub(crate) const fn caller_of(call: Call) -> Role {
    match call {
        Call::Key | Call::Ballot | Call::Open | Call::Sign | Call::Findings => Role::Node,
        Call::Boot | Call::Ceremony => Role::Verifier,
    }
}

/// Roles that may connect at all.
pub(crate) const CALLERS: [Role; 2] = [Role::Node, Role::Verifier];

/// What the handlers share.
pub(crate) struct Desk<S> {
    pub(crate) name: String,
    pub(crate) signer: Arc<Signer<S>>,
    pub(crate) conductor: Arc<Conductor<S>>,
    pub(crate) boots: Arc<Boots<S>>,
}

/// The service's handle.
pub(crate) struct VerifierService<S>(Arc<Desk<S>>);

impl<S: Store> VerifierService<S> {
    /// The tonic service.
    pub(crate) fn server(desk: Arc<Desk<S>>) -> server_type!(VerifierServer<VerifierService<S>>) {
        VerifierServer::new(VerifierService(desk))
    }
}

/// The caller, if its role may make this call.
fn allow<T>(request: &Request<T>, call: Call) -> Result<PeerIdentity, Status> {
    let caller = transport::caller(request)?;
    if caller.role == caller_of(call) {
        return Ok(caller);
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

/// What the machine said, for the wire.
fn answer(said: Result<Answer, NoVote>) -> Result<v1::VoterAnswer, Status> {
    use v1::voter_answer::Result as Wire;
    let (result, opened) = match said {
        Ok(Answer::Sealed(sealed)) => (Wire::Answer(sealed.to_canonical()), None),
        Ok(Answer::Opened(envelope) | Answer::Share(envelope)) => {
            (Wire::Answer(envelope.to_canonical()), None)
        }
        Err(NoVote::Refused(refusal, opened)) => (Wire::Refusal(refusal.code().to_owned()), opened),
        Err(NoVote::Unavailable(why)) => return Err(NoAnswer::Unavailable.status(why)),
    };
    Ok(v1::VoterAnswer {
        result: Some(result),
        opened_sheet: opened.map(|sheet| sheet.to_canonical()),
    })
}

#[tonic::async_trait]
impl<S: Store> Verifier for VerifierService<S> {
    async fn key(
        &self,
        request: Request<v1::KeyRequest>,
    ) -> Result<Response<v1::KeyResponse>, Status> {
        allow(&request, Call::Key)?;
        let package = self.0.signer.public_key_package().await;
        Ok(Response::new(v1::KeyResponse {
            verifier: self.0.name.clone(),
            public_key_package: package.map(|it| it.to_canonical()),
            can_sign: self.0.signer.can_sign().await,
        }))
    }

    async fn ballot(
        &self,
        request: Request<v1::BallotRequest>,
    ) -> Result<Response<v1::VoterAnswer>, Status> {
        allow(&request, Call::Ballot)?;
        let (signer, asked) = (Arc::clone(&self.0.signer), request.into_inner());
        let vote = async move { signer.ballot(&asked.packet, &asked.freeze_receipt).await };
        answer(to_the_end(vote).await?).map(Response::new)
    }

    async fn open(
        &self,
        request: Request<v1::OpenRequest>,
    ) -> Result<Response<v1::VoterAnswer>, Status> {
        allow(&request, Call::Open)?;
        let (signer, asked) = (Arc::clone(&self.0.signer), request.into_inner());
        let open = async move { signer.open(&asked.sheet).await };
        answer(to_the_end(open).await?).map(Response::new)
    }

    async fn sign(
        &self,
        request: Request<v1::SignRequest>,
    ) -> Result<Response<v1::VoterAnswer>, Status> {
        allow(&request, Call::Sign)?;
        let (signer, asked) = (Arc::clone(&self.0.signer), request.into_inner());
        let sign = async move { signer.sign(&asked.package).await };
        answer(to_the_end(sign).await?).map(Response::new)
    }

    async fn findings(
        &self,
        request: Request<v1::FindingsRequest>,
    ) -> Result<Response<v1::FindingsResponse>, Status> {
        allow(&request, Call::Findings)?;
        let bytes = request.into_inner().digest;
        let digest = bytes.try_into().map(Digest);
        let digest = digest.map_err(|_| NoAnswer::Invalid.status("a digest is 32 bytes"))?;
        let found = self.0.signer.findings(digest).await;
        let found = found.map_err(|_| NoAnswer::Unavailable.status("the store has failed"))?;
        Ok(Response::new(v1::FindingsResponse {
            findings: found.map(|it| it.to_canonical()),
        }))
    }

    async fn boot(
        &self,
        request: Request<v1::BootRequest>,
    ) -> Result<Response<v1::BootResponse>, Status> {
        allow(&request, Call::Boot)?;
        let (boots, claim) = (Arc::clone(&self.0.boots), request.into_inner().claim);
        let heard = async move { boots.heard(&claim).await };
        match to_the_end(heard).await? {
            Ok(remembered) => Ok(Response::new(remembered)),
            Err(refusal) => Err(NoAnswer::Invalid.status(refusal.to_string())),
        }
    }

    async fn ceremony(
        &self,
        request: Request<v1::CeremonyRequest>,
    ) -> Result<Response<v1::CeremonyResponse>, Status> {
        allow(&request, Call::Ceremony)?;
        let conductor = Arc::clone(&self.0.conductor);
        let message = request.into_inner().message;
        let Some(message) = message else {
            return Err(NoAnswer::Invalid.status("no message"));
        };
        let handled = async move { conductor.heard(message).await };
        let refusal = to_the_end(handled).await?.err();
        Ok(Response::new(v1::CeremonyResponse {
            refusal: refusal.map(|it: Refusal| it.code().to_owned()),
        }))
    }
}
