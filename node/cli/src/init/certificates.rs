//! The certificate authority of a development organism and what it issues: one SAN URI, both ends, no more.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use redlatch_link::certificate::Leaf;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::{Digest, OrganismId};

/// An authority with its key.
pub(crate) struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// Makes one and writes `ca.pem` and `ca.key`.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be written.
    pub(super) fn create(folder: &Path) -> Result<Authority, Failure> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let params = params();
        let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
        file::create_private_folder(folder)?;
        let pem = certificate.pem();
        file::create_file(&folder.join("ca.pem"), pem.as_bytes(), Access::Public)?;
        let pem = key.serialize_pem();
        file::create_file(&folder.join("ca.key"), pem.as_bytes(), Access::Private)?;
        Ok(Authority(Issuer::new(params, key)))
    }

    /// The one that [`Authority::create`] made.
    ///
    /// # Errors
    /// [`Failure`] if its key cannot be read.
    pub(crate) fn open(folder: &Path) -> Result<Authority, Failure> {
        let pem = file::read_file(&folder.join("ca.key"))?;
        let key = KeyPair::from_pem(&String::from_utf8_lossy(&pem));
        let key = key.map_err(|error| failed(&error))?;
        Ok(Authority(Issuer::new(params(), key)))
    }

    /// Issues a certificate into `folder` as `tls.pem` and `tls.key`. Gives the digest of its public key
    /// info, for pins.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be written.
    pub(crate) fn issue(
        &self,
        organism: OrganismId,
        role: Role,
        name: &str,
        folder: &Path,
    ) -> Result<Digest, Failure> {
        let identity = PeerIdentity::new(organism, role, name).map_err(|error| failed(&error))?;
        let uri = identity
            .to_string()
            .try_into()
            .map_err(|error| failed(&error))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let certificate = params
            .signed_by(&key, &self.0)
            .map_err(|error| failed(&error))?;
        let leaf = Leaf::parse(certificate.der()).map_err(|error| failed(&error))?;
        file::create_private_folder(folder)?;
        let pem = certificate.pem();
        file::create_file(&folder.join("tls.pem"), pem.as_bytes(), Access::Public)?;
        let pem = key.serialize_pem();
        file::create_file(&folder.join("tls.key"), pem.as_bytes(), Access::Private)?;
        Ok(leaf.spki)
    }
}

/// What the authority's own certificate says.
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

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(
        ExitCode::Error,
        format!("no certificate could be made: {error}"),
    )
}
