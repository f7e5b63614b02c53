//! Certificates of a test organism: one authority, one leaf per process.

use std::collections::BTreeMap;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, PublicKeyData, SanType,
};
use redlatch_link::file::{Access, replace_file};
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::{Digest, OrganismId};

/// The organism's authority and every fixed party's pin.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    organism: OrganismId,
    issuer: Issuer<'static, KeyPair>,
    keys: BTreeMap<String, KeyPair>,
}

impl Authority {
    pub(crate) fn new(organism: OrganismId, fixed: &[(Role, &str)]) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pem = certificate.pem();
        replace_file(
            &folder.path().join("ca.pem"),
            pem.as_bytes(),
            Access::Private,
        )
        .unwrap();
        let keys = fixed
            .iter()
            .map(|(role, name)| (format!("{role}/{name}"), KeyPair::generate().unwrap()))
            .collect();
        Authority {
            folder,
            organism,
            issuer: Issuer::new(params, key),
            keys,
        }
    }

    /// Certificate and key of a process.
    pub(crate) fn credentials(&self, role: Role, name: &str) -> Credentials {
        let identity = PeerIdentity::new(self.organism, role, name).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(identity.to_string().try_into().unwrap())];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let fresh = KeyPair::generate().unwrap();
        let key = self.keys.get(&identity.short()).unwrap_or(&fresh);
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        let at = |suffix: &str| self.folder.path().join(format!("{role}-{name}.{suffix}"));
        replace_file(&at("pem"), certificate.pem().as_bytes(), Access::Private).unwrap();
        replace_file(&at("key"), key.serialize_pem().as_bytes(), Access::Private).unwrap();
        let pin = |key: &KeyPair| vec![Digest::of(&key.subject_public_key_info()).to_string()];
        let pins = self.keys.iter().map(|(who, key)| (who.clone(), pin(key)));
        let tls = Tls {
            organism: self.organism.to_string(),
            certificate: at("pem"),
            key: at("key"),
            authority: self.folder.path().join("ca.pem"),
            pins: pins.collect(),
        };
        Credentials::load(&tls).unwrap()
    }
}
