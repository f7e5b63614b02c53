//! Values of `redlatch propose` as they are written on the command line.

use redlatch_types::records::{OutcomeKind, ResourceScope, Text};
use redlatch_types::{Bytes, Name, PublicKey};

/// Bytes in hexadecimal.
pub(super) fn hexadecimal(text: &str) -> Result<Bytes, String> {
    hex::decode(text).map(Bytes).map_err(|it| it.to_string())
}

/// An Ed25519 public key.
pub(crate) fn public_key(text: &str) -> Result<PublicKey, String> {
    let mut key = [0; 32];
    hex::decode_to_slice(text, &mut key).map_err(|it| it.to_string())?;
    Ok(PublicKey(key))
}

/// Resources as `realm:path-prefix`.
pub(super) fn scope(text: &str) -> Result<ResourceScope, String> {
    let parts = text.split_once(':').filter(|(_, path)| !path.is_empty());
    let (realm, path) = parts.ok_or("write it as realm:path-prefix, e.g. demo:refs/heads/")?;
    Ok(ResourceScope {
        repository: Name::new(realm).map_err(|error| error.to_string())?,
        ref_prefix: Text::new(path).map_err(|error| error.to_string())?,
    })
}

/// How a person says that an effect ended; that nobody knows is what they are asked about.
pub(super) fn resolution(text: &str) -> Result<OutcomeKind, String> {
    match text.parse() {
        Ok(OutcomeKind::OutcomeUnknown) | Err(_) => Err("it is `done` or `failed`".to_owned()),
        Ok(outcome) => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_without_a_path_would_cover_nothing_and_is_refused() {
        assert!(scope("demo").is_err() && scope("demo:").is_err() && scope("No:x").is_err());
        let scope = scope("demo:refs/heads/").expect("a scope");
        assert_eq!(scope.repository.as_str(), "demo");
        assert_eq!(scope.ref_prefix.as_str(), "refs/heads/");
    }

    #[test]
    fn nobody_resolves_an_effect_by_saying_that_it_is_unknown() {
        assert_eq!(resolution("done"), Ok(OutcomeKind::Done));
        assert_eq!(resolution("failed"), Ok(OutcomeKind::Failed));
        assert!(resolution("outcome_unknown").is_err() && resolution("").is_err());
    }

    #[test]
    fn only_whole_bytes_in_hexadecimal_are_read() {
        assert_eq!(hexadecimal(""), Ok(Bytes::default()));
        assert_eq!(hexadecimal("00ff"), Ok(Bytes(vec![0, 255])));
        assert!(hexadecimal("0").is_err() && hexadecimal("0x").is_err());
        assert!(public_key("00").is_err());
    }
}
