//! What a push asks for: one new candidate or evidence ref, or one move of a branch. Anything else is
//! refused (FAULTS 82).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use redlatch_types::records::Text;
use redlatch_types::{Canonical, Digest, Envelope, IntentDigest};

use crate::gate::refusal::Refused;
use crate::git::{ObjectFormat, ObjectId};

/// Where candidates stand.
pub(crate) const CANDIDATES: &str = "refs/redlatch/candidate/";
/// Where evidence stands: a blob under the SHA-256 of its bytes.
pub(crate) const EVIDENCE: &str = "refs/redlatch/evidence/";
/// Where authority lands.
pub(crate) const BRANCHES: &str = "refs/heads/";
/// Push option that names the intent.
pub(crate) const INTENT_OPTION: &str = "redlatch-intent=";
/// Push option that carries the client's signed [`redlatch_types::records::CandidatePushV1`].
pub(crate) const CANDIDATE_OPTION: &str = "redlatch-candidate=";

/// Longest standard input of a hook that is read, in bytes.
pub(crate) const STDIN_BYTES_MAX: u64 = 256 * 1024;
/// Longest push option that is read, in bytes.
const OPTION_BYTES_MAX: usize = 8 * 1024;

/// One line of a hook's standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// What the ref is at; none if it does not exist.
    pub(crate) old: Option<ObjectId>,
    /// What it is to be at; none if it is to be deleted.
    pub(crate) new: Option<ObjectId>,
    /// Its full name.
    pub(crate) reference: Text,
}

/// What a push asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// Create the candidate ref of this commit; the client says who it is.
    Candidate(ObjectId, Box<Envelope>),
    /// Create the evidence ref of this blob, whose bytes have this digest.
    Evidence(ObjectId, Digest, Box<Envelope>),
    /// Move a branch, by the authority of this intent.
    Landing(Landing, IntentDigest),
}

/// One move of one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Landing {
    /// The branch, `refs/heads/…`.
    pub(crate) reference: Text,
    /// What it is at; none if it is to be made.
    pub(crate) old: Option<ObjectId>,
    /// The commit it is to be at.
    pub(crate) new: ObjectId,
}

impl Landing {
    /// Bytes of the old id as intents have them: empty if the ref must not exist.
    pub(crate) fn old_bytes(&self) -> &[u8] {
        self.old.as_ref().map_or(&[], ObjectId::bytes)
    }
}

/// Reads a hook's standard input: lines of `old SP new SP ref`.
///
/// # Errors
/// [`Refused::MalformedPush`].
pub(crate) fn parse(stdin: &[u8], format: ObjectFormat) -> Result<Vec<Update>, Refused> {
    let text = str::from_utf8(stdin).map_err(|_| Refused::MalformedPush)?;
    text.lines().map(|line| update(line, format)).collect()
}

fn update(line: &str, format: ObjectFormat) -> Result<Update, Refused> {
    let mut parts = line.splitn(3, ' ');
    let (Some(old), Some(new), Some(reference)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Refused::MalformedPush);
    };
    let id = |text: &str| -> Result<Option<ObjectId>, Refused> {
        let zero = text.len() == format.digits() && text.bytes().all(|byte| byte == b'0');
        let id = ObjectId::parse(text, format);
        if id.is_none() && !zero {
            return Err(Refused::MalformedPush);
        }
        Ok(id)
    };
    Ok(Update {
        old: id(old)?,
        new: id(new)?,
        reference: Text::new(reference).map_err(|_| Refused::MalformedPush)?,
    })
}

