//! What can go wrong between processes before the first call, each with its own text, code and advice.

use std::net::SocketAddr;
use std::path::PathBuf;

use redlatch_types::OrganismId;

use crate::certificate::{NotAPin, NotAuthorised};
use crate::exit::{ExitCode, Fails};
use crate::file::FileError;

/// Why a process cannot listen or call.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A path or the organism is not configured.
    #[error("tls.{key} is not set")]
    NotSet {
        /// The key within `[tls]`.
        key: &'static str,
    },
    /// `tls.organism` is not an organism id.
    #[error("tls.organism is not an organism id (64 lower-case hex digits)")]
    NotAnOrganism,
    /// A pin is not a pin.
    #[error("tls.pins: {0}")]
    NotAPin(#[from] NotAPin),
    /// A file cannot be read.
    #[error("{what}: {source}")]
    File {
        /// What the file should hold.
        what: &'static str,
        /// Why it cannot be read.
        source: FileError,
    },
    /// A file holds no PEM of the right kind.
    #[error("{what}: {} holds none in PEM form", path.display())]
    NotPem {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The authority's file holds something that is no authority.
    #[error("certificate authority: {} holds a certificate that cannot be a trust anchor", path.display())]
    NotAnAuthority {
        /// The file.
        path: PathBuf,
    },
    /// This process's own certificate does not make it anybody.
    #[error("certificate {}: {source}", path.display())]
    OwnCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: NotAuthorised,
    },
    /// This process's certificate is of another organism than the one configured.
    #[error("certificate {} belongs to organism {found}, but tls.organism is {expected}", path.display())]
    WrongOrganism {
        /// The file.
        path: PathBuf,
        /// The one configured.
        expected: OrganismId,
        /// The one in the certificate.
        found: OrganismId,
    },
    /// This process's certificate does not hold now.
    #[error("certificate {} {}", path.display(), if *expired { "has expired" } else { "is not valid yet" })]
    OutOfValidity {
        /// The file.
        path: PathBuf,
        /// Expired rather than not valid yet.
        expired: bool,
    },
    /// This process's certificate was not issued by the organism's authority.
    #[error("certificate {} was not issued by the configured authority", path.display())]
    WrongAuthority {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key are not a pair.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The key is of a kind that TLS cannot use.
    #[error("the key in {} cannot be used for TLS", path.display())]
    UnusableKey {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else listens there.
    #[error("address {address} is already in use")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The system does not let this process listen there.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// An address that is for this machine alone can be reached from elsewhere.
    #[error("address {address} is not a loopback address")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// What was dialled is not an address.
    #[error("`{0}` is not host:port")]
    NotAnAddress(String),
    /// The server stopped by itself.
    #[error("the server stopped: {0}")]
    Stopped(String),
}

impl Fails for TransportError {
    fn code(&self) -> ExitCode {
        use TransportError as E;
        match self {
            E::NotSet { .. }
            | E::NotAnOrganism
            | E::NotAPin(_)
            | E::File { .. }
            | E::NotPem { .. }
            | E::NotAnAuthority { .. }
            | E::KeyMismatch { .. }
            | E::UnusableKey { .. }
            | E::NotLoopback { .. }
            | E::NotAnAddress(_) => ExitCode::Usage,
            E::OwnCertificate { .. }
            | E::WrongOrganism { .. }
            | E::OutOfValidity { .. }
            | E::WrongAuthority { .. } => ExitCode::Refused,
            E::AddressInUse { .. } => ExitCode::Unavailable,
            E::Bind { .. } | E::Stopped(_) => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        use TransportError as E;
        let hint = match self {
            E::NotSet { key } => format!(
                "set it in the file under [tls], or REDLATCH_TLS__{}",
                key.to_uppercase()
            ),
            E::File { source, .. } => return source.hint(),
            E::NotPem { .. } => "a PEM file has lines that begin with -----BEGIN".into(),
            E::WrongOrganism { .. } => {
                "use a certificate that this organism's authority issued".into()
            }
            E::OutOfValidity { .. } => {
                "issue a new certificate, or set this machine's clock".into()
            }
            E::WrongAuthority { .. } => {
                "tls.authority must be the authority that signed tls.certificate".into()
            }
            E::KeyMismatch { .. } => "tls.key must be the private key of tls.certificate".into(),
            E::AddressInUse { .. } => {
                "stop the process that listens there, or configure another port".into()
            }
            E::NotLoopback { .. } => "use 127.0.0.1 or [::1]".into(),
            _ => return None,
        };
        Some(hint)
    }
}
