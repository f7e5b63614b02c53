//! `redlatch node new`: one more node of a development organism, and its address in every configuration.
//!
//! ```text
//!   authority/ ─▶ certificate ┐
//!   random     ─▶ three keys  ├─▶ nodes/NAME/node.toml ─▶ node describe ─▶ node join
//!   a fellow's node.toml ─────┘
//! ```
//!
//! In production each of these steps belongs to somebody else: the keys to the new host, the certificate to
//! the authority, addresses and pins to whoever configures the other processes. A node that is made is in no
//! roster: that is decided.

use std::path::{Path, PathBuf};

use clap::Args;
use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::keys::create_key;
use redlatch_link::{Role, world};
use redlatch_node::NodeConfig;
use redlatch_node::config::{KeyFiles, read_genesis};
use redlatch_types::records::GenesisV1;
use redlatch_types::{Name, Refusal};

use crate::answer::NewNode;
use crate::init::certificates::Authority;
use crate::init::configs::listen;
use crate::{Common, Done, output};

/// A node to be made.
#[derive(Args)]
pub(crate) struct New {
    /// Its name; `n` and its number if none is given.
    name: Option<Name>,
    /// Its number, one that no node ever had; the next one if none is given.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
}

pub(super) fn run(new: &New, common: &Common) -> Done {
    let folder = folder_of(common)?;
    let genesis = genesis(&folder)?;
    let fellows = configurations(&folder.join("nodes"), "node.toml")?;
    let number = match new.number {
        Some(number) => number,
        None => next_number(&genesis, &fellows)?,
    };
    let name = match &new.name {
        Some(name) => name.clone(),
        None => Name::new(&format!("n{number}")).map_err(|error| usage(error.to_string()))?,
    };
    let place = folder.join("nodes").join(name.as_str());
    if place.exists() {
        return Err(usage(format!("{} exists already", place.display()))
            .hint("a node's folder is never written over: name another one"));
    }
    let Some(fellow) = fellows.first() else {
        return Err(usage(format!("{} has no node", folder.display())));
    };
    let made = make(&folder, &genesis, fellow, number, &name)?;
    for (file, table, address) in others(&folder, &made)? {
        make_known(&file, table, &name, &address, &made)?;
    }
    let config = place.join("node.toml");
    let answer = NewNode {
        node: name.to_string(),
        number: number.into(),
        config: config.display().to_string(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("node", format!("{} ({})", answer.node, answer.number)),
            ("config", answer.config.clone()),
        ])
    })?;
    output::note(
        "next: start every process of the organism again, so that it knows the new one's address; then\n      \
         redlatch node describe CONFIG > FILE, and redlatch node join FILE",
    );
    Ok(0)
}

fn usage(text: String) -> Failure {
    Failure::new(ExitCode::Usage, text)
}

/// The organism's folder, if the keys of a development organism lie in it.
fn folder_of(common: &Common) -> Result<PathBuf, Failure> {
    let folder = common.dir.as_ref().ok_or_else(|| {
        usage("no organism's folder is named".to_owned()).hint("name it with --dir DIR")
    })?;
    if !folder.join("DEVELOPMENT").is_file() {
        let text = format!(
            "refused: {}: {} holds no development organism",
            Refusal::NotSupported.code(),
            folder.display()
        );
        return Err(Failure::new(ExitCode::Refused, text).hint(
            "draw keys with `redlatch key new`, have a certificate issued, and write node.toml with its `number`",
        ));
    }
    folder
        .canonicalize()
        .map_err(|error| usage(format!("cannot find {}: {error}", folder.display())))
}

fn genesis(folder: &Path) -> Result<GenesisV1, Failure> {
    let envelope = read_genesis(&folder.join("genesis.cbor"))?;
    let signed = envelope.open::<GenesisV1>();
    let signed = signed.map_err(|error| usage(format!("genesis: {error}")))?;
    Ok(signed.record().clone())
}

