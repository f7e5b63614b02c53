//! `redlatch key`: keys of those who sign, and the key that the four verifiers hold together.
//!
//! ```text
//!   dkg, replace ─▶ approve ─▶ in force: another roster epoch, the quorum's key is void
//!                                └─▶ the four start again ─▶ ceremony ─▶ four confirmations journaled: the next key
//! ```
//!
//! This command proposes; a person decides in every mode, and the verifiers make the key by themselves. Between the
//! two there is no key, so nothing is decided by the quorum.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::{keys, world};
use redlatch_types::records::{ActionPayload, RosterVerifier};
use redlatch_types::{FailureDomain, PublicKey, VerifierId};

use crate::answer::{KeyStatus, NewKey, SeatedVerifier};
use crate::client::Client;
use crate::in_force::InForce;
use crate::output::Format;
use crate::propose::{self, Proposal, parse};
use crate::{Common, Done, output};

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Draw an Ed25519 signing key. It is nobody's until it is enrolled.
    New {
        /// Where it is written, readable by its owner alone.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Show the quorum's key and the four that hold it.
    Status,
    /// Propose that the four verifiers make another key among themselves.
    Dkg {
        #[command(flatten)]
        proposal: Proposal,
    },
    /// Propose another verifier in the seat of one; with it the four make another key.
    Replace(Replace),
}

#[derive(Args)]
pub(crate) struct Replace {
    /// The verifier whose seat it is.
    verifier: VerifierId,
    /// Public key that the new one votes with, hexadecimal.
    #[arg(long, value_name = "HEX", value_parser = parse::public_key)]
    vote_key: PublicKey,
    /// Public key that it witnesses with, hexadecimal.
    #[arg(long, value_name = "HEX", value_parser = parse::public_key)]
    witness_key: PublicKey,
    /// Its name; the same one if none is given.
    #[arg(long)]
    name: Option<VerifierId>,
    /// Its failure domain; the same one if none is given.
    #[arg(long)]
    domain: Option<FailureDomain>,
    #[command(flatten)]
    proposal: Proposal,
}

pub(crate) async fn run(command: &KeyCommand, common: &Common) -> Done {
    match command {
        KeyCommand::New { out } => new(out, common.output),
        KeyCommand::Status => status(common).await,
        KeyCommand::Dkg { proposal } => {
            let client = Client::current(common, "operator").await?;
            let same = client.in_force().await?.roster.verifiers;
            bring(&client, same, proposal, common).await
        }
        KeyCommand::Replace(replace) => {
            let client = Client::current(common, "operator").await?;
            let verifiers = replaced(client.in_force().await?.roster.verifiers, replace)?;
            bring(&client, verifiers, &replace.proposal, common).await
        }
    }
}

fn new(out: &Path, format: Format) -> Done {
    let key = keys::create_key(out, &mut world::rng())?;
    let answer = NewKey {
        public_key: key.public_key().to_string(),
        file: out.display().to_string(),
    };
    output::print(format, &answer, |answer| {
        output::lines(&[
            ("public key", answer.public_key.clone()),
            ("file", answer.file.clone()),
        ])
    })?;
    Ok(0)
}

async fn bring(
    client: &Client,
    verifiers: Vec<RosterVerifier>,
    proposal: &Proposal,
    common: &Common,
) -> Done {
    let payload = ActionPayload::VerifierSetChange(verifiers);
    propose::bring(client, payload, None, &proposal.how(), common).await
}

/// The four with another one in this seat. What pins the seat stays.
fn replaced(
    mut verifiers: Vec<RosterVerifier>,
    replace: &Replace,
) -> Result<Vec<RosterVerifier>, Failure> {
    let names: Vec<String> = verifiers
        .iter()
        .map(|it| it.verifier_id.to_string())
        .collect();
    let seat = verifiers
        .iter_mut()
        .find(|it| it.verifier_id == replace.verifier)
        .ok_or_else(|| {
            let text = format!("no verifier of the roster is called {}", replace.verifier);
            Failure::new(ExitCode::Usage, text).hint(format!("it names {}", names.join(", ")))
        })?;
    seat.vote_key = replace.vote_key;
    seat.witness_key = replace.witness_key;
    if let Some(name) = &replace.name {
        seat.verifier_id = name.clone();
    }
    if let Some(domain) = &replace.domain {
        seat.failure_domain = domain.clone();
    }
    Ok(verifiers)
}

async fn status(common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let answer = shown(&client.in_force().await?);
    output::print(common.output, &answer, |answer| {
        let key = match answer.quorum_key_epoch.0 {
            0 => "none: the four verifiers make the next one once all of them run".to_owned(),
            epoch => format!("epoch {epoch}, confirmed by all four"),
        };
        let mut text = output::lines(&[
            ("quorum key", key),
            ("roster", answer.roster_epoch.to_string()),
        ]);
        for it in &answer.verifiers {
            let line = format!(
                "{} in {}, votes with {}",
                it.verifier, it.domain, it.vote_key
            );
            text.push_str(&output::lines(&[(&format!("seat {}", it.seat), line)]));
        }
        text
    })?;
    Ok(0)
}

/// A key is in force only by four confirmations, so who holds a share of it follows from the roster.
fn shown(in_force: &InForce) -> KeyStatus {
    let verifiers = in_force.roster.verifiers.iter().map(|it| SeatedVerifier {
        verifier: it.verifier_id.to_string(),
        seat: u64::from(it.identifier).into(),
        domain: it.failure_domain.to_string(),
        vote_key: it.vote_key.to_string(),
    });
    let epoch = in_force.epoch.quorum_key_epoch.0;
    KeyStatus {
        quorum_key_epoch: epoch.into(),
        confirmed: epoch != 0,
        roster_epoch: in_force.roster.roster_epoch.0.into(),
        verifiers: verifiers.collect(),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::{Digest, SigningKey};

    use super::*;

    fn key(n: u8) -> PublicKey {
        SigningKey::from_seed([n; 32]).public_key()
    }

    fn four() -> Vec<RosterVerifier> {
        let verifier = |n: u8| RosterVerifier {
            verifier_id: format!("v{n}").parse().expect("a name"),
            identifier: n.into(),
            failure_domain: format!("domain-{n}").parse().expect("a name"),
            vote_key: key(n),
            witness_key: key(10 + n),
            builds_digest: Digest::ZERO,
            policy_digest: Digest::ZERO,
        };
        (1..=4).map(verifier).collect()
    }

    fn replace(verifier: &str) -> Replace {
        Replace {
            verifier: verifier.parse().expect("a name"),
            vote_key: key(21),
            witness_key: key(22),
            name: None,
            domain: None,
            proposal: Proposal {
                ttl: 1,
                event_id: None,
            },
        }
    }

    #[test]
    fn one_seat_is_another_verifiers_and_the_rest_stays() {
        let after = replaced(four(), &replace("v2")).expect("replaced");
        let mut expected = four();
        (expected[1].vote_key, expected[1].witness_key) = (key(21), key(22));
        assert_eq!(after, expected);
        let named = Replace {
            name: Some("v5".parse().expect("a name")),
            domain: Some("domain-5".parse().expect("a name")),
            ..replace("v2")
        };
        let after = replaced(four(), &named).expect("replaced");
        assert_eq!(after[1].verifier_id.as_str(), "v5");
        assert_eq!(after[1].identifier, 2, "a share lies at its seat's point");
        let unknown = replaced(four(), &replace("v9")).expect_err("nobody's seat");
        assert_eq!(unknown.code, ExitCode::Usage);
    }
}
