//! `redlatch dev`: runs every process of a development organism under one folder until it is stopped.
//!
//! Each process is one of its own, with its own keys and state; this command only starts them, says where
//! they listen, keeps their logs and stops them. A process that ends does not end the others: that is what a
//! cluster is for.

mod child;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use redlatch_link::build_id::build_id_of;
use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_link::world::{self, Monotonic};
use redlatch_node::NodeConfig;
use serde_json::json;

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

/// A node as it is started.
struct Node {
    name: String,
    config: NodeConfig,
    child: Child,
}

pub(crate) async fn run(arguments: &DevArguments, common: &Common) -> Done {
    let folder = &arguments.folder;
    if init::is_empty(folder)? {
        init::make(folder, &arguments.shape)?;
        output::note(&format!("made a new organism in {}", folder.display()));
    }
    init::warn();
    let _lock = lock(folder)?;
    let binary = node_binary()?;
    let mut nodes = start(folder, &binary)?;
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

/// The node's executable beside this one: both come from one build.
fn node_binary() -> Result<PathBuf, Failure> {
    let missing = |text: String| {
        Failure::new(ExitCode::Error, text)
            .hint("build all binaries (`make build`); redlatch-node must lie beside redlatch")
    };
    let own = std::env::current_exe()
        .map_err(|error| missing(format!("cannot find this executable: {error}")))?;
    let beside = own.with_file_name("redlatch-node");
    if beside.is_file() {
        Ok(beside)
    } else {
        Err(missing(format!("no executable {}", beside.display())))
    }
}

fn start(folder: &Path, binary: &Path) -> Result<Vec<Node>, Failure> {
    let unreadable = |error: std::io::Error| {
        let text = format!("{} holds no organism: {error}", folder.display());
        Failure::new(ExitCode::Usage, text).hint("make one with `redlatch init --dev DIR`")
    };
    let mut names: Vec<String> = std::fs::read_dir(folder.join("nodes"))
        .map_err(unreadable)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut nodes = Vec::new();
    for name in names {
        let file = folder.join("nodes").join(&name).join("node.toml");
        let config: NodeConfig = config::load(&Sources::none().file(&file))?;
        let child = Child::start(&name, binary, &file, folder)?;
        nodes.push(Node {
            name,
            config,
            child,
        });
    }
    Ok(nodes)
}

/// Waits until every node says that it is ready.
async fn until_ready(nodes: &mut [Node], within: Duration) -> Result<(), Failure> {
    let begun = Monotonic::now();
    for node in nodes {
        let address = node.config.listen.diagnostics;
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

fn show(folder: &Path, nodes: &[Node], format: Format) -> Result<output::Reader, Failure> {
    let processes: Vec<_> = nodes
        .iter()
        .map(|node| {
            json!({
                "name": node.name,
                "pid": node.child.pid(),
                "clients": node.config.listen.clients.to_string(),
                "peers": node.config.listen.peers.to_string(),
                "diagnostics": node.config.listen.diagnostics.to_string(),
                "log": node.child.log().display().to_string(),
            })
        })
        .collect();
    let answer =
        json!({ "ready": true, "folder": folder.display().to_string(), "nodes": processes });
    output::print(format, &answer, |_| {
        let rows: Vec<Vec<String>> = nodes
            .iter()
            .map(|node| {
                vec![
                    node.name.clone(),
                    node.child.pid().to_string(),
                    node.config.listen.clients.to_string(),
                    node.config.listen.peers.to_string(),
                    format!("http://{}", node.config.listen.diagnostics),
                    node.child.log().display().to_string(),
                ]
            })
            .collect();
        let headings = ["NODE", "PID", "CLIENTS", "PEERS", "DIAGNOSTICS", "LOG"];
        let table = output::table(&headings, &rows);
        let dir = folder.display();
        format!("{table}\nready; try `redlatch --dir {dir} status`. Ctrl-C stops everything.\n")
    })
}

/// Says when a process ends, until all have (true), or somebody asks to stop.
async fn watch(nodes: &mut [Node]) -> bool {
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
