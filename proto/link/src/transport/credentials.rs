//! What this process shows to others and holds others against: certificate, key, authority, pins.
//!
//! Everything is read and checked as one and swapped in as one; connections that begin after a
//! [`Credentials::reload`] use the new material, those that are open go on. A reload that fails changes
//! nothing. Session resumption is off, so no connection outlives a check it did not pass.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use redlatch_types::OrganismId;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore, SignatureScheme};

use super::{Tls, TransportError};
use crate::certificate::{End, Leaf, NotAuthorised, Pins};
use crate::file;
use crate::identity::PeerIdentity;
use crate::world;

/// This process's identity and the means to prove and to demand one. Clones share one state.
#[derive(Clone)]
pub struct Credentials(Arc<Shared>);

struct Shared {
    config: Tls,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<Material>,
}

/// One consistent set of files, checked.
pub(super) struct Material {
    pub(super) identity: PeerIdentity,
    pub(super) roots: Arc<RootCertStore>,
    pub(super) clients: Arc<dyn ClientCertVerifier>,
    pub(super) pins: Pins,
    own: Arc<CertifiedKey>,
}

impl Credentials {
    /// Reads and checks the files of a `[tls]` section.
    ///
    /// # Errors
    /// [`TransportError`] that names the key or file at fault.
    pub fn load(config: &Tls) -> Result<Credentials, TransportError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = ArcSwap::from_pointee(Material::load(config, &provider)?);
        Ok(Credentials(Arc::new(Shared {
            config: config.clone(),
            provider,
            current,
        })))
    }

    /// Reads the same files again and uses them from the next connection on.
    ///
    /// # Errors
    /// [`TransportError`], also when the new certificate names somebody else; what was in use stays in use.
    pub fn reload(&self) -> Result<(), TransportError> {
        let fresh = Material::load(&self.0.config, &self.0.provider)?;
        let before = self.identity();
        if fresh.identity != before {
            return Err(TransportError::OwnCertificate {
                path: self.0.config.certificate.clone(),
                source: NotAuthorised::WrongPeer {
                    expected: before.short(),
                    found: fresh.identity.short(),
                },
            });
        }
        self.0.current.store(Arc::new(fresh));
        Ok(())
    }

    /// Who this process is.
    pub fn identity(&self) -> PeerIdentity {
        self.0.current.load().identity.clone()
    }

    /// The organism this process belongs to.
    pub fn organism(&self) -> OrganismId {
        self.0.current.load().identity.organism
    }

    pub(super) fn material(&self) -> Arc<Material> {
        self.0.current.load_full()
    }

    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.0.provider)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Credentials")
            .field(&self.identity().to_string())
            .finish()
    }
}

impl ResolvesServerCert for Credentials {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current.load().own))
    }
}

impl ResolvesClientCert for Credentials {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current.load().own))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl Material {
    fn load(config: &Tls, provider: &Arc<CryptoProvider>) -> Result<Material, TransportError> {
        let organism = organism(config)?;
        let pins = Pins::parse(&config.pins)?;
        let roots = Arc::new(roots(set("authority", &config.authority)?)?);
        let chain = certificates("certificate", set("certificate", &config.certificate)?)?;
        let own = Arc::new(pair(config, chain, provider)?);
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
                .build()
                .map_err(|_| TransportError::NotAnAuthority {
                    path: config.authority.clone(),
                })?;
        let leaf = own_leaf(config, organism, &own, &pins)?;
        check_chain(config, &leaf, &own, &roots, &*clients, provider)?;
        Ok(Material {
            identity: leaf.identity,
            roots,
            clients,
            pins,
            own,
        })
    }
}

fn organism(config: &Tls) -> Result<OrganismId, TransportError> {
    if config.organism.is_empty() {
        return Err(TransportError::NotSet { key: "organism" });
    }
    config
        .organism
        .parse()
        .map_err(|_| TransportError::NotAnOrganism)
}

