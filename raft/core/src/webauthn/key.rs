//! Public keys of credentials: ES256 and EdDSA, as COSE writes them (RFC 9053 §7).
//!
//! WebAuthn asks for the canonical CBOR of a COSE key with the required parameters and no
//! others (§6.5.1.1), so each of the two kinds has exactly one layout and only the coordinates
//! vary. That layout is compared, not parsed: a compressed point, another curve, algorithm,
//! order or length, and a private part have no place in it.
//!
//! ES256 takes both signatures `(r, s)` and `(r, -s)`: authenticators make either. That a
//! stranger can turn one into the other gives them nothing, since an approval is identified by
//! its challenge, which is used up once, and never by its signature bytes. The DER encoding of
//! each is unique. Ed25519 goes through the one verification of redlatch (DESIGN D5).

use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{self, VerifyingKey};
use redlatch_types::{PublicKey, Signature, sign};

use super::AssertionRefused;

/// `{1: EC2, 3: ES256, -1: P-256, -2: x` up to the 32 bytes of x.
const ES256_X: [u8; 10] = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20];
/// `-3: y` up to the 32 bytes of y.
const ES256_Y: [u8; 3] = [0x22, 0x58, 0x20];
/// `{1: OKP, 3: EdDSA, -1: Ed25519, -2: x` up to the 32 bytes of x.
const EDDSA_X: [u8; 10] = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];

/// The bytes are no acceptable public key of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the COSE key of an ES256 or EdDSA credential with an acceptable point")]
pub struct BadCredentialKey;

/// The public key of a credential: a good point of its curve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialKey(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Es256(VerifyingKey),
    EdDsa(PublicKey),
}

impl CredentialKey {
    /// The key whose one COSE encoding `bytes` are.
    ///
    /// # Errors
    /// [`BadCredentialKey`] for any other encoding, kind or curve, and for a bad point.
    pub fn from_cose(bytes: &[u8]) -> Result<CredentialKey, BadCredentialKey> {
        if let Some(x) = bytes.strip_prefix(&EDDSA_X) {
            let x = x.try_into().map_err(|_| BadCredentialKey)?;
            return CredentialKey::ed_dsa(PublicKey(x));
        }
        let rest = bytes.strip_prefix(&ES256_X).ok_or(BadCredentialKey)?;
        let (x, rest) = rest.split_first_chunk::<32>().ok_or(BadCredentialKey)?;
        let y = rest.strip_prefix(&ES256_Y).ok_or(BadCredentialKey)?;
        CredentialKey::es256(&[&[0x04], x.as_slice(), y].concat())
    }

    /// The ES256 key of an uncompressed SEC1 point, 65 bytes.
    ///
    /// # Errors
    /// [`BadCredentialKey`] for another length or form, and if it is no point of the curve.
    pub fn es256(sec1: &[u8]) -> Result<CredentialKey, BadCredentialKey> {
        // The decoder also knows compressed, compact and identity forms.
        if sec1.len() != 65 || sec1[0] != 0x04 {
            return Err(BadCredentialKey);
        }
        let key = VerifyingKey::from_sec1_bytes(sec1).map_err(|_| BadCredentialKey)?;
        Ok(CredentialKey(Kind::Es256(key)))
    }

    /// The EdDSA key with these Ed25519 bytes.
    ///
    /// # Errors
    /// [`BadCredentialKey`] if it is no point, not canonical, or of small order (FAULTS 44).
    pub fn ed_dsa(key: PublicKey) -> Result<CredentialKey, BadCredentialKey> {
        sign::check_key(&key).map_err(|_| BadCredentialKey)?;
        Ok(CredentialKey(Kind::EdDsa(key)))
    }

    /// The one COSE encoding, as it is stored.
    pub fn to_cose(&self) -> Vec<u8> {
        match &self.0 {
            Kind::Es256(key) => {
                let point = key.to_encoded_point(false);
                // Tag, x, y: a verifying key is never the identity, which has one byte.
                let (x, y) = point.as_bytes()[1..].split_at(32);
                [&ES256_X, x, &ES256_Y, y].concat()
            }
            Kind::EdDsa(key) => [EDDSA_X.as_slice(), key.as_bytes()].concat(),
        }
    }

    /// Checks a signature as an authenticator encodes it (§6.5.5).
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), AssertionRefused> {
        let malformed = AssertionRefused::SignatureMalformed;
        let holds = match &self.0 {
            Kind::Es256(key) => {
                let read = ecdsa::Signature::from_der(signature).map_err(|_| malformed)?;
                // Whatever the decoder lets pass, only its own spelling counts.
                if read.to_der().as_bytes() != signature {
                    return Err(malformed);
                }
                key.verify(message, &read).is_ok()
            }
            Kind::EdDsa(key) => {
                let read = Signature(signature.try_into().map_err(|_| malformed)?);
                sign::verify(key, message, &read).is_ok()
            }
        };
        if holds {
            Ok(())
        } else {
            Err(AssertionRefused::BadSignature)
        }
    }
}

#[cfg(test)]
mod tests;
