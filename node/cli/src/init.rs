//! `redlatch init --dev`: a whole development organism in one folder.
//!
//! ```text
//!   genesis.cbor  trust-policy.txt           public; what an auditor needs
//!   authority/    ca.pem ca.key root.key     in production these lie offline
//!   nodes/n1/     node.toml, keys, data/     one folder per process, readable by its owner alone
//!   verifiers/v1/ sentinel/ actuator/        NAME.toml, keys, data/
//!   clients/agent/ operator/ runner/ gate/   client.toml, keys; the gate's gate.toml
//!   clients/approver/ deputy/    persons: client.toml, keys, and an authenticator made of software
//!   logs/ run/                               of `redlatch dev`
//! ```
//!
//! The keys of all parties stand on one disk, so the organism's origin says `redlatch-dev`, and nothing of
//! production accepts its receipts. It never touches a folder that holds anything.

pub(crate) mod certificates;
pub(crate) mod configs;
mod keys;
mod stops;
mod verifiers;

use std::path::{Path, PathBuf};

use clap::Args;
use redlatch_journal::development::{Parties, genesis};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::{Role, world};
use redlatch_types::checkpoint::{Origin, Stage};
use redlatch_types::policy::{NodeKeys, Policy};
use redlatch_types::records::GenesisV1;
use redlatch_types::{Canonical, Envelope, Name, Refusal};

use crate::answer::Made;
use crate::output::Format;
use crate::{Done, output};
use certificates::Authority;
use keys::Keys;

#[derive(Args)]
pub(crate) struct InitArguments {
    /// Make a development organism in this folder, which must be empty or absent.
    #[arg(long, value_name = "DIR")]
    dev: Option<PathBuf>,
    #[command(flatten)]
    shape: Shape,
}

/// What a development organism looks like.
#[derive(Args, Clone)]
pub(crate) struct Shape {
    /// How many nodes: 3 or 5.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=5))]
    nodes: u8,
    /// Name for people.
    #[arg(long, default_value = "dev")]
    name: Name,
    /// The repository that the agent may land in.
    #[arg(long, default_value = "demo")]
    repository: Name,
}

pub(crate) fn run(arguments: &InitArguments, format: Format) -> Done {
    let Some(folder) = &arguments.dev else {
        let refusal = Refusal::NotSupported;
        let text = format!(
            "refused: {}: a production organism needs witnesses",
            refusal.code()
        );
        return Err(Failure::new(ExitCode::Refused, text)
            .hint("a development organism is made by `redlatch init --dev DIR`"));
    };
    let made = make(folder, &arguments.shape)?;
    let answer = Made {
        folder: folder.display().to_string(),
        organism: made.organism_id().to_string(),
        origin: origin(&made).to_string(),
        development: true,
    };
    output::print(format, &answer, |answer| {
        output::lines(&[
            (
                "organism",
                format!("{} {}", made.organism_name, answer.organism),
            ),
            ("origin", answer.origin.clone()),
            ("folder", answer.folder.clone()),
            (
                "policy",
                folder.join("trust-policy.txt").display().to_string(),
            ),
            ("next", format!("redlatch dev {}", folder.display())),
        ])
    })?;
    warn();
    Ok(0)
}

/// Says what this is, where nobody can overlook it.
pub(crate) fn warn() {
    output::note(
        "WARNING: a DEVELOPMENT organism. All its keys lie on this disk, and its trust policy\n         \
         has no witnesses. Do not let it guard anything real.",
    );
}

/// Whether there is nothing in the folder, or no folder.
///
/// # Errors
/// [`Failure`] if it cannot be read.
pub(crate) fn is_empty(folder: &Path) -> Result<bool, Failure> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => {
            let text = format!("cannot read {}: {error}", folder.display());
            Err(Failure::new(ExitCode::Usage, text).hint("name a folder"))
        }
    }
}

/// Makes a development organism.
///
/// # Errors
/// [`Failure`]; nothing that was there before is changed.
pub(crate) fn make(folder: &Path, shape: &Shape) -> Result<GenesisV1, Failure> {
    if !is_empty(folder)? {
        let text = format!("{} is not empty", folder.display());
        return Err(Failure::new(ExitCode::Usage, text)
            .hint("name an empty folder; an existing organism is never written over"));
    }
    if shape.nodes.is_multiple_of(2) {
        return Err(
            Failure::new(ExitCode::Usage, "an organism has 3 or 5 nodes")
                .hint("an even number tolerates no more failures than one less"),
        );
    }
    file::create_private_folder(folder)?;
    let folder = folder.canonicalize().map_err(|error| {
        Failure::new(
            ExitCode::Error,
            format!("cannot find {}: {error}", folder.display()),
        )
    })?;
    let keys = Keys::create(&folder, shape.nodes)?;
    let made = genesis(parties(&keys, shape));
    let sealed = Envelope::seal(made.scope(), &keys.root, &made);
    put(&folder.join("genesis.cbor"), &sealed.to_canonical())?;
    let policy = policy(&made)?;
    put(
        &folder.join("trust-policy.txt"),
        policy.to_string().as_bytes(),
    )?;
    put(&folder.join("DEVELOPMENT"), NOTICE.as_bytes())?;
    let authority = Authority::create(&folder.join("authority"))?;
    let organism = made.organism_id();
    let mut pins = Vec::new();
    for (role, name, place) in identities(&made) {
        let spki = authority.issue(organism, role, &name, &folder.join(place))?;
        if role.is_fixed() {
            pins.push((format!("{role}/{name}"), vec![spki.to_string()]));
        }
    }
    configs::write(&folder, &made, pins.into_iter().collect())?;
    for name in ["logs", "run"] {
        file::create_private_folder(&folder.join(name))?;
    }
    Ok(made)
}