/// What the push asks for. A push moves one ref: so either all of it passes or nothing.
///
/// # Errors
/// [`Refused`] with the first reason.
pub(crate) fn classify(mut updates: Vec<Update>, options: &[String]) -> Result<Push, Refused> {
    let last = updates.pop().ok_or(Refused::MalformedPush)?;
    let more = updates.len();
    if more > 0 {
        let ours = |it: &Update| it.reference.as_str().starts_with("refs/redlatch/");
        let mixed = updates.iter().any(|it| ours(it) != ours(&last));
        return Err(if mixed {
            Refused::MixedPush
        } else {
            Refused::TooManyRefs(more + 1)
        });
    }
    let Some(new) = last.new.clone() else {
        return Err(Refused::Delete);
    };
    let reference = last.reference.as_str();
    if let Some(name) = reference.strip_prefix(CANDIDATES) {
        if name != new.to_string() {
            return Err(Refused::CandidateName);
        }
        let client = brought(last.old.as_ref(), options)?;
        return Ok(Push::Candidate(new, client));
    }
    if let Some(name) = reference.strip_prefix(EVIDENCE) {
        let digest = name.parse().map_err(|_| Refused::EvidenceName)?;
        let client = brought(last.old.as_ref(), options)?;
        return Ok(Push::Evidence(new, digest, client));
    }
    if reference.starts_with("refs/tags/") {
        return Err(Refused::Tag);
    }
    let branch = reference.strip_prefix(BRANCHES).ok_or(Refused::NoBranch)?;
    if branch.split('/').any(is_like_an_id) {
        return Err(Refused::NamedLikeAnId);
    }
    let intent = option(options, INTENT_OPTION)?.ok_or(Refused::NoIntent)?;
    let intent = intent.parse().map_err(|_| Refused::MalformedOption)?;
    let landing = Landing {
        reference: last.reference,
        old: last.old,
        new,
    };
    Ok(Push::Landing(landing, intent))
}

/// Who brings a ref that is created once.
fn brought(old: Option<&ObjectId>, options: &[String]) -> Result<Box<Envelope>, Refused> {
    if old.is_some() {
        return Err(Refused::CandidateMoved);
    }
    let signed = option(options, CANDIDATE_OPTION)?.ok_or(Refused::NoClient)?;
    let bytes = BASE64_URL_SAFE_NO_PAD
        .decode(signed)
        .map_err(|_| Refused::MalformedOption)?;
    let envelope = Envelope::from_canonical(&bytes).map_err(|_| Refused::MalformedOption)?;
    Ok(Box::new(envelope))
}

/// The push option that carries a client's signed statement.
pub(crate) fn candidate_option(signed: &Envelope) -> String {
    let text = BASE64_URL_SAFE_NO_PAD.encode(signed.to_canonical());
    format!("{CANDIDATE_OPTION}{text}")
}

/// The value of the one option that begins with `name`.
fn option<'a>(options: &'a [String], name: &str) -> Result<Option<&'a str>, Refused> {
    let mut found = options.iter().filter_map(|it| it.strip_prefix(name));
    match (found.next(), found.next()) {
        (Some(value), None) if value.len() <= OPTION_BYTES_MAX => Ok(Some(value)),
        (None, _) => Ok(None),
        _ => Err(Refused::MalformedOption),
    }
}

