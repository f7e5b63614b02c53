//! One attempt on one node, and what may be concluded from how it ended.

use std::time::Duration;

use redlatch_proto::answer::NoAnswer;
use tonic::{Code, Request, Response, Status};

use super::CallError;
use crate::exit;
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
    let text = words(status);
    // A TLS 1.3 server judges the client's certificate after the client thinks that it is connected;
    // it reads no request before (`transport::listener`).
    if text.contains("received fatal alert") {
        return Heard::None(
            NoAnswer::Denied,
            format!("the node did not accept this certificate ({text})"),
        );
    }
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => Heard::None(NoAnswer::Denied, text),
        // The service is not served there.
        Code::Unimplemented => Heard::NeverSent(text),
        _ if never_connected(status) => Heard::NeverSent(text),
        _ => Heard::CutOff(text),
    }
}

/// The status's text and its sources; the status's own `Display` repeats them all.
fn words(status: &Status) -> String {
    let mut text = status.message().to_owned();
    if let Some(source) = std::error::Error::source(status) {
        let more = exit::chain(source);
        if more.contains(&text) {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// Whether the connection itself failed.
#[cfg(not(madsim))]
fn never_connected(status: &Status) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(status);
    while let Some(error) = next {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the connection itself failed: the simulated network says so by these kinds only.
#[cfg(madsim)]
fn never_connected(status: &Status) -> bool {
    let text = status.message().to_ascii_lowercase();
    text.contains("refused")
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
