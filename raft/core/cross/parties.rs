//! The two judges, with one credential enrolled at both.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redlatch_journal::development::authenticator::SoftAuthenticator;
use redlatch_journal::webauthn::{Assertion, Credential, CredentialKey, verify};
use redlatch_types::Digest;
use serde_json::{Value, json};
use url::Url;
use webauthn_rs_core::WebauthnCore;
use webauthn_rs_core::proto::{
    self, COSEKeyType, CredentialV3, PublicKeyCredential, UserVerificationPolicy,
};

use crate::bent::{LAST_COUNTER, Soft};

pub(crate) const RP_ID: &str = "ops.redlatch.test";
pub(crate) const ORIGIN: &str = "https://ops.redlatch.test";

/// What an authenticator and a browser answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) data: Vec<u8>,
    pub(crate) client: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// Who accepts it, with the counter that they read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) ours: Result<u32, &'static str>,
    pub(crate) theirs: Option<u32>,
}

impl Judged {
    pub(crate) fn both(counter: u32) -> Judged {
        Judged {
            ours: Ok(counter),
            theirs: Some(counter),
        }
    }
}

/// Both relying parties, with the same credential.
pub(crate) struct Parties {
    pub(crate) core: WebauthnCore,
    pub(crate) known: proto::Credential,
    key: CredentialKey,
}

/// The relying party of others, as strict as it can be told to be.
pub(crate) fn core() -> WebauthnCore {
    let origin = Url::parse(ORIGIN).expect("a URL");
    let minute = std::time::Duration::from_secs(60);
    WebauthnCore::new_unsafe_experts_only(
        "redlatch",
        RP_ID,
        vec![origin],
        minute,
        Some(false),
        Some(false),
    )
}

/// A credential of ours, as the other one keeps it.
fn known(made: &SoftAuthenticator, key: Value) -> proto::Credential {
    let known = json!({
        "cred_id": made.credential_id(),
        "cred": key,
        "counter": LAST_COUNTER,
        "verified": true,
        "registration_policy": "required",
    });
    let known: CredentialV3 = serde_json::from_value(known).expect("a credential of theirs");
    known.into()
}

impl Parties {
    /// With what the other one enrolled.
    pub(crate) fn new(core: WebauthnCore, known: proto::Credential) -> Parties {
        let COSEKeyType::EC_EC2(point) = &known.cred.key else {
            panic!("an ES256 key: {known:?}");
        };
        let key = CredentialKey::es256(&[&[4][..], &point.x, &point.y].concat());
        Parties {
            core,
            key: key.expect("a good point"),
            known,
        }
    }

    /// With an authenticator of ours, whose last counter was [`LAST_COUNTER`].
    pub(crate) fn of_soft(n: u8) -> (Parties, Soft) {
        let made =
            SoftAuthenticator::es256(&[n + 1; 32], vec![n; 16], LAST_COUNTER).expect("a scalar");
        let cose = made.public_key().expect("a key").to_cose();
        // The layout is fixed: x after 10 bytes, y after 3 more (RFC 9053 §7.1.1).
        let (x, y) = (&cose[10..42], &cose[45..77]);
        let known = known(
            &made,
            json!({ "type_": "ES256", "key": { "EC_EC2": { "curve": "SECP256R1", "x": x, "y": y } } }),
        );
        (Parties::new(core(), known), Soft(made))
    }

    /// With an authenticator of ours whose key is an Ed25519 key.
    pub(crate) fn of_ed_dsa() -> (Parties, Soft) {
        let made = SoftAuthenticator::ed_dsa([7; 32], vec![7; 16], LAST_COUNTER);
        let key = made.public_key().expect("a key");
        // The layout is fixed: x after 10 bytes (RFC 9053 §7.2).
        let cose = key.to_cose();
        let known = known(
            &made,
            json!({ "type_": "EDDSA", "key": { "EC_OKP": { "curve": "ED25519", "x": &cose[10..42] } } }),
        );
        let parties = Parties {
            core: core(),
            known,
            key,
        };
        (parties, Soft(made))
    }

    /// Both keep the counter of an accepted answer.
    pub(crate) fn counted(&mut self, counter: u32) {
        self.known.counter = counter;
    }

    /// What both say to the same bytes.
    pub(crate) fn judge(&self, challenge: &Digest, given: &Given) -> Judged {
        Judged {
            ours: self.ours(challenge, given),
            theirs: self.theirs(challenge, given),
        }
    }

    fn ours(&self, challenge: &Digest, given: &Given) -> Result<u32, &'static str> {
        let credential = Credential {
            id: &self.known.cred_id,
            key: &self.key,
            rp_id: RP_ID,
            origins: &[ORIGIN],
            counter: self.known.counter,
            backup_eligible: self.known.backup_eligible,
        };
        let assertion = Assertion {
            credential_id: &self.known.cred_id,
            authenticator_data: &given.data,
            client_data_json: &given.client,
            signature: &given.signature,
        };
        let judged = verify(&credential, challenge, &assertion);
        judged
            .map(|it| it.counter)
            .map_err(|refused| refused.code())
    }

    fn theirs(&self, challenge: &Digest, given: &Given) -> Option<u32> {
        let required = Some(UserVerificationPolicy::Required);
        let builder = self
            .core
            .new_challenge_authenticate_builder(vec![self.known.clone()], required);
        let (_, state) = self
            .core
            .generate_challenge_authenticate(builder.ok()?)
            .ok()?;
        // It draws its own challenge; ours goes into its place.
        let mut state = serde_json::to_value(&state).expect("a state of theirs");
        state["challenge"] = URL_SAFE_NO_PAD.encode(challenge.as_bytes()).into();
        let state = serde_json::from_value(state).expect("a state of theirs");
        let id = URL_SAFE_NO_PAD.encode(&self.known.cred_id);
        let answer = json!({
            "id": id,
            "rawId": id,
            "type": "public-key",
            "response": {
                "authenticatorData": URL_SAFE_NO_PAD.encode(&given.data),
                "clientDataJSON": URL_SAFE_NO_PAD.encode(&given.client),
                "signature": URL_SAFE_NO_PAD.encode(&given.signature),
            },
        });
        let answer: PublicKeyCredential =
            serde_json::from_value(answer).expect("an answer of theirs");
        let judged = self.core.authenticate_credential(&answer, &state);
        judged.ok().map(|it| it.counter())
    }
}
