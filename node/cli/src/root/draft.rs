//! The draft of a root act: which parts of what is in force it replaces, and the file that carries it to the
//! root's machine.

use std::path::Path;

use clap::Args;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_types::records::{
    AttestationClass, PinnedParty, RootActV1, RosterV1, SafetyKernelV1, Text,
};
use redlatch_types::{Canonical, Digest, OrganismId, PublicKey, Scope, VerifierId};
use serde::{Deserialize, Serialize};

use crate::in_force::InForce;

/// What an act changes; everything that is not named stays.
#[derive(Args, Default)]
pub(super) struct Changes {
    /// Why, for people.
    #[arg(long)]
    reason: String,
    /// The root's successor.
    #[arg(long, value_name = "HEX", value_parser = key)]
    root_key: Option<PublicKey>,
    /// How well persons' keys must be kept; may be repeated.
    #[arg(long = "person-key", value_name = "CLASS")]
    person_keys: Vec<AttestationClass>,
    /// Digest of the policy of verified boot.
    #[arg(long, value_name = "HEX")]
    verified_boot: Option<Digest>,
    /// The signing key of the sentinel that replaces the one in force.
    #[arg(long, value_name = "HEX", value_parser = key)]
    sentinel_key: Option<PublicKey>,
    /// The signing key of the actuator that replaces the one in force.
    #[arg(long, value_name = "HEX", value_parser = key)]
    actuator_key: Option<PublicKey>,
    /// Digest of the list of builds that the sentinel may run.
    #[arg(long, value_name = "HEX")]
    sentinel_builds: Option<Digest>,
    /// Digest of the sentinel's policy.
    #[arg(long, value_name = "HEX")]
    sentinel_policy: Option<Digest>,
    /// Digest of the list of builds that the actuator may run.
    #[arg(long, value_name = "HEX")]
    actuator_builds: Option<Digest>,
    /// Digest of the actuator's policy.
    #[arg(long, value_name = "HEX")]
    actuator_policy: Option<Digest>,
    /// Digest of the list of builds that a verifier may run; may be repeated.
    #[arg(long = "verifier-builds", value_name = "NAME=HEX", value_parser = named)]
    verifier_builds: Vec<(VerifierId, Digest)>,
    /// Digest of a verifier's policy; may be repeated.
    #[arg(long = "verifier-policy", value_name = "NAME=HEX", value_parser = named)]
    verifier_policies: Vec<(VerifierId, Digest)>,
}

fn key(text: &str) -> Result<PublicKey, String> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).map_err(|error| error.to_string())?;
    Ok(PublicKey(bytes))
}

fn named(text: &str) -> Result<(VerifierId, Digest), String> {
    let (name, digest) = text.split_once('=').ok_or("write it as NAME=HEX")?;
    let name = name.parse().map_err(|_| "no name".to_owned())?;
    let digest = digest.parse().map_err(|_| "no digest".to_owned())?;
    Ok((name, digest))
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::new(ExitCode::Usage, text)
}

impl Changes {
    /// The next act of the root: what is in force, with these changes.
    ///
    /// # Errors
    /// [`Failure`] if there is no reason, nothing changes, or a verifier is not in the roster.
    pub(super) fn act(&self, in_force: &InForce) -> Result<RootActV1, Failure> {
        let reason = Text::new(&self.reason).map_err(|it| usage(format!("--reason: {it}")))?;
        if reason.as_str().trim().is_empty() {
            return Err(usage("an act of the root says why"));
        }
        let roster = self.roster(&in_force.roster)?;
        let kernel = self.kernel(&in_force.kernel, &roster);
        let same = RosterV1 {
            roster_epoch: in_force.roster.roster_epoch,
            ..roster.clone()
        };
        if kernel == in_force.kernel && same == in_force.roster {
            return Err(usage("nothing would change").hint("redlatch root draft --help"));
        }
        let replaced = roster.sentinel.key != in_force.roster.sentinel.key;
        Ok(RootActV1 {
            number: in_force.root_acts.saturating_add(1),
            previous_kernel_digest: in_force.kernel.digest(),
            kernel,
            roster,
            // A sentinel that has never said RED has an empty chain.
            old_outbox_root_optional: replaced
                .then(|| in_force.outbox_root.unwrap_or(Digest::ZERO)),
            reason,
        })
    }

