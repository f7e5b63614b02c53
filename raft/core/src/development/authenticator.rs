//! An authenticator made of software, for development and tests.
//!
//! It answers as a browser with a security key would, from a key that is given to it. It shows
//! nothing to anybody and verifies nobody: `user verified` in its answers is a lie that only a
//! development organism may believe. Production enrols keys that never leave their hardware.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Signer as _;
use redlatch_types::records::{ActionClass, AttestationClass, HumanKeyV1, Text};
use redlatch_types::{Bytes, Digest, SigningKey, SubjectId};

use crate::webauthn::{Assertion, BadCredentialKey, CredentialKey};

/// User present and user verified.
const PRESENT_AND_VERIFIED: u8 = 0x05;

/// A credential with its private key. Both kinds of signature are deterministic.
#[derive(Debug)]
pub struct SoftAuthenticator {
    credential_id: Vec<u8>,
    secret: Secret,
    counter: u32,
}

/// Neither prints nor outlives its use: both keys erase themselves.
#[derive(Debug)]
enum Secret {
    Es256(p256::ecdsa::SigningKey),
    EdDsa(SigningKey),
}

/// The secret is zero or not below the order of P-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a P-256 private key")]
pub struct BadSecret;

/// An answer of a [`SoftAuthenticator`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftAssertion {
    /// Which credential signed.
    pub credential_id: Vec<u8>,
    /// The authenticator's statement.
    pub authenticator_data: Vec<u8>,
    /// The browser's statement.
    pub client_data_json: Vec<u8>,
    /// Over both.
    pub signature: Vec<u8>,
}

impl SoftAssertion {
    /// As [`crate::webauthn::verify`] takes it.
    pub fn as_assertion(&self) -> Assertion<'_> {
        Assertion {
            credential_id: &self.credential_id,
            authenticator_data: &self.authenticator_data,
            client_data_json: &self.client_data_json,
            signature: &self.signature,
        }
    }
}

impl SoftAuthenticator {
    /// An ES256 credential whose private scalar is `secret`, big-endian. The first assertion
    /// counts `counter + 1`.
    ///
    /// # Errors
    /// [`BadSecret`] if there is no such scalar.
    pub fn es256(
        secret: &[u8; 32],
        credential_id: Vec<u8>,
        counter: u32,
    ) -> Result<SoftAuthenticator, BadSecret> {
        let key = p256::ecdsa::SigningKey::from_bytes(secret.into()).map_err(|_| BadSecret)?;
        Ok(SoftAuthenticator {
            credential_id,
            secret: Secret::Es256(key),
            counter,
        })
    }

    /// An EdDSA credential of an RFC 8032 seed. The first assertion counts `counter + 1`.
    pub fn ed_dsa(seed: [u8; 32], credential_id: Vec<u8>, counter: u32) -> SoftAuthenticator {
        SoftAuthenticator {
            credential_id,
            secret: Secret::EdDsa(SigningKey::from_seed(seed)),
            counter,
        }
    }

    /// The record that enrols it for a person, for every action.
    ///
    /// # Errors
    /// [`BadCredentialKey`] if the public half is no point.
    pub fn enrolled(
        &self,
        person: SubjectId,
        created_at: u64,
    ) -> Result<HumanKeyV1, BadCredentialKey> {
        Ok(HumanKeyV1 {
            subject_id: person,
            credential_id: Bytes(self.credential_id.clone()),
            public_key: Bytes(self.public_key()?.to_cose()),
            platform: Text::lossy("development"),
            attestation_class: AttestationClass::Software,
            app_host_identity: Text::lossy("an authenticator in a file"),
            enrollment_evidence: Digest::of(b"made of software"),
            scopes: ActionClass::ALL.to_vec(),
            created_at,
            rotated_at_optional: None,
            revoked_at_optional: None,
            counter: self.counter,
            backup_eligible: false,
        })
    }

    /// The id of the credential.
    pub fn credential_id(&self) -> &[u8] {
        &self.credential_id
    }

    /// The counter of the last assertion.
    pub fn counter(&self) -> u32 {
        self.counter
    }

