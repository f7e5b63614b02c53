//! From an X.509 leaf to who it is: one URI, the right usages, the right organism, the pinned key.
//!
//! Only the leaf is looked at, and of it only the SAN URI, the extended key usages, the basic constraints
//! and the key. The subject (CN) and the serial number are never read (FAULTS 57). That the leaf was issued
//! by the organism's authority and is within its validity is checked before, by `transport::verify`.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use redlatch_types::{Digest, OrganismId};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::identity::{NotAnIdentity, PeerIdentity, Role};

/// Which end of a connection a certificate is presented by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that dialled.
    Client,
    /// The one that listens.
    Server,
}

/// Why a certificate's holder is not admitted. Never holds text chosen by the peer beyond its identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthorised {
    /// It is not one X.509 certificate.
    #[error("the certificate cannot be parsed")]
    Unparsable,
    /// It is an authority's, not a process's.
    #[error("the certificate is an authority's, not a process's")]
    Authority,
    /// It names nobody.
    #[error("the certificate has no SAN URI (the common name is never read)")]
    NoUri,
    /// It names several.
    #[error("the certificate has {0} SAN URIs instead of one")]
    ManyUris(usize),
    /// Its URI is not an identity.
    #[error("the certificate's SAN URI is not an identity: {0}")]
    NotAnIdentity(#[from] NotAnIdentity),
    /// It may not be used at this end of a connection.
    #[error("the certificate may not be used by a {}", end_name(*.0))]
    WrongUsage(End),
    /// It belongs to another organism.
    #[error("the certificate belongs to organism {found}, not {expected}")]
    WrongOrganism {
        /// Ours.
        expected: OrganismId,
        /// Theirs.
        found: OrganismId,
    },
    /// Its role is not admitted here.
    #[error("role {0} is not admitted here")]
    WrongRole(Role),
    /// It is somebody else than was dialled.
    #[error("expected {expected}, found {found}")]
    WrongPeer {
        /// Who was dialled.
        expected: String,
        /// Who answered.
        found: String,
    },
    /// A fixed role that no pin names.
    #[error("{0} has no pinned key")]
    NotPinned(String),
    /// The right name with another key.
    #[error("the key of {0} is not the pinned one")]
    WrongKey(String),
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Client => "client",
        End::Server => "server",
    }
}

/// What a leaf says about its holder, before anything is held against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Who it names.
    pub identity: PeerIdentity,
    /// SHA-256 of its SubjectPublicKeyInfo in DER.
    pub spki: Digest,
    /// From when it holds, in seconds since 1970.
    pub not_before_s: i64,
    /// Until when it holds, in seconds since 1970.
    pub not_after_s: i64,
    client: bool,
    server: bool,
}

impl Leaf {
    /// Reads a DER certificate.
    ///
    /// # Errors
    /// [`NotAuthorised`] unless it is a process's certificate with exactly one SAN URI that is an identity.
    pub fn parse(der: &[u8]) -> Result<Leaf, NotAuthorised> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|_| NotAuthorised::Unparsable)?;
        if !rest.is_empty() {
            return Err(NotAuthorised::Unparsable);
        }
        let unparsable = |_| NotAuthorised::Unparsable;
        if certificate
            .basic_constraints()
            .map_err(unparsable)?
            .is_some_and(|basic| basic.value.ca)
        {
            return Err(NotAuthorised::Authority);
        }
        let usage = certificate.extended_key_usage().map_err(unparsable)?;
        let identity = sole_uri(&certificate)?.parse::<PeerIdentity>()?;
        Ok(Leaf {
            identity,
            spki: Digest::of(certificate.public_key().raw),
            not_before_s: certificate.validity().not_before.timestamp(),
            not_after_s: certificate.validity().not_after.timestamp(),
            client: usage.as_ref().is_some_and(|usage| usage.value.client_auth),
            server: usage.as_ref().is_some_and(|usage| usage.value.server_auth),
        })
    }

    /// Whether its extended key usages name this end of a connection. None named means none.
    pub fn usable_by(&self, end: End) -> bool {
        match end {
            End::Client => self.client,
            End::Server => self.server,
        }
    }

    /// Holds the leaf against what this connection may be.
    ///
    /// # Errors
    /// [`NotAuthorised`] with the first thing that does not fit.
    pub fn authorise(
        self,
        end: End,
        admission: &Admission,
        pins: &Pins,
    ) -> Result<PeerIdentity, NotAuthorised> {
        if !self.usable_by(end) {
            return Err(NotAuthorised::WrongUsage(end));
        }
        admission.check(&self.identity)?;
        pins.check(&self.identity, &self.spki)?;
        Ok(self.identity)
    }
}

