//! What a node's configuration names, read and checked against each other before anything is started.

use redlatch_link::transport::Credentials;
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_raft::node::StartError;
use redlatch_types::records::GenesisV1;
use redlatch_types::{Envelope, OrganismId};

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
        let mut nodes = signed.record().roster.nodes.iter();
        let node = nodes
            .find(|node| node.name.as_str() == identity.name)
            .ok_or_else(|| StartFailure::NotANode(identity.short()))?;
        let ours = node.log_key == keys.log.public_key()
            && node.cosigner_key == keys.cosigner.public_key()
            && node.record_key == keys.record.public_key();
        if !ours {
            return Err(StartError::WrongKeys.into());
        }
        Ok(NodeFiles {
            credentials,
            genesis,
            organism,
            keys,
        })
    }
}
