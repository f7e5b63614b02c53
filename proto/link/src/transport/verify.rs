//! The two ends' checks of each other's certificate, inside the TLS handshake.
//!
//! Both do the same: the chain to the organism's authority, validity and signatures by rustls' own
//! verifiers, then the leaf's identity, usage, admission and pin by [`crate::certificate`]. Names of hosts
//! play no part. The material in force when the handshake happens is used.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    ServerConfig, SignatureScheme,
};

use super::Credentials;
use super::credentials::Material;
use crate::certificate::{Admission, End, Leaf, NotAuthorised};

/// The application protocol: HTTP/2 and nothing else.
const ALPN: &[u8] = b"h2";

/// TLS for a listener that admits `admission`.
pub(super) fn server_config(
    credentials: &Credentials,
    admission: Admission,
) -> Result<ServerConfig, Error> {
    let verifier = Arc::new(Verifier {
        credentials: credentials.clone(),
        admission,
    });
    let mut config = ServerConfig::builder_with_provider(credentials.provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(credentials.clone()));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// TLS for connections to one peer.
pub(super) fn client_config(
    credentials: &Credentials,
    admission: Admission,
) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(Verifier {
        credentials: credentials.clone(),
        admission,
    });
    let mut config = ClientConfig::builder_with_provider(credentials.provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(credentials.clone()));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

#[derive(Debug)]
struct Verifier {
    credentials: Credentials,
    admission: Admission,
}

impl Verifier {
    fn authorise(
        &self,
        material: &Material,
        leaf: &CertificateDer<'_>,
        end: End,
    ) -> Result<(), Error> {
        Leaf::parse(leaf)
            .and_then(|leaf| leaf.authorise(end, &self.admission, &material.pins))
            .map(drop)
            .map_err(refusal)
    }

    fn tls12(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Checked {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self
                .credentials
                .provider()
                .signature_verification_algorithms,
        )
    }

    fn tls13(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Checked {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self
                .credentials
                .provider()
                .signature_verification_algorithms,
        )
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.credentials
            .provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

type Checked = Result<HandshakeSignatureValid, Error>;

/// Authorities may share a name; then only its signature tells that another one issued a certificate.
fn of_chain(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            Error::InvalidCertificate(CertificateError::UnknownIssuer)
        }
        other => other,
    }
}

fn refusal(reason: NotAuthorised) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(reason))))
}

/// The error of a handshake, with our own refusal in place of rustls' wrapping of it.
pub(super) fn unwrapped(error: io::Error) -> io::Error {
    let reason = match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    {
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(reason)))) => {
            reason.downcast_ref::<NotAuthorised>().cloned()
        }
        _ => None,
    };
    match reason {
        Some(reason) => io::Error::new(io::ErrorKind::PermissionDenied, reason),
        None => error,
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A peer has one certificate; hints would only tell strangers who the authority is.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let material = self.credentials.material();
        let verified = material
            .clients
            .verify_client_cert(leaf, intermediates, now)
            .map_err(of_chain)?;
        self.authorise(&material, leaf, End::Client)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Checked {
        self.tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Checked {
        self.tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let material = self.credentials.material();
        let provider = self.credentials.provider();
        let parsed = ParsedCertificate::try_from(leaf)?;
        let algorithms = provider.signature_verification_algorithms.all;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &material.roots,
            intermediates,
            now,
            algorithms,
        )
        .map_err(of_chain)?;
        self.authorise(&material, leaf, End::Server)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Checked {
        self.tls12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Checked {
        self.tls13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
