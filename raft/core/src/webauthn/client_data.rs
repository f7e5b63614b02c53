//! clientDataJSON (WebAuthn §5.8.1): what the browser says was asked, and where.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redlatch_types::Digest;

use super::AssertionRefused;
use super::json::{self, Fault, Value};

/// `type` of an assertion; an enrolment says `webauthn.create`.
const ASSERTION: &str = "webauthn.get";

/// The rules of §7.2 steps 9 to 13. Members that are not named there are allowed and ignored,
/// as the specification asks, if they are well-formed.
pub(super) fn check(
    bytes: &[u8],
    challenge: &Digest,
    origins: &[&str],
) -> Result<(), AssertionRefused> {
    let mut members = json::object(bytes).map_err(|fault| match fault {
        Fault::Malformed => AssertionRefused::ClientDataMalformed,
        Fault::DuplicateName => AssertionRefused::DuplicateName,
    })?;
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(AssertionRefused::ClientDataMalformed),
    };
    let (kind, signed, origin) = (text("type")?, text("challenge")?, text("origin")?);
    if kind != ASSERTION {
        return Err(AssertionRefused::WrongType);
    }
    // The decoder refuses padding, the other alphabet and stray bits in the last character.
    let signed = URL_SAFE_NO_PAD.decode(signed).ok();
    let signed = signed.and_then(|bytes| bytes.try_into().ok());
    if Digest(signed.ok_or(AssertionRefused::ChallengeMalformed)?) != *challenge {
        return Err(AssertionRefused::WrongChallenge);
    }
    if !origins.contains(&origin.as_str()) {
        return Err(AssertionRefused::WrongOrigin);
    }
    match members.get("crossOrigin") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => return Err(AssertionRefused::CrossOrigin),
        Some(_) => return Err(AssertionRefused::ClientDataMalformed),
    }
    if members.contains_key("topOrigin") {
        return Err(AssertionRefused::TopOrigin);
    }
    Ok(())
}
