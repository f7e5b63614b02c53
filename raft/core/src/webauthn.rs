//! The check of a WebAuthn assertion: a person, present and verified, signed one challenge.
//!
//! ```text
//!   clientDataJSON ──json──▶ type, challenge, origin ──┐
//!   authenticatorData ─────▶ rpIdHash, flags, counter ─┼─▶ Verified | AssertionRefused
//!   signature ──CredentialKey── over both ─────────────┘
//! ```
//!
//! These are the steps of W3C Web Authentication Level 3 §7.2 for one enrolled [`Credential`],
//! and stricter wherever the specification leaves a choice (ADR 0009): user verification is
//! required, no frame of another site may have asked, names in the client data are unique,
//! CBOR is canonical, and what is reserved is refused.
//!
//! The challenge that counts is the one inside the signed bytes (FAULTS 64); the caller says
//! which one it must be ([`challenge()`]), and makes its use single. Nothing here knows state,
//! time or chance, and nothing here enrols a credential.

mod authenticator_data;
mod canonical_cbor;
mod challenge;
mod client_data;
mod json;
mod key;

use redlatch_types::Digest;

pub use challenge::challenge;
pub use key::{BadCredentialKey, CredentialKey};

use authenticator_data::AuthenticatorData;

/// Longest credential id (WebAuthn §4, *Credential ID*).
pub const CREDENTIAL_ID_LEN_MAX: usize = 1_023;
/// Longest clientDataJSON that is read.
pub const CLIENT_DATA_LEN_MAX: usize = 4_096;
/// Longest authenticatorData that is read; without extensions it has 37 bytes.
pub const AUTHENTICATOR_DATA_LEN_MAX: usize = 1_024;

/// An enrolled credential of one person, as state knows it.
#[derive(Debug, Clone, Copy)]
pub struct Credential<'a> {
    /// The id that the authenticator gave it.
    pub id: &'a [u8],
    /// Its public key.
    pub key: &'a CredentialKey,
    /// The relying party for which it was made, a domain name.
    pub rp_id: &'a str,
    /// Origins at which this person may approve, byte for byte as a browser writes them.
    pub origins: &'a [&'a str],
    /// Counter of the last accepted assertion, or of the enrolment.
    pub counter: u32,
    /// Whether it was enrolled as one that may be copied to other devices. Never changes.
    pub backup_eligible: bool,
}

/// What an authenticator and a browser answered, not yet believed.
#[derive(Debug, Clone, Copy)]
pub struct Assertion<'a> {
    /// Which credential signed.
    pub credential_id: &'a [u8],
    /// The authenticator's statement (§6.1).
    pub authenticator_data: &'a [u8],
    /// The browser's statement (§5.8.1), exactly the bytes it hashed.
    pub client_data_json: &'a [u8],
    /// Over `authenticator_data || SHA-256(client_data_json)`.
    pub signature: &'a [u8],
}

/// What an accepted assertion leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The counter to keep with the credential.
    pub counter: u32,
    /// The credential may be copied to other devices.
    pub backup_eligible: bool,
    /// It has been.
    pub backed_up: bool,
}

macro_rules! refused {
    ($($variant:ident $code:literal $what:literal;)*) => {
        /// Why an assertion does not count. A closed list, equal on every replica (FAULTS 17).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
        pub enum AssertionRefused {
            $(#[doc = $what] #[error($what)] $variant,)*
        }

        impl AssertionRefused {
            /// Every reason.
            pub const ALL: &'static [AssertionRefused] = &[$(AssertionRefused::$variant,)*];

            /// The stable snake_case code.
            pub fn code(self) -> &'static str {
                match self { $(AssertionRefused::$variant => $code,)* }
            }
        }
    };
}

refused! {
    OtherCredential "other_credential" "The assertion is not of this credential.";
    TooLong "too_long" "Client data or authenticator data is longer than any honest one.";
    ClientDataMalformed "client_data_malformed" "The client data is no JSON object with the required members.";
    DuplicateName "duplicate_name" "An object in the client data names a member twice.";
    WrongType "wrong_type" "The client data is of another ceremony than an assertion.";
    ChallengeMalformed "challenge_malformed" "The challenge is not 32 bytes of canonical base64url without padding.";
    WrongChallenge "wrong_challenge" "The challenge that was signed is another one.";
    WrongOrigin "wrong_origin" "The origin is none of the allowed ones.";
    CrossOrigin "cross_origin" "The assertion was asked for inside a frame of another origin.";
    TopOrigin "top_origin" "The client data names the origin of an embedding page.";
    AuthenticatorDataTruncated "authenticator_data_truncated" "The authenticator data is shorter than its fixed part.";
    WrongRelyingParty "wrong_relying_party" "The authenticator signed for another relying party.";
    UserNotPresent "user_not_present" "The authenticator saw nobody.";
    UserNotVerified "user_not_verified" "The authenticator did not verify who was there.";
    ReservedFlags "reserved_flags" "A reserved flag is set.";
    AttestedCredential "attested_credential" "The authenticator data carries a new credential, which an assertion never does.";
    BackedUpIneligible "backed_up_ineligible" "The credential is called backed up but not eligible for it.";
    EligibilityChanged "eligibility_changed" "Whether the credential may be copied differs from its enrolment.";
    ExtensionsMalformed "extensions_malformed" "The extensions are not one canonical CBOR map of names to values.";
    TrailingBytes "trailing_bytes" "Bytes follow the authenticator data.";
    SignatureMalformed "signature_malformed" "The signature is not the one canonical encoding for this kind of key.";
    BadSignature "bad_signature" "The signature does not hold for the enrolled key and these bytes.";
    CounterNotGreater "counter_not_greater" "The counter did not grow: the authenticator may have been cloned.";
}

