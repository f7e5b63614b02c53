//! An authenticator and a browser of others: passkeys, as a password manager holds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use passkey_authenticator::{Authenticator, MemoryStore, UiHint, UserCheck, UserValidationMethod};
use passkey_client::{Client, DefaultClientData};
use passkey_crypto::AvailableBackend;
use passkey_types::Passkey;
use passkey_types::ctap2::{Aaguid, Ctap2Error};
use redlatch_types::Digest;
use serde::{Serialize, de::DeserializeOwned};
use url::Url;
use webauthn_rs_core::proto::{COSEAlgorithm, UserVerificationPolicy};

use crate::parties::{Given, ORIGIN, Parties, core};

/// The person before it: there, and verified if asked to be.
struct Person {
    verified: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl UserValidationMethod for Person {
    type PasskeyItem = Passkey;

    async fn check_user<'a>(
        &self,
        _hint: UiHint<'a, Passkey>,
        _presence: bool,
        _verification: bool,
    ) -> Result<UserCheck, Ctap2Error> {
        Ok(UserCheck {
            presence: true,
            verification: self.verified.load(Ordering::Relaxed),
        })
    }

    fn is_presence_enabled(&self) -> bool {
        true
    }

    fn is_verification_enabled(&self) -> Option<bool> {
        Some(true)
    }
}

type Passkeys = Client<MemoryStore, Person, AvailableBackend, public_suffix::PublicSuffixList, ()>;

pub(crate) struct Browser {
    client: Passkeys,
    verified: Arc<AtomicBool>,
}

/// From the one library's type to the other's, by the JSON that both write as browsers do.
fn by_json<T: DeserializeOwned>(value: &impl Serialize) -> T {
    let text = serde_json::to_string(value).expect("JSON");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn page() -> Url {
    Url::parse(ORIGIN).expect("a URL")
}

impl Browser {
    pub(crate) fn new() -> Browser {
        let verified = Arc::new(AtomicBool::new(true));
        let person = Person {
            verified: Arc::clone(&verified),
        };
        let store = MemoryStore::new();
        let mut authenticator =
            Authenticator::new(Aaguid::new_empty(), store, person, AvailableBackend);
        authenticator.set_make_credentials_with_signature_counter(true);
        Browser {
            client: Client::new(authenticator),
            verified,
        }
    }

    /// Draws a credential, which the relying party of others enrols after its own checks.
    pub(crate) fn enrol(&mut self) -> Parties {
        let core = core();
        let builder = core
            .new_challenge_register_builder(b"alice", "alice", "Alice")
            .expect("names");
        let builder = builder
            .user_verification_policy(UserVerificationPolicy::Required)
            .credential_algorithms(vec![COSEAlgorithm::ES256]);
        let (asked, state) = core
            .generate_challenge_register(builder)
            .expect("a question");
        let made = pollster::block_on(self.client.register(
            page(),
            by_json(&asked),
            DefaultClientData,
        ));
        let made = made.expect("a credential");
        let known = core.register_credential(&by_json(&made), &state, None);
        Parties::new(core, known.expect("enrolled"))
    }

    /// Answers a question of ours, by a person who is verified or only there.
    pub(crate) fn answer(
        &mut self,
        parties: &Parties,
        challenge: &Digest,
        verified: bool,
    ) -> Given {
        self.verified.store(verified, Ordering::Relaxed);
        let question = serde_json::json!({
            "publicKey": {
                "challenge": challenge.as_bytes(),
                "rpId": crate::parties::RP_ID,
                "allowCredentials": [{ "type": "public-key", "id": &parties.known.cred_id[..] }],
                "userVerification": if verified { "required" } else { "discouraged" },
            },
        });
        let question = serde_json::from_value(question).expect("a question of theirs");
        let answer = pollster::block_on(self.client.authenticate(
            page(),
            question,
            DefaultClientData,
        ));
        let answer = answer.expect("an answer").response;
        Given {
            data: answer.authenticator_data.to_vec(),
            client: answer.client_data_json.to_vec(),
            signature: answer.signature.to_vec(),
        }
    }
}