    fn roster(&self, now: &RosterV1) -> Result<RosterV1, Failure> {
        let mut next = now.clone();
        next.roster_epoch = now.roster_epoch.next();
        let party = |it: &mut PinnedParty,
                     key: Option<PublicKey>,
                     builds: Option<Digest>,
                     policy: Option<Digest>| {
            it.key = key.unwrap_or(it.key);
            it.builds_digest = builds.unwrap_or(it.builds_digest);
            it.policy_digest = policy.unwrap_or(it.policy_digest);
        };
        party(
            &mut next.sentinel,
            self.sentinel_key,
            self.sentinel_builds,
            self.sentinel_policy,
        );
        party(
            &mut next.actuator,
            self.actuator_key,
            self.actuator_builds,
            self.actuator_policy,
        );
        for (name, builds) in &self.verifier_builds {
            verifier(&mut next, name)?.builds_digest = *builds;
        }
        for (name, policy) in &self.verifier_policies {
            verifier(&mut next, name)?.policy_digest = *policy;
        }
        Ok(next)
    }

    /// The pins follow from the roster.
    fn kernel(&self, now: &SafetyKernelV1, roster: &RosterV1) -> SafetyKernelV1 {
        let builds = roster.verifiers.iter().map(|it| it.builds_digest);
        let builds: Vec<Digest> = builds.collect();
        let mut next = SafetyKernelV1 {
            verifier_binary_digest: Digest::of(&builds.to_canonical()),
            sentinel_identity_binary_policy_digest: roster.sentinel.pin_digest(),
            safety_actuator_identity_binary_policy_digest: roster.actuator.pin_digest(),
            ..now.clone()
        };
        next.pinned_external_root_key = self.root_key.unwrap_or(now.pinned_external_root_key);
        next.verified_boot_policy_digest = self
            .verified_boot
            .unwrap_or(now.verified_boot_policy_digest);
        if !self.person_keys.is_empty() {
            next.human_attestation_classes.clone_from(&self.person_keys);
        }
        next
    }
}

fn verifier<'a>(
    roster: &'a mut RosterV1,
    name: &VerifierId,
) -> Result<&'a mut redlatch_types::records::RosterVerifier, Failure> {
    let mut verifiers = roster.verifiers.iter_mut();
    let found = verifiers.find(|it| it.verifier_id == *name);
    found.ok_or_else(|| usage(format!("no verifier is called {name}")))
}

/// A whole act and the scope it is signed in.
#[derive(Debug, PartialEq)]
pub(super) struct Draft {
    pub(super) scope: Scope,
    pub(super) act: RootActV1,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Carried {
    organism: String,
    organism_epoch: String,
    /// Canonical bytes of the record, hexadecimal.
    act: String,
}

impl Draft {
    /// The file's text.
    pub(super) fn text(&self) -> String {
        format!(
            "# A draft of a root act; `redlatch root sign` shows what it says.\n\
             organism = \"{}\"\norganism_epoch = \"{}\"\nact = \"{}\"\n",
            self.scope.organism_id.0,
            self.scope.organism_epoch,
            hex::encode(self.act.to_canonical())
        )
    }

    /// Reads a file made by [`Draft::text`].
    ///
    /// # Errors
    /// [`Failure`] if it is none.
    pub(super) fn read(path: &Path) -> Result<Draft, Failure> {
        let bytes = file::read_file(path)?;
        Draft::parse(&bytes).map_err(|what| {
            usage(format!(
                "{} is no draft of a root act: {what}",
                path.display()
            ))
            .hint("`redlatch root draft` makes one")
        })
    }

    fn parse(bytes: &[u8]) -> Result<Draft, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let carried: Carried = toml::from_str(text).map_err(|error| error.to_string())?;
        let act = hex::decode(&carried.act).map_err(|error| format!("act: {error}"))?;
        let organism = carried.organism.parse();
        let epoch = carried.organism_epoch.parse();
        Ok(Draft {
            scope: Scope {
                organism_id: OrganismId(organism.map_err(|_| "organism: no digest")?),
                organism_epoch: epoch.map_err(|_| "organism_epoch: no number")?,
            },
            act: RootActV1::from_canonical(&act).map_err(|error| format!("act: {error}"))?,
        })
    }
}