const NOTICE: &str = "This folder holds a redlatch development organism: the keys of every party lie on one disk.\n\
    Nothing that it signs is worth anything outside.\n";

fn parties(keys: &Keys, shape: &Shape) -> Parties {
    Parties {
        organism_name: shape.name.clone(),
        created_at: world::now_unix_ms(),
        nonce: crate::client::random(),
        root: keys.root.public_key(),
        nodes: keys.nodes.clone(),
        verifiers: keys.verifiers.clone(),
        sentinel: keys.sentinel.clone(),
        actuator: keys.actuator.clone(),
        subjects: keys.subjects.clone(),
        repository: shape.repository.clone(),
        human_keys: keys.human_keys.clone(),
    }
}

/// Every process that gets a certificate: its role, its name, its folder.
fn identities(genesis: &GenesisV1) -> Vec<(Role, String, PathBuf)> {
    let roster = &genesis.roster;
    let mut all = Vec::new();
    for node in &roster.nodes {
        let name = node.name.to_string();
        all.push((Role::Node, name.clone(), Path::new("nodes").join(name)));
    }
    for verifier in &roster.verifiers {
        let name = verifier.verifier_id.to_string();
        all.push((
            Role::Verifier,
            name.clone(),
            Path::new("verifiers").join(name),
        ));
    }
    all.push((
        Role::Sentinel,
        roster.sentinel.name.to_string(),
        "sentinel".into(),
    ));
    all.push((
        Role::Actuator,
        roster.actuator.name.to_string(),
        "actuator".into(),
    ));
    for keys::Caller { name, role, .. } in keys::CALLERS {
        all.push((role, name.to_owned(), Path::new("clients").join(name)));
    }
    all
}

/// The origin of a journal that was never restored.
pub(crate) fn origin(genesis: &GenesisV1) -> Origin {
    Origin {
        stage: Stage::Development,
        organism: genesis.organism_id(),
        history: 0,
    }
}

/// The nodes' group only: a development organism has no witnesses.
fn policy(genesis: &GenesisV1) -> Result<Policy, Failure> {
    let nodes: Vec<NodeKeys> = genesis
        .roster
        .nodes
        .iter()
        .map(|node| NodeKeys {
            label: node.name.to_string(),
            log: node.log_key,
            cosigner: node.cosigner_key,
        })
        .collect();
    Policy::of_roster(&origin(genesis), &nodes, &[]).map_err(|error| {
        Failure::new(
            ExitCode::Error,
            format!("the trust policy cannot be made: {error}"),
        )
    })
}

/// Writes a public file that must not exist.
fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    Ok(file::create_file(path, bytes, Access::Public)?)
}

/// A development organism for tests of other modules.
#[cfg(test)]
pub(crate) fn make_for_tests(folder: &Path) -> GenesisV1 {
    let named = |text: &str| Name::new(text).expect("a name");
    let shape = Shape {
        nodes: 3,
        name: named("test"),
        repository: named("demo"),
    };
    make(folder, &shape).expect("made")
}

#[cfg(test)]
mod tests {
    use redlatch_journal::{Command, EntryId, State, admit};
    use redlatch_types::command::RawCommand;
    use redlatch_types::event::Accepted;

    use super::*;

    fn shape(nodes: u8) -> Shape {
        Shape {
            nodes,
            name: Name::new("test").expect("a name"),
            repository: Name::new("demo").expect("a name"),
        }
    }

    /// A folder that is gone at the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let unique = format!("redlatch-init-{name}-{}", std::process::id());
            Place(std::env::temp_dir().join(unique))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_made_starts_an_organism_and_its_nodes_are_complete() {
        let place = Place::new("made");
        make(&place.0, &shape(3)).expect("made");
        let bytes = file::read_file(&place.0.join("genesis.cbor")).expect("genesis");
        let envelope = Envelope::from_canonical(&bytes).expect("an envelope");
        let command = RawCommand::Bootstrap(envelope).to_canonical();
        assert!(matches!(admit(&command), Ok(Command::Bootstrap(_))));
        let applied = State::new().apply(EntryId::default(), &[command]);
        assert_eq!(applied.outcomes[0].reply, Ok(Accepted::Bootstrapped));
        for name in ["n1", "n2", "n3"] {
            let file = place.0.join("nodes").join(name).join("node.toml");
            let sources = redlatch_link::config::Sources::none().file(file);
            let config: redlatch_node::NodeConfig =
                redlatch_link::config::load(&sources).expect("valid");
            let files = redlatch_node::NodeFiles::read(&config).expect("complete");
            assert_eq!(files.credentials.identity().name, name);
        }
    }

    #[test]
    fn a_folder_that_holds_anything_is_left_alone() {
        let place = Place::new("taken");
        std::fs::create_dir(&place.0).expect("made");
        std::fs::write(place.0.join("mine"), b"x").expect("written");
        let failure = make(&place.0, &shape(3)).expect_err("taken");
        assert_eq!(failure.code, ExitCode::Usage);
        let left = std::fs::read_dir(&place.0).expect("readable").count();
        assert_eq!(left, 1);
    }

    #[test]
    fn a_production_organism_is_refused_and_so_is_an_even_number_of_nodes() {
        let arguments = InitArguments {
            dev: None,
            shape: shape(3),
        };
        let failure = run(&arguments, Format::Json).expect_err("refused");
        assert_eq!(failure.code, ExitCode::Refused);
        assert!(failure.text.contains("not_supported"), "{failure}");
        let failure = make(&Place::new("even").0, &shape(4)).expect_err("even");
        assert_eq!(failure.code, ExitCode::Usage);
    }
}
