//! Certificates for tests: those that an organism issued, and those that nobody should accept.
//!
//! The authority's key of a development organism lies in its folder, so a test can issue whatever it needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use redlatch_link::file::{self, Access};
use redlatch_link::transport::Tls;
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::OrganismId;

/// Who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, PEM.
    pub certificate: String,
}

impl Authority {
    /// The authority of a development organism.
    pub fn of(organism: &Path) -> Authority {
        let place = organism.join("authority");
        let read = |name| std::fs::read_to_string(place.join(name)).expect("made by init");
        let key = KeyPair::from_pem(&read("ca.key")).expect("a key");
        Authority {
            issuer: Issuer::new(params(), key),
            certificate: read("ca.pem"),
        }
    }

    /// An authority that nobody trusts. It calls itself as the organism's does.
    pub fn stranger() -> Authority {
        let key = KeyPair::generate().expect("a key");
        let certificate = params().self_signed(&key).expect("a certificate").pem();
        Authority {
            issuer: Issuer::new(params(), key),
            certificate,
        }
    }

    /// Issues a certificate with a key of its own into `folder`, and says how to use it against a cluster
    /// that trusts `trusted`.
    pub fn issue(
        &self,
        organism: OrganismId,
        role: Role,
        name: &str,
        folder: &Path,
        trusted: &Authority,
    ) -> Tls {
        self.sign(organism, &leaf(organism, role, name), folder, trusted)
    }

    /// As [`Authority::issue`] for its own organism, with a certificate that held in the year 2000.
    pub fn issue_expired(
        &self,
        organism: OrganismId,
        role: Role,
        name: &str,
        folder: &Path,
    ) -> Tls {
        let mut params = leaf(organism, role, name);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(organism, &params, folder, self)
    }

    fn sign(
        &self,
        organism: OrganismId,
        params: &CertificateParams,
        folder: &Path,
        trusted: &Authority,
    ) -> Tls {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let put = |name: &str, text: &str, access| {
            let path = folder.join(name);
            file::create_file(&path, text.as_bytes(), access).expect("a fresh folder");
            path
        };
        // The caller itself has to believe in its own certificate.
        let both = format!("{}{}", trusted.certificate, self.certificate);
        Tls {
            organism: organism.to_string(),
            certificate: put("tls.pem", &certificate.pem(), Access::Public),
            key: put("tls.key", &key.serialize_pem(), Access::Private),
            authority: put("ca.pem", &both, Access::Public),
            pins: BTreeMap::new(),
        }
    }
}

/// What a process's certificate says.
fn leaf(organism: OrganismId, role: Role, name: &str) -> CertificateParams {
    let identity = PeerIdentity::new(organism, role, name).expect("a name");
    let uri = identity.to_string().try_into().expect("ASCII");
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    params
}

/// The parameters with which `redlatch init --dev` makes its authority.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "redlatch development authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The certificate that `init` issued into a folder of the organism, for example `clients/agent`.
pub fn issued(organism: &Path, id: OrganismId, place: &str) -> Tls {
    let place: PathBuf = organism.join(place);
    Tls {
        organism: id.to_string(),
        certificate: place.join("tls.pem"),
        key: place.join("tls.key"),
        authority: organism.join("authority/ca.pem"),
        pins: BTreeMap::new(),
    }
}

/// The keys of an organism's fixed roles, by `role/name`.
pub fn pins(organism: &Path) -> BTreeMap<String, Vec<String>> {
    let file = organism.join("nodes/n1/node.toml");
    let text = std::fs::read_to_string(file).expect("made by init");
    let config: toml::Table = text.parse().expect("TOML");
    let pins = config["tls"]["pins"].clone();
    pins.try_into().expect("a table of lists of texts")
}