fn set<'a>(key: &'static str, path: &'a Path) -> Result<&'a Path, TransportError> {
    if path.as_os_str().is_empty() {
        Err(TransportError::NotSet { key })
    } else {
        Ok(path)
    }
}

fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let pem = file::read_file(path).map_err(|source| TransportError::File { what, source })?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(TransportError::NotPem {
            what,
            path: path.to_owned(),
        }),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TransportError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("certificate authority", path)? {
        roots
            .add(certificate)
            .map_err(|_| TransportError::NotAnAuthority {
                path: path.to_owned(),
            })?;
    }
    Ok(roots)
}

/// Certificate chain and key, if the two belong together.
fn pair(
    config: &Tls,
    chain: Vec<CertificateDer<'static>>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TransportError> {
    let path = set("key", &config.key)?;
    let pem = file::read_private(path).map_err(|source| TransportError::File {
        what: "private key",
        source,
    })?;
    let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TransportError::NotPem {
        what: "private key",
        path: path.to_owned(),
    })?;
    let key =
        provider
            .key_provider
            .load_private_key(der)
            .map_err(|_| TransportError::UnusableKey {
                path: path.to_owned(),
            })?;
    let own = CertifiedKey::new(chain, key);
    own.keys_match().map_err(|_| TransportError::KeyMismatch {
        certificate: config.certificate.clone(),
        key: path.to_owned(),
    })?;
    Ok(own)
}

/// Who this process's own certificate makes it.
fn own_leaf(
    config: &Tls,
    organism: OrganismId,
    own: &CertifiedKey,
    pins: &Pins,
) -> Result<Leaf, TransportError> {
    let path = || config.certificate.clone();
    let refuse = |source| TransportError::OwnCertificate {
        path: path(),
        source,
    };
    let der = own
        .cert
        .first()
        .map(|leaf| leaf.as_ref())
        .unwrap_or_default();
    let leaf = Leaf::parse(der).map_err(refuse)?;
    if leaf.identity.organism != organism {
        let found = leaf.identity.organism;
        return Err(TransportError::WrongOrganism {
            path: path(),
            expected: organism,
            found,
        });
    }
    // Peers would refuse a key that is not the pinned one; better said here, with the file's name.
    if pins.knows(&leaf.identity) {
        pins.check(&leaf.identity, &leaf.spki).map_err(refuse)?;
    }
    Ok(leaf)
}

/// Whether peers that trust the same authority would accept our chain now.
fn check_chain(
    config: &Tls,
    leaf: &Leaf,
    own: &CertifiedKey,
    roots: &RootCertStore,
    clients: &dyn ClientCertVerifier,
    provider: &CryptoProvider,
) -> Result<(), TransportError> {
    let path = || config.certificate.clone();
    let Some((first, rest)) = own.cert.split_first() else {
        return Err(TransportError::NotPem {
            what: "certificate",
            path: path(),
        });
    };
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_millis(world::now_unix_ms()));
    let checked = if leaf.usable_by(End::Client) {
        clients.verify_client_cert(first, rest, now).map(drop)
    } else {
        let algorithms = provider.signature_verification_algorithms.all;
        ParsedCertificate::try_from(first).and_then(|parsed| {
            rustls::client::verify_server_cert_signed_by_trust_anchor(
                &parsed, roots, rest, now, algorithms,
            )
        })
    };
    use CertificateError as C;
    match checked {
        Ok(()) => Ok(()),
        Err(rustls::Error::InvalidCertificate(C::Expired | C::ExpiredContext { .. })) => {
            Err(TransportError::OutOfValidity {
                path: path(),
                expired: true,
            })
        }
        Err(rustls::Error::InvalidCertificate(C::NotValidYet | C::NotValidYetContext { .. })) => {
            Err(TransportError::OutOfValidity {
                path: path(),
                expired: false,
            })
        }
        Err(_) => Err(TransportError::WrongAuthority { path: path() }),
    }
}
