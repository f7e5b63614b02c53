//! Doors to the operating system that a shell opens in one place only.

use crate::finding::{Finding, none};
use crate::source::{self, Source};

/// A call, the files that may contain it, and what everybody else uses.
struct Door {
    call: &'static str,
    /// Counts only in a file that also contains this.
    with: &'static str,
    homes: &'static [&'static str],
    instead: &'static str,
}

const CONFIG: &str = "proto/link/src/config/";
const SUPERVISOR: &str = "proto/link/src/supervisor.rs";

const DOORS: [Door; 8] = [
    Door {
        call: "SystemTime::now",
        with: "",
        homes: &["proto/link/src/world.rs"],
        instead: "redlatch_link::world, the same in both worlds (D7)",
    },
    Door {
        call: "Instant::now",
        with: "std::time::",
        homes: &[
            "proto/link/src/world.rs",
            "proto/link/src/world/",
            "raft/src/runtime.rs",
        ],
        instead: "redlatch_link::world::Monotonic",
    },
    Door {
        call: "fs::write(",
        with: "",
        // The engine's stop record: written when the disk has failed already, best effort.
        homes: &["proto/link/src/file.rs", "raft/src/engine/rocks.rs"],
        instead: "redlatch_link::file::replace_file: whole or not at all, synced",
    },
    Door {
        call: "process::exit(",
        with: "",
        homes: &["proto/link/src/exit.rs"],
        instead: "an ExitCode returned from main: destructors run, state is closed",
    },
    Door {
        call: "thread::spawn(",
        with: "",
        homes: &[],
        instead: "redlatch_link::world::spawn: system threads do not exist in the simulated world",
    },
    Door {
        call: "thread::Builder",
        with: "",
        // The engine's writer and the diagnostics endpoint outlive a blocked runtime.
        homes: &[
            "raft/src/engine/rocks.rs",
            "proto/link/src/diagnostics/endpoint.rs",
        ],
        instead: "redlatch_link::world::spawn: system threads do not exist in the simulated world",
    },
    Door {
        call: "env::var(",
        with: "",
        homes: &[CONFIG, SUPERVISOR],
        instead: "the configuration (flag over environment over file over default)",
    },
    Door {
        call: "env::var_os(",
        with: "",
        // Git talks to its hooks in variables.
        homes: &[CONFIG, SUPERVISOR, "node/cli/src/environment.rs"],
        instead: "the configuration (flag over environment over file over default)",
    },
];

fn side_doors(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shipped = |it: &&Source| it.shipped() && !it.path.ends_with("build.rs");
    for source in sources.iter().filter(shipped) {
        for door in &DOORS {
            let at_home = door.homes.iter().any(|home| source.path.starts_with(home));
            let counts = source
                .production()
                .any(|(_, code)| code.contains(door.with));
            if at_home || !counts {
                continue;
            }
            let calls = source
                .production()
                .filter(|(_, code)| source::mentions(code, door.call));
            findings.extend(calls.map(|(line, _)| {
                Finding::new(
                    &source.path,
                    line,
                    format!("{}: use {}", door.call, door.instead),
                )
            }));
        }
    }
    findings
}

#[test]
fn doors_to_the_system_have_one_place() {
    none(
        side_doors(&source::all()),
        "Use what is named; a new home for the call is a line in DOORS with its reason.",
    );
}

mod bad_examples {
    use super::*;
    use crate::finding::places;

    #[test]
    fn a_side_door_is_found_and_a_home_is_not() {
        let text = "use std::time::Instant;\nlet a = Instant::now();\nfs::write(p, b);\n#[cfg(test)]\nfn t() {\n    fs::write(p, b);\n}\n";
        let virtual_clock = "use tokio::time::Instant;\nlet a = Instant::now();\n";
        let sources = [
            Source::parse("node/src/a.rs", text),
            Source::parse("node/src/b.rs", virtual_clock),
            Source::parse("tests/a.rs", text),
            Source::parse("proto/link/src/world.rs", "std::time::Instant::now();\n"),
        ];
        let here = "node/src/a.rs";
        assert_eq!(places(&side_doors(&sources)), [(here, 2), (here, 3)]);
    }
}
