//! A small organism for tests: keys from fixed seeds, its policy, and heads signed by whom
//! the test says.

use super::{NodeKeys, Policy, WitnessKey};
use crate::bytes::Digest;
use crate::checkpoint::{Checkpoint, Origin, Stage};
use crate::ids::OrganismId;
use crate::note::{Note, SignatureLine};
use crate::sign::SigningKey;

/// Time of the cosigner with index 0; each next one says a second more.
pub(crate) const TIME_S: u64 = 1_700_000_000;

pub(crate) struct Organism {
    pub(crate) origin: Origin,
    pub(crate) logs: Vec<SigningKey>,
    pub(crate) nodes: Vec<SigningKey>,
    pub(crate) witnesses: Vec<SigningKey>,
}

fn keys(role: &str, count: usize) -> Vec<SigningKey> {
    (1..=count)
        .map(|number| SigningKey::from_seed(Digest::of(format!("{role}-{number}").as_bytes()).0))
        .collect()
}

impl Organism {
    pub(crate) fn production() -> Organism {
        Organism::new(Stage::Production, 3, 4)
    }

    pub(crate) fn development() -> Organism {
        Organism::new(Stage::Development, 3, 0)
    }

    pub(crate) fn new(stage: Stage, nodes: usize, witnesses: usize) -> Organism {
        let organism = OrganismId(Digest::of(b"organism"));
        Organism {
            origin: Origin {
                stage,
                organism,
                history: 0,
            },
            logs: keys("log", nodes),
            nodes: keys("node", nodes),
            witnesses: keys("verifier", witnesses),
        }
    }

    pub(crate) fn node_keys(&self) -> Vec<NodeKeys> {
        let pairs = self.logs.iter().zip(&self.nodes).enumerate();
        pairs
            .map(|(index, (log, cosigner))| NodeKeys {
                label: format!("node-{}", index + 1),
                log: log.public_key(),
                cosigner: cosigner.public_key(),
            })
            .collect()
    }

    pub(crate) fn witness_keys(&self) -> Vec<WitnessKey> {
        let keys = self.witnesses.iter().enumerate();
        keys.map(|(index, key)| WitnessKey {
            label: format!("verifier-{}", index + 1),
            key: key.public_key(),
        })
        .collect()
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::of_roster(&self.origin, &self.node_keys(), &self.witness_keys()).unwrap()
    }

    pub(crate) fn checkpoint(&self, size: u64, root: Digest) -> Checkpoint {
        Checkpoint {
            origin: self.origin,
            size,
            root,
        }
    }

    pub(crate) fn log_line(&self, text: &str, log: usize) -> SignatureLine {
        SignatureLine::by_log(self.origin.log_name(), &self.logs[log], text)
    }

    pub(crate) fn node_line(&self, text: &str, node: usize) -> SignatureLine {
        self.cosigner_line(text, &format!("node-{}", node + 1), &self.nodes[node], node)
    }

    pub(crate) fn witness_line(&self, text: &str, witness: usize) -> SignatureLine {
        let label = format!("verifier-{}", witness + 1);
        self.cosigner_line(text, &label, &self.witnesses[witness], witness)
    }

    fn cosigner_line(
        &self,
        text: &str,
        label: &str,
        key: &SigningKey,
        index: usize,
    ) -> SignatureLine {
        let name = self.origin.cosigner_name(label).unwrap();
        SignatureLine::by_cosigner(name, key, text, TIME_S + index as u64).unwrap()
    }

    /// Signed by the first node as the log, and cosigned by the nodes and witnesses named.
    pub(crate) fn head(
        &self,
        checkpoint: &Checkpoint,
        nodes: &[usize],
        witnesses: &[usize],
    ) -> Note {
        let text = checkpoint.to_string();
        let mut head = Note::new(text.clone(), self.log_line(&text, 0)).unwrap();
        for node in nodes {
            head.add(self.node_line(&text, *node)).unwrap();
        }
        for witness in witnesses {
            head.add(self.witness_line(&text, *witness)).unwrap();
        }
        head
    }
}
