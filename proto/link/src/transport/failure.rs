//! What a failed call says about the connection below it.
//!
//! ```text
//!   dial ─┬─ no connection, or one that ended early ───▶ never connected: nothing was sent, try again
//!         ├─ a certificate that one end does not accept ▶ not trusted: nothing was sent, and again helps nobody
//!         └─ the peer's first bytes of HTTP/2 ─────────▶ connected: what fails from here on is cut off
//! ```
//!
//! The three are never told apart by a text: an error that begins here keeps its type through gRPC's.

use tonic::Status;

use crate::exit::{self, ExitCode, Fails};

/// One end of a connection does not accept the certificate of the other. No byte of a request was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTrusted {
    /// The peer does not accept ours.
    #[error("{peer} does not accept this process's certificate: {reason}")]
    OurCertificate {
        /// Who was dialled, and where.
        peer: String,
        /// As much as TLS lets it say.
        reason: Rejection,
    },
    /// We do not accept the peer's.
    #[error("who answers for {peer} shows a certificate that is not accepted here: {reason}")]
    TheirCertificate {
        /// Who was dialled, and where.
        peer: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why a peer does not accept a certificate, by the alert that it ends the handshake with (RFC 8446 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Rejection {
    /// `unknown_ca`.
    #[error("it was not issued by the authority that is trusted there")]
    UnknownAuthority,
    /// `certificate_expired`.
    #[error("it has expired or is not valid yet, by the clock there")]
    OutOfValidity,
    /// `certificate_revoked`.
    #[error("it is revoked")]
    Revoked,
    /// `certificate_required`.
    #[error("none was shown")]
    Missing,
    /// `certificate_unknown`, `access_denied`: a good certificate of somebody who is not admitted.
    #[error("its organism, role or key is not admitted there")]
    NotAdmitted,
    /// Any other alert about a certificate.
    #[error("it cannot be used for this")]
    Unusable,
}

impl Fails for NotTrusted {
    fn code(&self) -> ExitCode {
        ExitCode::Refused
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            NotTrusted::OurCertificate { reason, .. } => match reason {
                Rejection::UnknownAuthority => {
                    "use a certificate of the organism that runs there, issued by its authority"
                }
                Rejection::OutOfValidity => {
                    "issue a new certificate, or set the clocks of both machines"
                }
                Rejection::Revoked => "issue a new certificate",
                Rejection::Missing | Rejection::Unusable => {
                    "tls.certificate must be a certificate for TLS clients with one SAN URI"
                }
                Rejection::NotAdmitted => {
                    "use a certificate of this organism whose role may call there; the key of a fixed role must be the pinned one"
                }
            },
            NotTrusted::TheirCertificate { .. } => {
                "check the address; if it is right, compare its certificate with tls.authority and tls.pins"
            }
        };
        Some(hint.to_owned())
    }
}

/// What is known of a call that a peer's service did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// No byte of the request was sent, and none will be before a certificate is changed.
    NotTrusted(NotTrusted),
    /// No byte of the request was sent.
    NeverConnected,
    /// The request was on its way; nothing is known.
    CutOff,
}

/// What a status that no service wrote says about the connection.
#[cfg(not(madsim))]
pub fn failed(status: &Status) -> Failed {
    let mut failed = Failed::CutOff;
    let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(status);
    while let Some(error) = next {
        if let Some(reason) = error.downcast_ref::<NotTrusted>() {
            return Failed::NotTrusted(reason.clone());
        }
        if error.is::<tonic::ConnectError>() {
            failed = Failed::NeverConnected;
        }
        next = error.source();
    }
    failed
}

/// What a status that no service wrote says about the connection: the simulated network refuses it by this
/// word only, and has no certificates.
#[cfg(madsim)]
pub fn failed(status: &Status) -> Failed {
    if status.message().to_ascii_lowercase().contains("refused") {
        Failed::NeverConnected
    } else {
        Failed::CutOff
    }
}

/// A status's text and its sources; the status's own `Display` repeats them all.
pub fn words(status: &Status) -> String {
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

/// What the end of a handshake, or of the wait for the peer's first bytes, says about certificates.
#[cfg(not(madsim))]
pub(super) fn not_trusted(peer: &str, error: &std::io::Error) -> Option<NotTrusted> {
    use rustls::{CertificateError, Error, OtherError};

    let theirs = |reason: String| {
        Some(NotTrusted::TheirCertificate {
            peer: peer.to_owned(),
            reason,
        })
    };
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => Some(NotTrusted::OurCertificate {
            peer: peer.to_owned(),
            reason: rejection(*alert)?,
        }),
        Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) => {
            theirs(exit::chain(&**reason))
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            theirs("it was not issued by the configured authority".to_owned())
        }
        Error::InvalidCertificate(reason) => theirs(reason.to_string()),
        Error::NoCertificatesPresented => theirs("there is none".to_owned()),
        _ => None,
    }
}

#[cfg(not(madsim))]
fn rejection(alert: rustls::AlertDescription) -> Option<Rejection> {
    use rustls::AlertDescription as A;

    Some(match alert {
        A::UnknownCA => Rejection::UnknownAuthority,
        A::CertificateExpired => Rejection::OutOfValidity,
        A::CertificateRevoked => Rejection::Revoked,
        A::CertificateRequired | A::NoCertificate => Rejection::Missing,
        A::CertificateUnknown | A::AccessDenied => Rejection::NotAdmitted,
        A::BadCertificate | A::UnsupportedCertificate | A::DecryptError => Rejection::Unusable,
        _ => return None,
    })
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use std::io;

    use rustls::{AlertDescription, Error};

    use super::*;

    fn ended(error: Error) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    #[test]
    fn only_alerts_about_certificates_speak_of_ours() {
        let expired = ended(Error::AlertReceived(AlertDescription::CertificateExpired));
        let ours = not_trusted("node/n1 at h:1", &expired).expect("about a certificate");
        assert_eq!(
            ours.to_string(),
            "node/n1 at h:1 does not accept this process's certificate: it has expired or is not valid yet, by the clock there"
        );
        assert_eq!(ours.code(), ExitCode::Refused);
        let other = ended(Error::AlertReceived(AlertDescription::InternalError));
        assert_eq!(not_trusted("node/n1", &other), None);
        assert_eq!(not_trusted("node/n1", &ended(Error::DecryptError)), None);
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(not_trusted("node/n1", &reset), None);
    }

    #[test]
    fn a_bare_status_never_says_that_nothing_was_sent() {
        let status = Status::unavailable("transport error: connection refused");
        assert_eq!(failed(&status), Failed::CutOff);
    }
}
