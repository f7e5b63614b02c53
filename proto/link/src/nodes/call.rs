//! One attempt on one node, and what may be concluded from how it ended.

use std::time::Duration;

use redlatch_proto::answer::NoAnswer;
use tonic::{Code, Request, Response, Status};

use super::CallError;
use crate::transport::{self, Failed, NotTrusted};
use crate::world;

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<T> {
    /// With an answer.
    Answer(T),
    /// The node does not lead; it may know who does. Nothing happened.
    NotLeader(Option<String>, String),
    /// With another status of the node's service.
    None(NoAnswer, String),
    /// The node and this process do not accept each other; nothing was sent.
    NotTrusted(NotTrusted),
    /// No byte of the request reached a node's service.
    NeverSent(String),
    /// The request was on its way; nothing is known.
    CutOff(String),
}

impl<T> Heard<T> {
    /// The answer, for a call that changes nothing: being cut off is no worse than not being heard.
    pub(super) fn read(self) -> Result<T, CallError> {
        match self {
            Heard::Answer(answer) => Ok(answer),
            Heard::NotLeader(_, text) | Heard::NeverSent(text) | Heard::CutOff(text) => {
                Err(CallError::Unavailable(text))
            }
            Heard::NotTrusted(reason) => Err(CallError::NotTrusted(reason)),
            Heard::None(NoAnswer::Indeterminate, text) => Err(CallError::Unavailable(text)),
            Heard::None(kind, text) => Err(error(kind, text)),
        }
    }
}

/// The error of a kind of status.
pub(super) fn error(kind: NoAnswer, text: String) -> CallError {
    match kind {
        NoAnswer::NotLeader | NoAnswer::Unavailable => CallError::Unavailable(text),
        NoAnswer::Limit => CallError::Limit(text),
        NoAnswer::Indeterminate => CallError::Indeterminate(text),
        NoAnswer::Denied => CallError::Denied(text),
        NoAnswer::Invalid => CallError::Invalid(text),
        NoAnswer::NotYet => CallError::NotYet(text),
        NoAnswer::Absent => CallError::Absent(text),
    }
}

/// Makes one call and waits for its answer at most `deadline`.
pub(super) async fn call<Q, T>(
    deadline: Duration,
    message: Q,
    call: impl AsyncFnOnce(Request<Q>) -> Result<Response<T>, Status>,
) -> Heard<T> {
    match world::timeout(deadline, call(Request::new(message))).await {
        Ok(Ok(answer)) => Heard::Answer(answer.into_inner()),
        Ok(Err(status)) => heard(&status),
        Err(world::DeadlinePassed) => Heard::CutOff("no answer in time".to_owned()),
    }
}

/// What a status says.
fn heard<T>(status: &Status) -> Heard<T> {
    let text = || status.message().to_owned();
    match NoAnswer::of(status) {
        Some(NoAnswer::NotLeader) => Heard::NotLeader(NoAnswer::leader(status), text()),
        Some(kind) => Heard::None(kind, text()),
        None => of_transport(status),
    }
}

/// A status that no service of a node wrote.
fn of_transport<T>(status: &Status) -> Heard<T> {
    let text = transport::words(status);
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => Heard::None(NoAnswer::Denied, text),
        // The service is not served there.
        Code::Unimplemented => Heard::NeverSent(text),
        _ => match transport::failed(status) {
            Failed::NotTrusted(reason) => Heard::NotTrusted(reason),
            Failed::NeverConnected => Heard::NeverSent(text),
            Failed::CutOff => Heard::CutOff(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_status_never_says_that_nothing_happened() {
        for code in [
            Code::Unavailable,
            Code::Unknown,
            Code::DeadlineExceeded,
            Code::Internal,
            Code::Cancelled,
        ] {
            let heard = heard::<()>(&Status::new(code, "transport error"));
            assert!(matches!(heard, Heard::CutOff(_)), "{code:?}");
        }
    }

    #[test]
    fn statuses_of_a_service_keep_their_kind() {
        let leader = heard::<()>(&NoAnswer::not_leader(Some("n3")));
        assert!(matches!(leader, Heard::NotLeader(Some(name), _) if name == "n3"));
        for kind in NoAnswer::ALL {
            if kind != NoAnswer::NotLeader {
                let expected = Heard::<()>::None(kind, "text".into());
                assert_eq!(heard(&kind.status("text")), expected);
            }
        }
    }
}
