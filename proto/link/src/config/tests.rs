//! Precedence, unknown keys, kinds and the round trip of configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::*;
use crate::exit::ExitCode;
use crate::logs::{Format, Logs};

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Node {
    name: String,
    listen: Listen,
    peers: BTreeMap<String, SocketAddr>,
    logs: Logs,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Listen {
    address: SocketAddr,
    streams_max: u32,
    roles: Vec<String>,
    strict: bool,
    deadline_ms: Option<u64>,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            name: "n1".into(),
            listen: Listen::default(),
            peers: BTreeMap::new(),
            logs: Logs::default(),
        }
    }
}

impl Default for Listen {
    fn default() -> Listen {
        let address = SocketAddr::from(([127, 0, 0, 1], 7100));
        Listen {
            address,
            streams_max: 64,
            roles: vec![],
            strict: true,
            deadline_ms: None,
        }
    }
}

struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> File {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("node.toml"), text).expect("written");
        File(folder)
    }

    fn sources(&self) -> Sources {
        Sources::none().file(self.0.path().join("node.toml"))
    }
}

fn refusal(sources: &Sources) -> ConfigError {
    load::<Node>(sources).expect_err("refused")
}

#[test]
fn nothing_given_is_the_default() {
    assert_eq!(
        load::<Node>(&Sources::none()).expect("defaults"),
        Node::default()
    );
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let file =
        File::new("name = \"file\"\n[listen]\nstreams_max = 1\ndeadline_ms = 1\nstrict = false\n");
    let sources = file
        .sources()
        .env("REDLATCH_NAME", "env")
        .env("REDLATCH_LISTEN__STREAMS_MAX", "2")
        .flag("listen.streams_max", "3");
    let node: Node = load(&sources).expect("valid");
    assert_eq!(node.listen.streams_max, 3, "flag");
    assert_eq!(node.name, "env", "variable");
    assert_eq!(
        (node.listen.deadline_ms, node.listen.strict),
        (Some(1), false),
        "file"
    );
    assert_eq!(node.listen.address, Listen::default().address, "default");
}

#[test]
fn text_is_read_as_the_kind_its_key_has() {
    let sources = Sources::none()
        .env("REDLATCH_NAME", "17")
        .env("REDLATCH_LISTEN__ROLES", "node, client")
        .env("REDLATCH_LISTEN__STRICT", "false")
        .env("REDLATCH_LISTEN__DEADLINE_MS", "250")
        .env("REDLATCH_PEERS__N2", "127.0.0.1:7102")
        .env("REDLATCH_LOGS__FORMAT", "json");
    let node: Node = load(&sources).expect("valid");
    assert_eq!(node.name, "17");
    assert_eq!(node.listen.roles, ["node", "client"]);
    assert_eq!(
        (node.listen.strict, node.listen.deadline_ms),
        (false, Some(250))
    );
    assert_eq!(node.peers["n2"], SocketAddr::from(([127, 0, 0, 1], 7102)));
    assert_eq!(node.logs.format, Format::Json);
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_key() {
    let file = File::new("name = \"n1\"\n\n[listen]\nstrict = true\nadress = \"127.0.0.1:1\"\n");
    let error = refusal(&file.sources());
    let text = error.to_string();
    assert!(
        text.ends_with("node.toml:5: unknown key `listen.adress`; did you mean `listen.address`?"),
        "{text}"
    );
    assert_eq!(error.code(), ExitCode::Usage);
    assert!(error.hint().expect("keys").contains("listen.streams_max"));
}

#[test]
fn an_unknown_section_variable_and_flag_are_refused_too() {
    let section = refusal(&File::new("[lisen]\nstrict = true\n").sources()).to_string();
    assert!(
        section.ends_with("node.toml:1: unknown key `lisen`; did you mean `listen`?"),
        "{section}"
    );
    let variable = refusal(&Sources::none().env("REDLATCH_LISTEN__STRCT", "true")).to_string();
    assert_eq!(
        variable,
        "environment variable REDLATCH_LISTEN__STRCT: unknown key `listen.strct`; did you mean `listen.strict`?"
    );
    let flag = refusal(&Sources::none().flag("colour", "red")).to_string();
    assert_eq!(flag, "flag --colour: unknown key `colour`");
}

#[test]
fn a_value_of_the_wrong_kind_names_its_key_and_line() {
    let cases = [
        (
            "[listen]\nstreams_max = \"many\"\n",
            ":2: `listen.streams_max`: ",
        ),
        ("[listen]\nstreams_max = -1\n", ":2: `listen.streams_max`: "),
        ("[listen]\naddress = \"here\"\n", ":2: `listen.address`: "),
        ("listen = 5\n", ":1: `listen`: a table of keys is expected"),
        (
            "[logs]\nformat = \"xml\"\n",
            ":2: `logs.format`: unknown variant `xml`",
        ),
        ("name = \"a\"\nname = \"b\"\n", ":2: not TOML: "),
        ("name = \n", ":1: not TOML: "),
    ];
    for (text, part) in cases {
        let message = refusal(&File::new(text).sources()).to_string();
        assert!(message.contains(part), "{text:?}: {message}");
    }
    let text = refusal(&Sources::none().env("REDLATCH_LISTEN__STREAMS_MAX", "x")).to_string();
    assert_eq!(
        text,
        "environment variable REDLATCH_LISTEN__STREAMS_MAX: `listen.streams_max`: `x` is not a whole number"
    );
}

#[test]
fn a_missing_file_is_a_usage_error() {
    let error = refusal(&Sources::none().file("/nowhere/node.toml"));
    assert_eq!(error.code(), ExitCode::Usage);
    assert!(error.to_string().contains("/nowhere/node.toml"));
}

#[test]
fn what_print_writes_load_reads() {
    let mut node = Node {
        name: "n\"3".into(),
        ..Node::default()
    };
    node.peers
        .insert("n2".into(), SocketAddr::from(([127, 0, 0, 1], 7102)));
    node.listen.deadline_ms = Some(9);
    let file = File::new(&print(&node).expect("printable"));
    assert_eq!(load::<Node>(&file.sources()).expect("valid"), node);
}