/// Checks that `assertion` answers `challenge` by `credential` (WebAuthn Level 3 §7.2).
///
/// # Errors
/// [`AssertionRefused`], the first rule that does not hold. The signature is checked before
/// the counter, so that only an authentic assertion can raise the suspicion of a clone.
pub fn verify(
    credential: &Credential<'_>,
    challenge: &Digest,
    assertion: &Assertion<'_>,
) -> Result<Verified, AssertionRefused> {
    let data = check_statements(credential, challenge, assertion)?;
    credential
        .key
        .verify(&signed_bytes(assertion), assertion.signature)?;
    check_counter(credential.counter, data.counter)?;
    Ok(Verified::of(&data))
}

/// What the authenticator's data says, under a signature that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The flags (§6.1).
    pub flags: u8,
    /// The counter.
    pub counter: u32,
}

/// The signature alone, by `key`: the costly half, which needs no state.
///
/// # Errors
/// [`AssertionRefused`] if the data cannot be read or the signature does not hold.
pub fn check_signature(
    key: &CredentialKey,
    assertion: &Assertion<'_>,
) -> Result<Shown, AssertionRefused> {
    check_lengths(assertion)?;
    let data = AuthenticatorData::read(assertion.authenticator_data)?;
    key.verify(&signed_bytes(assertion), assertion.signature)?;
    Ok(Shown {
        flags: data.flags.byte(),
        counter: data.counter,
    })
}

/// Everything of [`verify`] but the signature: who, what for, where, in whose presence, and the
/// counter.
///
/// # Errors
/// [`AssertionRefused`], the first rule that does not hold.
pub fn check_claims(
    credential: &Credential<'_>,
    challenge: &Digest,
    assertion: &Assertion<'_>,
) -> Result<Verified, AssertionRefused> {
    let data = check_statements(credential, challenge, assertion)?;
    check_counter(credential.counter, data.counter)?;
    Ok(Verified::of(&data))
}

fn check_statements(
    credential: &Credential<'_>,
    challenge: &Digest,
    assertion: &Assertion<'_>,
) -> Result<AuthenticatorData, AssertionRefused> {
    if assertion.credential_id != credential.id {
        return Err(AssertionRefused::OtherCredential);
    }
    check_lengths(assertion)?;
    client_data::check(assertion.client_data_json, challenge, credential.origins)?;
    let data = AuthenticatorData::read(assertion.authenticator_data)?;
    data.check(credential.rp_id, credential.backup_eligible)?;
    Ok(data)
}

fn check_lengths(assertion: &Assertion<'_>) -> Result<(), AssertionRefused> {
    let fits = assertion.client_data_json.len() <= CLIENT_DATA_LEN_MAX
        && assertion.authenticator_data.len() <= AUTHENTICATOR_DATA_LEN_MAX;
    fits.then_some(()).ok_or(AssertionRefused::TooLong)
}

impl Verified {
    fn of(data: &AuthenticatorData) -> Verified {
        Verified {
            counter: data.counter,
            backup_eligible: data.flags.backup_eligible(),
            backed_up: data.flags.backed_up(),
        }
    }
}

/// What the signature covers (§6.3.3 step 11).
fn signed_bytes(assertion: &Assertion<'_>) -> Vec<u8> {
    let mut bytes = assertion.authenticator_data.to_vec();
    bytes.extend_from_slice(Digest::of(assertion.client_data_json).as_bytes());
    bytes
}

/// §7.2 step 22: an authenticator that counts at all counts up. One that never counts says 0.
fn check_counter(last: u32, now: u32) -> Result<(), AssertionRefused> {
    if (last, now) == (0, 0) || now > last {
        Ok(())
    } else {
        Err(AssertionRefused::CounterNotGreater)
    }
}

#[cfg(test)]
mod tests;