/// `file` in `place`, or in each folder below it, by name.
fn configurations(place: &Path, file: &str) -> Result<Vec<PathBuf>, Failure> {
    if place.join(file).is_file() {
        return Ok(vec![place.join(file)]);
    }
    let unreadable = |error: std::io::Error| usage(format!("{}: {error}", place.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path().join(file);
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn load(file: &Path) -> Result<NodeConfig, Failure> {
    Ok(config::load(&Sources::none().file(file))?)
}

/// One more than any number of the genesis or of a node that was made here.
fn next_number(genesis: &GenesisV1, fellows: &[PathBuf]) -> Result<u64, Failure> {
    let mut highest = genesis.roster.nodes.iter().map(|it| it.node_id.0).max();
    for file in fellows {
        highest = highest.max(Some(load(file)?.number));
    }
    Ok(highest.unwrap_or_default() + 1)
}

/// What was made of a node.
struct Made {
    config: NodeConfig,
    /// Digest of its certificate's public key info.
    pin: String,
}

/// Keys, certificate and configuration, the latter after the example of a fellow.
fn make(
    folder: &Path,
    genesis: &GenesisV1,
    fellow: &Path,
    number: u64,
    name: &Name,
) -> Result<Made, Failure> {
    let fellow = load(fellow)?;
    let place = folder.join("nodes").join(name.as_str());
    let authority = Authority::open(&folder.join("authority"))?;
    let organism = genesis.organism_id();
    let pin = authority.issue(organism, Role::Node, name.as_str(), &place)?;
    let key = |file: &str| -> Result<PathBuf, Failure> {
        let path = place.join(file);
        create_key(&path, &mut world::rng())?;
        Ok(path)
    };
    let keys = KeyFiles {
        log: key("log.key")?,
        cosigner: key("cosigner.key")?,
        record: key("record.key")?,
    };
    let mut config = NodeConfig {
        data: place.join("data"),
        number,
        rejoin: false,
        keys,
        listen: listen()?,
        peers: peers(folder)?,
        ..fellow
    };
    config.tls.certificate = place.join("tls.pem");
    config.tls.key = place.join("tls.key");
    let pinned = (format!("{}/{name}", Role::Node), vec![pin.to_string()]);
    config.tls.pins.extend([pinned]);
    let text = config::print(&config)?;
    file::create_file(&place.join("node.toml"), text.as_bytes(), Access::Private)?;
    Ok(Made {
        config,
        pin: pin.to_string(),
    })
}

/// Where every node of the folder listens for its peers, by name.
fn peers(folder: &Path) -> Result<std::collections::BTreeMap<String, String>, Failure> {
    let mut peers = std::collections::BTreeMap::new();
    for file in configurations(&folder.join("nodes"), "node.toml")? {
        let name = file.parent().and_then(Path::file_name);
        let name = name.map(|name| name.to_string_lossy().into_owned());
        peers.extend(name.zip(Some(load(&file)?.listen.peers.to_string())));
    }
    Ok(peers)
}

/// Every other configuration file, with the table in which it names nodes, and the address that belongs there.
fn others(folder: &Path, made: &Made) -> Result<Vec<(PathBuf, &'static str, String)>, Failure> {
    let listen = &made.config.listen;
    let places = [
        ("nodes", "node.toml", "peers"),
        ("verifiers", "verifier.toml", "nodes"),
        ("sentinel", "sentinel.toml", "nodes"),
        ("actuator", "actuator.toml", "nodes"),
        ("clients", "client.toml", "nodes"),
        ("clients", "gate.toml", "nodes"),
    ];
    let mut all = Vec::new();
    for (place, file, table) in places {
        let address = match table {
            "peers" => listen.peers,
            _ => listen.clients,
        };
        for found in configurations(&folder.join(place), file)? {
            let own = made.config.tls.certificate.parent() == found.parent();
            if !own {
                all.push((found, table, address.to_string()));
            }
        }
    }
    Ok(all)
}

/// Adds address and pin of the node to a configuration file.
fn make_known(
    file: &Path,
    table: &str,
    name: &Name,
    address: &str,
    made: &Made,
) -> Result<(), Failure> {
    let broken = |what: &dyn std::fmt::Display| usage(format!("{}: {what}", file.display()));
    let text = String::from_utf8(file::read_file(file)?).map_err(|error| broken(&error))?;
    let mut config: toml::Table = text.parse().map_err(|error| broken(&error))?;
    let mut put = |path: &[&str], key: String, value: toml::Value| {
        let mut at = &mut config;
        for part in path {
            let below = at.entry(*part).or_insert_with(|| toml::Table::new().into());
            at = below.as_table_mut()?;
        }
        at.insert(key, value);
        Some(())
    };
    let pins = toml::Value::Array(vec![made.pin.clone().into()]);
    put(&[table], name.to_string(), address.to_owned().into())
        .and_then(|()| put(&["tls", "pins"], format!("{}/{name}", Role::Node), pins))
        .ok_or_else(|| broken(&format!("`{table}` or `tls.pins` is no table")))?;
    let text = config::print(&config)?;
    Ok(file::replace_file(file, text.as_bytes(), Access::Private)?)
}

#[cfg(test)]
mod tests {
    use redlatch_node::NodeFiles;

    use super::*;
    use crate::output::Format;

    /// A folder that is gone at the end.
    struct Place(PathBuf);

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn common(folder: &Path) -> Common {
        Common {
            config: None,
            dir: Some(folder.to_owned()),
            subject: None,
            output: Format::Json,
            deadline: 1,
        }
    }

    #[test]
    fn a_node_that_is_made_is_complete_and_everybody_knows_where_it_is() {
        let unique = format!("redlatch-node-new-{}", std::process::id());
        let place = Place(std::env::temp_dir().join(unique));
        crate::init::make_for_tests(&place.0);
        let new = || New {
            name: None,
            number: None,
        };
        run(&new(), &common(&place.0)).expect("made");
        run(&new(), &common(&place.0)).expect("and another one");
        let folder = place.0.canonicalize().expect("it exists");
        for (name, number) in [("n4", 4), ("n5", 5)] {
            let config = load(&folder.join("nodes").join(name).join("node.toml")).expect("valid");
            assert_eq!(config.number, number);
            assert!(
                !config.peers.contains_key(name) && config.peers.len() == 4,
                "{name}"
            );
            let files = NodeFiles::read(&config).expect("complete");
            assert_eq!((files.node_id.0, files.name.as_str()), (number, name));
        }
        let fourth = load(&folder.join("nodes/n4/node.toml")).expect("valid");
        let first = load(&folder.join("nodes/n1/node.toml")).expect("valid");
        assert_eq!(first.peers["n4"], fourth.listen.peers.to_string());
        assert_eq!(first.tls.pins["node/n4"], fourth.tls.pins["node/n4"]);
        for file in [
            "clients/gate/gate.toml",
            "sentinel/sentinel.toml",
            "verifiers/v1/verifier.toml",
        ] {
            let bytes = file::read_file(&folder.join(file)).expect("made by init");
            let text = String::from_utf8(bytes).expect("text");
            let config: toml::Table = text.parse().expect("TOML");
            let address = config["nodes"]["n4"].as_str().expect("an address");
            assert_eq!(address, fourth.listen.clients.to_string(), "{file}");
            assert!(config["tls"]["pins"].get("node/n4").is_some(), "{file}");
        }
    }

    #[test]
    fn keys_of_a_production_organism_are_not_made_by_the_tool() {
        let place =
            Place(std::env::temp_dir().join(format!("redlatch-node-none-{}", std::process::id())));
        std::fs::create_dir(&place.0).expect("made");
        let failure = folder_of(&common(&place.0)).expect_err("refused");
        assert_eq!(failure.code, ExitCode::Refused);
        assert!(failure.text.contains("not_supported"), "{failure}");
    }
}
