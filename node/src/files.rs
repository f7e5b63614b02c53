//! What a node's configuration names, read and checked against each other before anything is started.

use redlatch_link::transport::Credentials;
use redlatch_link::{PeerIdentity, Role};
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_raft::node::StartError;
use redlatch_types::records::{GenesisV1, RosterV1};
use redlatch_types::{Envelope, Name, NodeId, OrganismId};

use crate::config::NodeConfig;
use crate::start::StartFailure;

/// The files of one node.
pub struct NodeFiles {
    /// Certificate, key, authority, pins.
    pub credentials: Credentials,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// The organism it starts.
    pub organism: OrganismId,
    /// The node's signing keys.
    pub keys: NodeSigningKeys,
    /// Its number.
    pub node_id: NodeId,
    /// Its name in certificate and roster.
    pub name: Name,
}

impl NodeFiles {
    /// Reads everything that the configuration names.
    ///
    /// # Errors
    /// [`StartFailure`] with the first thing that is missing or does not fit the rest.
    pub fn read(config: &NodeConfig) -> Result<NodeFiles, StartFailure> {
        config.check()?;
        let credentials = Credentials::load(&config.tls)?;
        let genesis = config.read_genesis()?;
        let keys = config.read_keys()?;
        let signed = genesis
            .open::<GenesisV1>()
            .map_err(|_| StartFailure::NotAGenesis {
                path: config.genesis.clone(),
            })?;
        let organism = signed.record().organism_id();
        let identity = credentials.identity();
        if identity.organism != organism {
            return Err(StartFailure::WrongOrganism {
                genesis: organism,
                certificate: identity.organism,
            });
        }
        let (node_id, name) = place(&signed.record().roster, &identity, config.number)?;
        let ours = signed.record().roster.node(node_id).is_none_or(|node| {
            node.log_key == keys.log.public_key()
                && node.cosigner_key == keys.cosigner.public_key()
                && node.record_key == keys.record.public_key()
        });
        if !ours {
            return Err(StartError::WrongKeys.into());
        }
        Ok(NodeFiles {
            credentials,
            genesis,
            organism,
            keys,
            node_id,
            name,
        })
    }
}

/// Number and name of the node that holds this certificate: as the genesis names it, or by `number` if it
/// joins later. Whether it has joined is the roster's to say.
///
/// # Errors
/// [`StartFailure::NotANode`] for a certificate of another role, or if nothing says the number;
/// [`StartFailure::Setting`] if the genesis says another one, or has given it to another node.
pub(crate) fn place(
    roster: &RosterV1,
    identity: &PeerIdentity,
    number: u64,
) -> Result<(NodeId, Name), StartFailure> {
    let stranger = || StartFailure::NotANode(identity.short());
    if identity.role != Role::Node {
        return Err(stranger());
    }
    let taken = |what: String| StartFailure::Setting {
        key: "number",
        what,
    };
    let named = roster
        .nodes
        .iter()
        .find(|it| it.name.as_str() == identity.name);
    match named {
        Some(node) if number == 0 || number == node.node_id.0 => {
            Ok((node.node_id, node.name.clone()))
        }
        Some(node) => Err(taken(format!(
            "{number}, but the genesis names {} as node {}",
            node.name, node.node_id
        ))),
        None if number == 0 => Err(stranger()),
        None => match roster.node(NodeId(number)) {
            Some(other) => Err(taken(format!(
                "{number} is {} in the genesis; no two nodes ever have one number",
                other.name
            ))),
            None => {
                let name = Name::new(&identity.name).map_err(|_| stranger())?;
                Ok((NodeId(number), name))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use redlatch_link::exit::{ExitCode, Fails};
    use redlatch_types::records::{PinnedParty, RosterNode, Seat};
    use redlatch_types::{Digest, PublicKey, RosterEpoch};

    use super::*;

    /// Nodes n1 to n3, by their numbers.
    fn roster() -> RosterV1 {
        let key = PublicKey([0; 32]);
        let node = |number: u64| RosterNode {
            node_id: NodeId(number),
            name: Name::new(&format!("n{number}")).expect("a name"),
            seat: Seat::Voter,
            log_key: key,
            cosigner_key: key,
            record_key: key,
        };
        let party = PinnedParty {
            name: Name::new("party").expect("a name"),
            key,
            builds_digest: Digest::ZERO,
            policy_digest: Digest::ZERO,
        };
        RosterV1 {
            roster_epoch: RosterEpoch(1),
            nodes: (1..=3).map(node).collect(),
            verifiers: Vec::new(),
            sentinel: party.clone(),
            actuator: party,
        }
    }

    fn placed(role: Role, name: &str, number: u64) -> Result<u64, ExitCode> {
        let organism = OrganismId(Digest::ZERO);
        let identity = PeerIdentity::new(organism, role, name).expect("a name");
        let placed = place(&roster(), &identity, number);
        placed.map(|(id, _)| id.0).map_err(|error| error.code())
    }

    #[test]
    fn a_node_has_the_genesis_number_or_one_that_nobody_has_and_never_another_ones() {
        assert_eq!(placed(Role::Node, "n2", 0), Ok(2));
        assert_eq!(placed(Role::Node, "n2", 2), Ok(2));
        assert_eq!(placed(Role::Node, "n4", 4), Ok(4));
        assert_eq!(placed(Role::Node, "n4", 0), Err(ExitCode::Refused));
        assert_eq!(placed(Role::Node, "n4", 3), Err(ExitCode::Usage));
        assert_eq!(placed(Role::Node, "n2", 4), Err(ExitCode::Usage));
        assert_eq!(placed(Role::Verifier, "n4", 4), Err(ExitCode::Refused));
    }
}
