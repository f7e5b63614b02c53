//! `redlatch dev`: runs every process of a development organism under one folder until it is stopped.
//!
//! Each process is one of its own, with its own keys and state; this command only starts them, says where
//! they listen, keeps their logs and stops them. A process that ends does not end the others: that is what a
//! cluster is for.

mod child;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use redlatch_link::build_id::build_id_of;
use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_link::world::{self, Monotonic};

use crate::answer::{self, Running};
use crate::client::Client;
use crate::output::Format;
use crate::{Common, Done, init, output};
use child::Child;

/// How often readiness is looked at.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct DevArguments {
    /// Folder of the organism; made by `init --dev` first if it is empty or absent.
    folder: PathBuf,
    #[command(flatten)]
    shape: init::Shape,
    /// How long the nodes may take to become ready, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    ready_within: u64,
}

/// A kind of process: what `init --dev` made for it, and the executable that runs it.
struct Kind {
    role: &'static str,
    /// Folder of its one process, or of a folder for each.
    place: &'static str,
    /// Name of the configuration file.
    file: &'static str,
    binary: &'static str,
}

/// Every kind, in the order in which they are started.
const KINDS: [Kind; 4] = [
    Kind {
        role: "node",
        place: "nodes",
        file: "node.toml",
        binary: "redlatch-node",
    },
    Kind {
        role: "verifier",
        place: "verifiers",
        file: "verifier.toml",
        binary: "redlatch-verifier",
    },
    Kind {
        role: "actuator",
        place: "actuator",
        file: "actuator.toml",
        binary: "redlatch-actuator",
    },
    Kind {
        role: "sentinel",
        place: "sentinel",
        file: "sentinel.toml",
        binary: "redlatch-sentinel",
    },
];

/// A process as it is started.
struct Process {
    name: String,
    role: &'static str,
    /// Where it listens, as its configuration says.
    listen: BTreeMap<String, SocketAddr>,
    /// Whether it is a node that waits until the roster names it.
    joins: bool,
    child: Child,
}

impl Process {
    /// The address under a key of `[listen]`.
    fn address(&self, key: &str) -> Result<SocketAddr, Failure> {
        self.listen.get(key).copied().ok_or_else(|| {
            let text = format!("{} has no listen.{key} in its configuration", self.name);
            Failure::new(ExitCode::Usage, text)
        })
    }
}

pub(crate) async fn run(arguments: &DevArguments, common: &Common) -> Done {
    let folder = &arguments.folder;
    if init::is_empty(folder)? {
        init::make(folder, &arguments.shape)?;
        output::note(&format!("made a new organism in {}", folder.display()));
    }
    // A folder that holds something else is left as it is.
    configurations(folder, &KINDS[0])?;
    init::warn();
    let _lock = lock(folder)?;
    let binary = binary("redlatch-node")?;
    let mut nodes = start(folder)?;
    let ready = Duration::from_secs(arguments.ready_within);
    let begun = tokio::select! {
        biased;
        () = world::stop_signal() => Ok(false),
        ready = until_ready(&mut nodes, ready) => ready.map(|()| true),
    };
    let begun = match begun {
        Ok(true) => check_builds(folder, common, &binary).await.map(|()| true),
        other => other,
    };
    let begun = match begun {
        Ok(true) => show(folder, &nodes, common.output).map(|_| true),
        other => other,
    };
    let mut all_ended = false;
    if let Ok(true) = begun {
        all_ended = watch(&mut nodes).await;
    }
    output::note(&format!("stopping {} processes", nodes.len()));
    for node in &nodes {
        node.child.ask_to_stop();
    }
    for node in &mut nodes {
        node.child.stopped().await;
    }
    output::note("stopped");
    begun.map(|_| u8::from(all_ended))
}

/// Holds the folder for this command: two of them would start every process twice.
fn lock(folder: &Path) -> Result<File, Failure> {
    let place = folder.join("run");
    file::create_private_folder(&place)?;
    let path = place.join("dev.lock");
    let taken = |error: &dyn std::fmt::Display| {
        let text = format!("{} is in use: {error}", folder.display());
        Failure::new(ExitCode::Unavailable, text)
            .hint("another `redlatch dev` runs on this folder: stop it first")
    };
    let file = File::create(&path).map_err(|error| taken(&error))?;
    file.try_lock().map_err(|error| taken(&error))?;
    Ok(file)
}

/// An executable beside this one: all come from one build.
fn binary(name: &str) -> Result<PathBuf, Failure> {
    let missing = |text: String| {
        Failure::new(ExitCode::Error, text).hint(format!(
            "build all binaries (`make build`); {name} must lie beside redlatch"
        ))
    };
    let own = std::env::current_exe()
        .map_err(|error| missing(format!("cannot find this executable: {error}")))?;
    let beside = own.with_file_name(name);
    if beside.is_file() {
        Ok(beside)
    } else {
        Err(missing(format!("no executable {}", beside.display())))
    }
}

fn start(folder: &Path) -> Result<Vec<Process>, Failure> {
    let mut processes = Vec::new();
    for kind in &KINDS {
        for (name, file) in configurations(folder, kind)? {
            let config = config::load(&Sources::none().file(&file))?;
            let child = Child::start(&name, &binary(kind.binary)?, &file, folder)?;
            processes.push(Process {
                name,
                role: kind.role,
                listen: listen(&config),
                joins: config["number"].as_u64().is_some_and(|it| it > 0),
                child,
            });
        }
    }
    Ok(processes)
}