    /// The public half, as it is enrolled.
    ///
    /// # Errors
    /// None that a key made here can have; the type is the enrolment's.
    pub fn public_key(&self) -> Result<CredentialKey, BadCredentialKey> {
        match &self.secret {
            Secret::Es256(key) => {
                CredentialKey::es256(key.verifying_key().to_encoded_point(false).as_bytes())
            }
            Secret::EdDsa(key) => CredentialKey::ed_dsa(key.public_key()),
        }
    }

    /// Answers `challenge` for `rp_id` on a page of `origin`, and counts.
    pub fn assert(&mut self, rp_id: &str, origin: &str, challenge: &Digest) -> SoftAssertion {
        self.counter = self.counter.saturating_add(1);
        let mut data = Digest::of(rp_id.as_bytes()).as_bytes().to_vec();
        data.push(PRESENT_AND_VERIFIED);
        data.extend_from_slice(&self.counter.to_be_bytes());
        self.sign(data, client_data(origin, challenge))
    }

    /// Signs whatever statements it is given, true or not: a hostile authenticator.
    pub fn sign(&self, authenticator_data: Vec<u8>, client_data_json: Vec<u8>) -> SoftAssertion {
        let client_data_hash = Digest::of(&client_data_json);
        let message = [authenticator_data.as_slice(), client_data_hash.as_bytes()].concat();
        let signature = match &self.secret {
            Secret::Es256(key) => {
                let signature: p256::ecdsa::DerSignature = key.sign(&message);
                signature.as_bytes().to_vec()
            }
            Secret::EdDsa(key) => key.sign(&message).0.to_vec(),
        };
        SoftAssertion {
            credential_id: self.credential_id.clone(),
            authenticator_data,
            client_data_json,
            signature,
        }
    }
}

/// clientDataJSON as every browser spells it (WebAuthn §5.8.1.1).
pub fn client_data(origin: &str, challenge: &Digest) -> Vec<u8> {
    let challenge = URL_SAFE_NO_PAD.encode(challenge.as_bytes());
    let origin: String = origin.chars().map(escaped).collect();
    format!(
        r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#
    )
    .into_bytes()
}

/// One character inside a JSON string, as §5.8.1.1 writes it.
fn escaped(character: char) -> String {
    match character {
        '"' | '\\' => format!("\\{character}"),
        '\0'..='\u{1f}' => format!("\\u{:04x}", u32::from(character)),
        _ => character.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webauthn::{Credential, verify};

    const RP_ID: &str = "ops.redlatch.test";

    fn accepted(mut authenticator: SoftAuthenticator, origin: &str) {
        let key = authenticator.public_key().unwrap();
        let id = authenticator.credential_id().to_vec();
        let challenge = Digest::of(b"a challenge");
        for counter in [8, 9] {
            let answer = authenticator.assert(RP_ID, origin, &challenge);
            let credential = Credential {
                id: &id,
                key: &key,
                rp_id: RP_ID,
                origins: &[origin],
                counter: counter - 1,
                backup_eligible: false,
            };
            let verified = verify(&credential, &challenge, &answer.as_assertion()).unwrap();
            assert_eq!(verified.counter, counter);
            assert_eq!(authenticator.counter(), counter);
        }
    }

    #[test]
    fn its_answers_are_accepted() {
        let origin = "https://ops.redlatch.test";
        accepted(
            SoftAuthenticator::es256(&[7; 32], vec![1], 7).unwrap(),
            origin,
        );
        accepted(SoftAuthenticator::ed_dsa([7; 32], vec![2], 7), origin);
        accepted(
            SoftAuthenticator::ed_dsa([7; 32], vec![2], 7),
            "a\"\\\n\u{1f}é",
        );
    }

    #[test]
    fn a_scalar_outside_of_the_group_is_refused() {
        for secret in [[0; 32], [0xff; 32]] {
            let made = SoftAuthenticator::es256(&secret, vec![1], 0);
            assert_eq!(made.err(), Some(BadSecret));
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let printed = format!(
            "{:?} {:?}",
            SoftAuthenticator::es256(&[0xab; 32], vec![1], 0),
            SoftAuthenticator::ed_dsa([0xab; 32], vec![1], 0),
        );
        assert!(
            !printed.contains("abab") && !printed.contains("171, 171"),
            "{printed}"
        );
    }
}