fn sole_uri<'a>(certificate: &'a X509Certificate<'_>) -> Result<&'a str, NotAuthorised> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| NotAuthorised::Unparsable)?;
    let names = names
        .map(|extension| extension.value.general_names.as_slice())
        .unwrap_or_default();
    let uris: Vec<&str> = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        })
        .collect();
    match uris.as_slice() {
        [] => Err(NotAuthorised::NoUri),
        [uri] => Ok(uri),
        many => Err(NotAuthorised::ManyUris(many.len())),
    }
}

/// Who may be at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Anybody of the organism with one of these roles. What each may call is decided per method.
    Roles {
        /// The organism.
        organism: OrganismId,
        /// The roles.
        roles: BTreeSet<Role>,
    },
    /// This one only.
    Exactly(PeerIdentity),
}

impl Admission {
    /// Whether `identity` may be at the other end.
    ///
    /// # Errors
    /// [`NotAuthorised::WrongOrganism`], [`NotAuthorised::WrongRole`] or [`NotAuthorised::WrongPeer`].
    pub fn check(&self, identity: &PeerIdentity) -> Result<(), NotAuthorised> {
        let expected = match self {
            Admission::Roles { organism, .. } => *organism,
            Admission::Exactly(peer) => peer.organism,
        };
        if identity.organism != expected {
            return Err(NotAuthorised::WrongOrganism {
                expected,
                found: identity.organism,
            });
        }
        match self {
            Admission::Roles { roles, .. } if !roles.contains(&identity.role) => {
                Err(NotAuthorised::WrongRole(identity.role))
            }
            Admission::Exactly(peer) if peer != identity => Err(NotAuthorised::WrongPeer {
                expected: peer.short(),
                found: identity.short(),
            }),
            _ => Ok(()),
        }
    }
}

/// Known keys: for each `role/name` the SHA-256 of the SubjectPublicKeyInfo its holder may use.
///
/// A holder of a fixed role without a pin is refused; for other roles a pin, where there is one, binds as
/// well. During a key change a name may have two pins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins(BTreeMap<(Role, String), BTreeSet<Digest>>);

/// A pin that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a pin: expected \"role/name\" = [\"<sha256 of the public key info, hex>\"]")]
pub struct NotAPin(pub String);

impl Pins {
    /// No pins.
    pub fn none() -> Pins {
        Pins::default()
    }

    /// Adds a pin.
    pub fn add(&mut self, role: Role, name: impl Into<String>, spki: Digest) {
        self.0.entry((role, name.into())).or_default().insert(spki);
    }

    /// Reads the `[tls.pins]` table of a configuration file.
    ///
    /// # Errors
    /// [`NotAPin`] with the first text that is none.
    pub fn parse(table: &BTreeMap<String, Vec<String>>) -> Result<Pins, NotAPin> {
        let mut pins = Pins::none();
        for (holder, keys) in table {
            let (role, name) = holder
                .split_once('/')
                .ok_or_else(|| NotAPin(holder.clone()))?;
            let role = Role::from_str(role).map_err(|_| NotAPin(holder.clone()))?;
            // A name that no identity can have would silently pin nobody.
            PeerIdentity::new(OrganismId(Digest::ZERO), role, name)
                .map_err(|_| NotAPin(holder.clone()))?;
            for key in keys {
                pins.add(role, name, key.parse().map_err(|_| NotAPin(key.clone()))?);
            }
        }
        Ok(pins)
    }

    /// Whether the holder's key is a known one.
    ///
    /// # Errors
    /// [`NotAuthorised::NotPinned`] or [`NotAuthorised::WrongKey`].
    pub fn check(&self, identity: &PeerIdentity, spki: &Digest) -> Result<(), NotAuthorised> {
        match self.0.get(&(identity.role, identity.name.clone())) {
            Some(keys) if keys.contains(spki) => Ok(()),
            Some(_) => Err(NotAuthorised::WrongKey(identity.short())),
            None if identity.role.is_fixed() => Err(NotAuthorised::NotPinned(identity.short())),
            None => Ok(()),
        }
    }

    /// Whether any key is pinned for the holder.
    pub fn knows(&self, identity: &PeerIdentity) -> bool {
        self.0.contains_key(&(identity.role, identity.name.clone()))
    }
}
