//! Exit codes and the shape of a failure a person reads: what went wrong, and what to do next.
//!
//! A process decides its code in exactly one place, `main`, by turning an error into a [`Failure`].
//! Libraries never exit and never print.

use std::fmt;
use std::io::Write;

/// How a process ends (DESIGN §11). The numbers are a public contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// Done.
    Ok = 0,
    /// It failed, and none of the more precise codes applies.
    Error = 1,
    /// The command line or the configuration is wrong; nothing was tried.
    Usage = 2,
    /// The organism said no, or a peer was not authorised; nothing happened.
    Refused = 3,
    /// Nobody able to answer was reached, or a needed resource is taken; nothing happened, a retry is safe.
    Unavailable = 4,
    /// It may or may not have happened: ask by idempotency key before trying again.
    Indeterminate = 5,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}

/// An error as it leaves the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The process's exit code.
    pub code: ExitCode,
    /// One sentence: what failed, with the names involved.
    pub text: String,
    /// One sentence: what the reader can do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without advice.
    pub fn new(code: ExitCode, text: impl Into<String>) -> Failure {
        Failure {
            code,
            text: text.into(),
            hint: None,
        }
    }

    /// The same failure with a line of advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Prints the failure to standard error and gives the code to return from `main`.
    ///
    /// A closed standard error does not change the exit code.
    pub fn report(&self) -> std::process::ExitCode {
        let _ = writeln!(std::io::stderr().lock(), "{self}");
        self.code.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.text)?;
        match &self.hint {
            Some(hint) => write!(f, "\n hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Errors that know how they end a process.
pub trait Fails: std::error::Error {
    /// The exit code for this error.
    fn code(&self) -> ExitCode {
        ExitCode::Error
    }

    /// What the reader can do about it.
    fn hint(&self) -> Option<String> {
        None
    }

    /// This error as a failure: its text is the error and all its sources, colon-separated.
    fn failure(&self) -> Failure
    where
        Self: Sized,
    {
        Failure {
            code: self.code(),
            text: chain(self),
            hint: self.hint(),
        }
    }
}

impl<E: Fails> From<E> for Failure {
    fn from(error: E) -> Failure {
        error.failure()
    }
}

/// An error followed by its sources; a source whose text is already part of what stands before it is left out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("port 7100 is taken")]
    struct Taken(#[source] std::io::Error);

    impl Fails for Taken {
        fn code(&self) -> ExitCode {
            ExitCode::Unavailable
        }
        fn hint(&self) -> Option<String> {
            Some("stop the other process".into())
        }
    }

    #[test]
    fn codes_are_the_published_numbers() {
        let all = [
            ExitCode::Ok,
            ExitCode::Error,
            ExitCode::Usage,
            ExitCode::Refused,
            ExitCode::Unavailable,
            ExitCode::Indeterminate,
        ];
        assert_eq!(all.map(|code| code as u8), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn failure_carries_code_sources_and_hint() {
        let failure = Failure::from(Taken(std::io::Error::other("EADDRINUSE")));
        assert_eq!(failure.code, ExitCode::Unavailable);
        assert_eq!(
            failure.to_string(),
            "error: port 7100 is taken: EADDRINUSE\n hint: stop the other process"
        );
    }
}
