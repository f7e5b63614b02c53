//! A certificate authority for tests, and the files of processes it certifies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, PublicKeyData, SanType,
};
use redlatch_link::file::{Access, replace_file};
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::{Digest, OrganismId};
use rustls::pki_types::CertificateDer;

pub(crate) fn organism() -> OrganismId {
    OrganismId(Digest([0xab; 32]))
}

pub(crate) fn peer(role: Role, name: &str) -> PeerIdentity {
    PeerIdentity::new(organism(), role, name).expect("an identity")
}

pub(crate) fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

pub(crate) fn pin(key: &KeyPair) -> String {
    Digest::of(&key.subject_public_key_info()).to_string()
}

pub(crate) fn uri(text: impl ToString) -> SanType {
    SanType::URI(text.to_string().try_into().expect("ASCII"))
}

/// What a process's certificate usually says.
pub(crate) fn leaf(names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = names;
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    params
}

/// An authority, root or below another.
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn root() -> Authority {
        Authority::new(None)
    }

    pub(crate) fn intermediate(&self) -> Authority {
        Authority::new(Some(self))
    }

    fn new(above: Option<&Authority>) -> Authority {
        let mut params = CertificateParams::default();
        // Every root has the same name: only the key tells them apart.
        let name = if above.is_some() {
            "redlatch test intermediate"
        } else {
            "redlatch test authority"
        };
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = key();
        let certificate = match above {
            Some(above) => params.signed_by(&key, &above.issuer),
            None => params.self_signed(&key),
        }
        .expect("signed");
        Authority {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn sign(&self, params: &CertificateParams, key: &KeyPair) -> rcgen::Certificate {
        params.signed_by(key, &self.issuer).expect("signed")
    }
}

/// The folder of one process's files.
pub(crate) struct Files {
    folder: tempfile::TempDir,
    pub(crate) tls: Tls,
}

impl Files {
    /// The usual files of `who`, with a key of its own.
    pub(crate) fn of(authority: &Authority, who: &PeerIdentity) -> Files {
        Files::with_key(authority, who, &key())
    }

    pub(crate) fn with_key(authority: &Authority, who: &PeerIdentity, key: &KeyPair) -> Files {
        let files = Files::empty(authority);
        files.write_certificate(&authority.sign(&leaf(vec![uri(who)]), key).pem());
        files.write_key(key);
        files
    }

    /// The authority's certificate, and names for the rest.
    pub(crate) fn empty(authority: &Authority) -> Files {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let tls = Tls {
            organism: organism().to_string(),
            certificate: at("tls.crt"),
            key: at("tls.key"),
            authority: at("authority.crt"),
            pins: BTreeMap::new(),
        };
        write(&tls.authority, authority.pem.as_bytes());
        Files { folder, tls }
    }

    pub(crate) fn write_certificate(&self, pem: &str) {
        write(&self.tls.certificate, pem.as_bytes());
    }

    pub(crate) fn write_key(&self, key: &KeyPair) {
        write(&self.tls.key, key.serialize_pem().as_bytes());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[must_use]
    pub(crate) fn pinned(mut self, holder: &str, pin: String) -> Files {
        self.tls
            .pins
            .entry(holder.to_owned())
            .or_default()
            .push(pin);
        self
    }

    pub(crate) fn load(&self) -> Credentials {
        Credentials::load(&self.tls).expect("good credentials")
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    replace_file(path, bytes, Access::Private).expect("written");
}