/// Git would take such a name for an object in other places.
fn is_like_an_id(name: &str) -> bool {
    matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use redlatch_types::records::CandidatePushV1;
    use redlatch_types::{Bytes, OrganismId, Scope, SigningKey};

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    fn classified(stdin: &str, options: &[&str]) -> Result<Push, Refused> {
        let options: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
        classify(parse(stdin.as_bytes(), ObjectFormat::Sha1)?, &options)
    }

    fn intent() -> String {
        format!("{INTENT_OPTION}{}", Digest::of(b"intent"))
    }

    fn signed() -> String {
        let scope = Scope {
            organism_id: OrganismId(Digest::ZERO),
            organism_epoch: 1,
        };
        let record = CandidatePushV1 {
            repository: "repo".parse().unwrap(),
            object: Bytes(vec![0xaa; 20]),
        };
        candidate_option(&Envelope::seal(
            scope,
            &SigningKey::from_seed([1; 32]),
            &record,
        ))
    }

    #[test]
    fn a_branch_moves_by_its_intent() {
        let line = format!("{A} {B} refs/heads/main\n");
        let Push::Landing(landing, digest) = classified(&line, &[&intent()]).expect("a landing")
        else {
            panic!("not a landing");
        };
        assert_eq!(digest.0, Digest::of(b"intent"));
        assert_eq!(landing.reference.as_str(), "refs/heads/main");
        assert_eq!(landing.old_bytes(), [0xaa; 20]);
        assert_eq!(landing.new.bytes(), [0xbb; 20]);
        let line = format!("{ZERO} {B} refs/heads/new/branch\n");
        let Push::Landing(landing, _) = classified(&line, &[&intent()]).expect("a new branch")
        else {
            panic!("not a landing");
        };
        assert!(landing.old_bytes().is_empty());
    }

    #[test]
    fn a_candidate_is_created_under_its_own_id() {
        let line = format!("{ZERO} {A} {CANDIDATES}{A}\n");
        assert!(matches!(
            classified(&line, &[&signed()]),
            Ok(Push::Candidate(id, _)) if id.to_string() == A
        ));
        let cases = [
            (
                format!("{ZERO} {B} {CANDIDATES}{A}\n"),
                Refused::CandidateName,
            ),
            (
                format!("{ZERO} {A} {CANDIDATES}{}\n", &A[..12]),
                Refused::CandidateName,
            ),
            (
                format!("{ZERO} {A} {CANDIDATES}{}\n", A.to_uppercase()),
                Refused::CandidateName,
            ),
            (
                format!("{B} {A} {CANDIDATES}{A}\n"),
                Refused::CandidateMoved,
            ),
            (format!("{A} {ZERO} {CANDIDATES}{A}\n"), Refused::Delete),
        ];
        for (line, expected) in cases {
            assert_eq!(classified(&line, &[&signed()]), Err(expected), "{line}");
        }
        assert_eq!(classified(&line, &[]), Err(Refused::NoClient));
        assert_eq!(
            classified(&line, &["redlatch-candidate=%"]),
            Err(Refused::MalformedOption)
        );
    }

    #[test]
    fn evidence_is_created_under_the_digest_of_its_bytes() {
        let digest = Digest::of(b"receipt");
        let line = format!("{ZERO} {A} {EVIDENCE}{digest}\n");
        assert!(matches!(
            classified(&line, &[&signed()]),
            Ok(Push::Evidence(id, named, _)) if id.to_string() == A && named == digest
        ));
        assert_eq!(classified(&line, &[]), Err(Refused::NoClient));
        let moved = format!("{B} {A} {EVIDENCE}{digest}\n");
        assert_eq!(
            classified(&moved, &[&signed()]),
            Err(Refused::CandidateMoved)
        );
        let named = format!("{ZERO} {A} {EVIDENCE}{A}\n");
        assert_eq!(classified(&named, &[&signed()]), Err(Refused::EvidenceName));
    }

    #[test]
    fn fault_082_every_other_update_is_refused() {
        let thirty: String = (0..30)
            .map(|n| format!("{ZERO} {B} refs/heads/b{n}\n"))
            .collect();
        let cases = [
            (String::new(), Refused::MalformedPush),
            (thirty, Refused::TooManyRefs(30)),
            (
                format!("{A} {B} refs/heads/main\n{ZERO} {B} {CANDIDATES}{B}\n"),
                Refused::MixedPush,
            ),
            (format!("{A} {ZERO} refs/heads/main\n"), Refused::Delete),
            (format!("{ZERO} {ZERO} refs/heads/main\n"), Refused::Delete),
            (format!("{ZERO} {B} refs/tags/v1\n"), Refused::Tag),
            (format!("{A} {B} refs/notes/commits\n"), Refused::NoBranch),
            (format!("{A} {B} refs/replace/{A}\n"), Refused::NoBranch),
            (format!("{A} {B} refs/redlatch/other\n"), Refused::NoBranch),
            (format!("{A} {B} HEAD\n"), Refused::NoBranch),
            (
                format!("{ZERO} {B} refs/heads/{A}\n"),
                Refused::NamedLikeAnId,
            ),
            (
                format!("{ZERO} {B} refs/heads/x/{}\n", "C".repeat(64)),
                Refused::NamedLikeAnId,
            ),
            (format!("{A} {B}\n"), Refused::MalformedPush),
            (
                format!("{} {B} refs/heads/main\n", &A[..39]),
                Refused::MalformedPush,
            ),
            (
                format!("{} {B} refs/heads/main\n", &ZERO[..39]),
                Refused::MalformedPush,
            ),
            (
                format!("{A} {B} refs/heads/\u{7}\n"),
                Refused::MalformedPush,
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(classified(&line, &[&intent()]), Err(expected), "{line:?}");
        }
        let line = format!("{A} {B} refs/heads/main\n");
        assert_eq!(classified(&line, &[]), Err(Refused::NoIntent));
        assert_eq!(
            classified(&line, &["redlatch-intent=12"]),
            Err(Refused::MalformedOption)
        );
        assert_eq!(
            classified(&line, &[&intent(), &intent()]),
            Err(Refused::MalformedOption)
        );
        assert!(classified(&line, &["ci.skip", &intent()]).is_ok());
    }
}
