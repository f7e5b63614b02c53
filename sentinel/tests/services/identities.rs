//! One certificate authority and the files of everybody it certifies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, PublicKeyData, SanType,
};
use redlatch_link::file::{Access, replace_file};
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::{Digest, OrganismId};

/// Fixed roles, whose keys everybody pins.
const FIXED: [(Role, &str); 7] = [
    (Role::Node, "n1"),
    (Role::Node, "n2"),
    (Role::Node, "n3"),
    (Role::Node, "n4"),
    (Role::Node, "n5"),
    (Role::Sentinel, "sentinel"),
    (Role::Actuator, "actuator"),
];

pub(crate) struct Identities {
    organism: OrganismId,
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    keys: BTreeMap<String, KeyPair>,
}

impl Identities {
    pub(crate) fn new(organism: OrganismId) -> Identities {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "redlatch test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        replace_file(
            &folder.path().join("ca.pem"),
            pem.as_bytes(),
            Access::Public,
        )
        .unwrap();
        let fixed = FIXED.into_iter();
        let keys =
            fixed.map(|(role, name)| (format!("{role}/{name}"), KeyPair::generate().unwrap()));
        Identities {
            organism,
            folder,
            issuer: Issuer::new(params, key),
            keys: keys.collect(),
        }
    }

    pub(crate) fn peer(&self, role: Role, name: &str) -> PeerIdentity {
        PeerIdentity::new(self.organism, role, name).unwrap()
    }

    /// Certified credentials; a fixed role gets its pinned key.
    pub(crate) fn credentials(&self, role: Role, name: &str) -> Credentials {
        let who = self.peer(role, name);
        let stranger = KeyPair::generate().unwrap();
        let key = self.keys.get(&who.short()).unwrap_or(&stranger);
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(who.to_string().try_into().unwrap())];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let certificate = params.signed_by(key, &self.issuer).unwrap().pem();
        let place = |end: &str| -> PathBuf {
            let name = who.short().replace('/', "-");
            self.folder.path().join(format!("{name}.{end}"))
        };
        let tls = Tls {
            organism: self.organism.to_string(),
            certificate: place("pem"),
            key: place("key"),
            authority: self.folder.path().join("ca.pem"),
            pins: self
                .keys
                .iter()
                .map(|(who, key)| (who.clone(), vec![pin(key)]))
                .collect(),
        };
        replace_file(&tls.certificate, certificate.as_bytes(), Access::Public).unwrap();
        replace_file(&tls.key, key.serialize_pem().as_bytes(), Access::Private).unwrap();
        Credentials::load(&tls).unwrap()
    }
}

fn pin(key: &KeyPair) -> String {
    Digest::of(&key.subject_public_key_info()).to_string()
}