/// Names and configuration files of the processes of a kind, by name.
fn configurations(folder: &Path, kind: &Kind) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let place = folder.join(kind.place);
    let alone = place.join(kind.file);
    if alone.is_file() {
        return Ok(BTreeMap::from([(kind.role.to_owned(), alone)]));
    }
    let unreadable = |error: std::io::Error| {
        let text = format!("{} holds no organism: {error}", folder.display());
        Failure::new(ExitCode::Usage, text).hint("make one with `redlatch init --dev DIR`")
    };
    let found = std::fs::read_dir(&place)
        .map_err(unreadable)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let file = entry.path().join(kind.file);
            let name = entry.file_name().into_string().ok()?;
            file.is_file().then_some((name, file))
        });
    Ok(found.collect())
}

/// The `[listen]` section of a configuration file. The process itself judges the rest of it.
fn listen(config: &serde_json::Value) -> BTreeMap<String, SocketAddr> {
    let section = config["listen"].as_object().into_iter().flatten();
    let address = |(key, value): (&String, &serde_json::Value)| {
        Some((key.clone(), value.as_str()?.parse().ok()?))
    };
    section.filter_map(address).collect()
}

/// Waits until every process says that it is ready, but for nodes that may not have joined.
async fn until_ready(nodes: &mut [Process], within: Duration) -> Result<(), Failure> {
    let begun = Monotonic::now();
    for node in nodes {
        if node.joins {
            output::note(&format!("{} waits until the roster names it", node.name));
            continue;
        }
        let address = node.address("diagnostics")?;
        loop {
            let (ready, page) = match child::page(address, "/readyz").await {
                Ok((200, _)) => (true, String::new()),
                Ok((_, page)) => (false, page),
                Err(error) => (false, error.to_string()),
            };
            if ready {
                output::note(&format!("{} is ready", node.name));
                break;
            }
            if let Some(ended) = node.child.ended() {
                let text = format!("{} ended ({ended})\n{}", node.name, node.child.last_words());
                return Err(Failure::new(ExitCode::Error, text.trim_end().to_owned())
                    .hint(format!("its log is {}", node.child.log().display())));
            }
            if begun.elapsed() > within {
                let text = format!(
                    "{} is not ready: {}",
                    node.name,
                    page.trim().replace('\n', "; ")
                );
                return Err(Failure::new(ExitCode::Unavailable, text)
                    .hint(format!("its log is {}", node.child.log().display())));
            }
            world::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Refuses processes that run another build than the executable that was started.
async fn check_builds(folder: &Path, common: &Common, binary: &Path) -> Result<(), Failure> {
    let file = build_id_of(binary).map_err(|error| {
        Failure::new(
            ExitCode::Error,
            format!("cannot read {}: {error}", binary.display()),
        )
    })?;
    let common = Common {
        config: None,
        dir: Some(folder.to_owned()),
        subject: None,
        ..common.clone()
    };
    let client = Client::open(&common, "operator")?;
    for member in client.nodes.members() {
        let shown = client.nodes.cluster(&member.name, client.deadline).await?;
        if shown.build_id != file {
            let text = format!(
                "{} runs another build than {}",
                member.name,
                binary.display()
            );
            return Err(Failure::new(ExitCode::Error, text)
                .hint("stop the process that runs on this folder already"));
        }
    }
    Ok(())
}

fn show(folder: &Path, processes: &[Process], format: Format) -> Result<output::Reader, Failure> {
    let shown = |it: &Process| answer::Process {
        name: it.name.clone(),
        role: it.role.to_owned(),
        pid: it.child.pid(),
        log: it.child.log().display().to_string(),
        listen: it
            .listen
            .iter()
            .map(|(key, address)| (key.clone(), address.to_string()))
            .collect(),
    };
    let (nodes, parties): (Vec<_>, Vec<_>) = processes.iter().partition(|it| it.role == "node");
    let answer = Running {
        ready: true,
        folder: folder.display().to_string(),
        nodes: nodes.into_iter().map(shown).collect(),
        parties: parties.into_iter().map(shown).collect(),
    };
    output::print(format, &answer, |_| {
        let rows: Vec<Vec<String>> = processes
            .iter()
            .map(|it| {
                let listens = it.listen.iter();
                let words = listens.map(|(key, address)| format!("{key} {address}"));
                vec![
                    it.name.clone(),
                    it.role.to_owned(),
                    it.child.pid().to_string(),
                    words.collect::<Vec<_>>().join(", "),
                    it.child.log().display().to_string(),
                ]
            })
            .collect();
        let table = output::table(&["NAME", "ROLE", "PID", "LISTENS", "LOG"], &rows);
        let dir = folder.display();
        format!("{table}\nready; try `redlatch --dir {dir} status`. Ctrl-C stops everything.\n")
    })
}

/// Says when a process ends, until all have (true), or somebody asks to stop.
async fn watch(nodes: &mut [Process]) -> bool {
    let watching = async {
        loop {
            let mut running = 0;
            for node in nodes.iter_mut() {
                match node.child.ended_now() {
                    Some(how) => {
                        output::note(&format!("{} ended ({how}); the others go on", node.name));
                    }
                    None => running += usize::from(node.child.ended().is_none()),
                }
            }
            if running == 0 {
                output::note("no process is left");
                return;
            }
            world::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        () = world::stop_signal() => false,
        () = watching => true,
    }
}
