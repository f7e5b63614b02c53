//! What the roster is told of a node, as text: its number, its name and its three public keys.
//!
//! It is made where the node's keys lie and read where a change of the roster is proposed; nothing in it is
//! secret, and nothing is trusted because it stands in a file: what it names joins by a person's decision.

use std::path::Path;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_node::NodeFiles;
use redlatch_types::records::{RosterNode, Seat};
use redlatch_types::sign::check_key;
use redlatch_types::{Name, NodeId, PublicKey};
use serde::Deserialize;

/// The file. A key that it does not have, or one more, is no record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    number: u64,
    name: String,
    log_key: String,
    cosigner_key: String,
    record_key: String,
}

/// The node whose files these are. Whoever joins counts for nothing yet.
pub(super) fn of(files: &NodeFiles) -> RosterNode {
    RosterNode {
        node_id: files.node_id,
        name: files.name.clone(),
        seat: Seat::Learner,
        log_key: files.keys.log.public_key(),
        cosigner_key: files.keys.cosigner.public_key(),
        record_key: files.keys.record.public_key(),
    }
}

/// The record as TOML.
pub(super) fn text(node: &RosterNode) -> String {
    let RosterNode {
        node_id,
        name,
        seat: _,
        log_key,
        cosigner_key,
        record_key,
    } = node;
    format!(
        "# A node for `redlatch node join`. Nothing here is secret.\n\
         number = {node_id}\n\
         name = \"{name}\"\n\
         log_key = \"{log_key}\"\n\
         cosigner_key = \"{cosigner_key}\"\n\
         record_key = \"{record_key}\"\n"
    )
}

/// Reads what [`text`] wrote.
///
/// # Errors
/// [`Failure`] that names what is wrong with the file.
pub(super) fn read(path: &Path) -> Result<RosterNode, Failure> {
    let bytes = file::read_file(path)?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|why| {
        let text = format!("{} describes no node: {why}", path.display());
        Failure::new(ExitCode::Usage, text)
            .hint("`redlatch node describe NODE.toml` prints it on the node's host")
    })
}

fn parse(text: &str) -> Result<RosterNode, String> {
    let written: Written = toml::from_str(text).map_err(|it| it.message().to_owned())?;
    let key = |field: &str, text: &str| {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|error| format!("{field}: {error}"))?;
        let key = PublicKey(bytes);
        check_key(&key).map_err(|error| format!("{field}: {error}"))?;
        Ok::<_, String>(key)
    };
    if written.number == 0 {
        return Err("number: nodes are numbered from 1".to_owned());
    }
    Ok(RosterNode {
        node_id: NodeId(written.number),
        name: Name::new(&written.name).map_err(|error| format!("name: {error}"))?,
        seat: Seat::Learner,
        log_key: key("log_key", &written.log_key)?,
        cosigner_key: key("cosigner_key", &written.cosigner_key)?,
        record_key: key("record_key", &written.record_key)?,
    })
}

#[cfg(test)]
mod tests {
    use redlatch_types::SigningKey;

    use super::*;

    fn node() -> RosterNode {
        let key = |seed| SigningKey::from_seed([seed; 32]).public_key();
        RosterNode {
            node_id: NodeId(4),
            name: Name::new("n4").expect("a name"),
            seat: Seat::Learner,
            log_key: key(1),
            cosigner_key: key(2),
            record_key: key(3),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(parse(&text(&node())), Ok(node()));
    }

    #[test]
    fn fault_044_a_record_that_is_not_whole_or_names_a_bad_key_is_refused_by_its_field() {
        let good = text(&node());
        let zero = "00".repeat(32);
        let key = node().log_key.to_string();
        let cases = [
            (good.replace("number = 4", "number = 0"), "number"),
            (good.replace("\"n4\"", "\"No\""), "name"),
            (good.replace(&key, "00"), "log_key"),
            (good.replace(&key, &zero), "log_key"),
            (good.replace("cosigner_key", "cosigner"), "cosigner"),
            (good.clone() + "seat = \"voter\"\n", "seat"),
        ];
        for (text, names) in cases {
            let why = parse(&text).expect_err(&text);
            assert!(why.contains(names), "{why} for {text}");
        }
    }
}
