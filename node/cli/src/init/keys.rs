//! The signing keys of a development organism's parties, each in its own folder, and their public halves as
//! the genesis names them.

use std::path::Path;

use crate::approve::authenticator;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_journal::development::Subject;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::Access;
use redlatch_link::keys::create_key;
use redlatch_link::{Role, file, world};
use redlatch_types::records::{
    ActorKind, HumanKeyV1, PinnedParty, RosterNode, RosterVerifier, Seat,
};
use redlatch_types::{Digest, FailureDomain, Name, NodeId, SigningKey, SubjectId, VerifierId};
use zeroize::Zeroizing;

/// Somebody who calls the cluster as a subject.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    pub(super) name: &'static str,
    /// Of the certificate.
    pub(super) role: Role,
    pub(super) kind: ActorKind,
}

/// Everybody who does. The two persons decide what no quorum may decide, each with an authenticator.
pub(super) const CALLERS: [Caller; 6] = [
    caller("agent", Role::Client, ActorKind::Agent),
    caller("approver", Role::Client, ActorKind::Human),
    caller("deputy", Role::Client, ActorKind::Human),
    caller("gate", Role::Gate, ActorKind::Gate),
    caller("operator", Role::Operator, ActorKind::Operator),
    caller("runner", Role::Runner, ActorKind::Runner),
];

const fn caller(name: &'static str, role: Role, kind: ActorKind) -> Caller {
    Caller { name, role, kind }
}

const VERIFIERS: u16 = 4;
/// Four failure domains: any one verifier may be down.
const DOMAIN_PREFIX: &str = "domain";

/// What was made.
pub(super) struct Keys {
    pub(super) root: SigningKey,
    pub(super) nodes: Vec<RosterNode>,
    pub(super) verifiers: Vec<RosterVerifier>,
    pub(super) sentinel: PinnedParty,
    pub(super) actuator: PinnedParty,
    pub(super) subjects: Vec<Subject>,
    pub(super) human_keys: Vec<HumanKeyV1>,
}

/// Draws keys into files below one folder.
struct Maker<'a> {
    folder: &'a Path,
    rng: ChaCha20Rng,
}

impl Maker<'_> {
    fn key(&mut self, place: &Path, file_name: &str) -> Result<SigningKey, Failure> {
        let folder = self.folder.join(place);
        file::create_private_folder(&folder)?;
        Ok(create_key(&folder.join(file_name), &mut self.rng)?)
    }

    fn node(&mut self, number: u8) -> Result<RosterNode, Failure> {
        let name = name(&format!("n{number}"))?;
        let place = Path::new("nodes").join(name.as_str());
        Ok(RosterNode {
            node_id: NodeId(number.into()),
            seat: Seat::Voter,
            log_key: self.key(&place, "log.key")?.public_key(),
            cosigner_key: self.key(&place, "cosigner.key")?.public_key(),
            record_key: self.key(&place, "record.key")?.public_key(),
            name,
        })
    }

    /// What a verifier's key shares are sealed under, in a file beside its vote key.
    fn passphrase(&mut self, place: &Path) -> Result<(), Failure> {
        let folder = self.folder.join(place);
        file::create_private_folder(&folder)?;
        let mut drawn = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(&mut drawn[..]);
        let text = Zeroizing::new(hex::encode(&drawn[..]));
        let path = folder.join("share.passphrase");
        Ok(file::create_file(&path, text.as_bytes(), Access::Private)?)
    }

    fn verifier(&mut self, identifier: u16) -> Result<RosterVerifier, Failure> {
        let name_text = format!("v{identifier}");
        let place = Path::new("verifiers").join(&name_text);
        self.passphrase(&place)?;
        Ok(RosterVerifier {
            verifier_id: VerifierId(name(&name_text)?),
            identifier,
            failure_domain: FailureDomain(name(&format!("{DOMAIN_PREFIX}-{identifier}"))?),
            vote_key: self.key(&place, "vote.key")?.public_key(),
            witness_key: self.key(&place, "witness.key")?.public_key(),
            builds_digest: any_build(),
            policy_digest: any_policy(),
        })
    }

    fn pinned(&mut self, party: &str) -> Result<PinnedParty, Failure> {
        Ok(PinnedParty {
            name: name(party)?,
            key: self.key(Path::new(party), "signing.key")?.public_key(),
            builds_digest: any_build(),
            policy_digest: any_policy(),
        })
    }

    fn subject(&mut self, caller: &Caller) -> Result<Subject, Failure> {
        let place = Path::new("clients").join(caller.name);
        Ok(Subject {
            subject_id: SubjectId(name(caller.name)?),
            actor_kind: caller.kind,
            public_key: self.key(&place, "signing.key")?.public_key(),
        })
    }

    /// A person's authenticator beside their signing key.
    fn human_key(&mut self, caller: &Caller) -> Result<HumanKeyV1, Failure> {
        let place = self.folder.join("clients").join(caller.name);
        let file = place.join(authenticator::FILE);
        let person = SubjectId(name(caller.name)?);
        authenticator::create(&file, person, &mut self.rng)
    }
}

impl Keys {
    /// Draws every key.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be written.
    pub(super) fn create(folder: &Path, nodes: u8) -> Result<Keys, Failure> {
        let rng = world::rng();
        let mut maker = Maker { folder, rng };
        Ok(Keys {
            root: maker.key(Path::new("authority"), "root.key")?,
            nodes: (1..=nodes)
                .map(|number| maker.node(number))
                .collect::<Result<_, _>>()?,
            verifiers: (1..=VERIFIERS)
                .map(|identifier| maker.verifier(identifier))
                .collect::<Result<_, _>>()?,
            sentinel: maker.pinned("sentinel")?,
            actuator: maker.pinned("actuator")?,
            subjects: CALLERS
                .iter()
                .map(|caller| maker.subject(caller))
                .collect::<Result<_, _>>()?,
            human_keys: CALLERS
                .iter()
                .filter(|caller| caller.kind == ActorKind::Human)
                .map(|caller| maker.human_key(caller))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn name(text: &str) -> Result<Name, Failure> {
    Name::new(text).map_err(|error| Failure::new(ExitCode::Error, error.to_string()))
}

/// A development organism pins no build.
fn any_build() -> Digest {
    Digest::of(b"development: any build")
}

/// A development organism pins no policy.
fn any_policy() -> Digest {
    Digest::of(b"development: any policy")
}
