//! A bare repository behind a gate, a clone beside it, and the organism that the gate obeys.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, PublicKeyData, SanType,
};
use redlatch_link::file::{Access, replace_file};
use redlatch_link::keys::store_key;
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::records::*;
use redlatch_types::*;

use crate::cluster::{Cluster, RUNNER};
use crate::world::{AGENT, GATE, ROOT, id, key, seal_genesis};

pub struct Bench {
    pub folder: tempfile::TempDir,
    pub cluster: Cluster,
    pub commits: Vec<String>,
    pub addresses: BTreeMap<String, String>,
    pub pins: BTreeMap<String, Vec<String>>,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub text: String,
}

impl Ended {
    pub fn of(output: &Output) -> Ended {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        Ended {
            code: output.status.code().unwrap_or(-1),
            text: String::from_utf8_lossy(&text).into_owned(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.text);
        self.text
    }

    #[track_caller]
    pub fn refused(self, code: &str) -> String {
        assert_ne!(self.code, 0, "{}", self.text);
        assert!(self.text.contains(code), "no {code} in:\n{}", self.text);
        self.text
    }
}

pub fn git_in(folder: &Path, arguments: &[&str]) -> Ended {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a path"))
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .output()
        .expect("git starts");
    Ended::of(&output)
}

pub fn redlatch(arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_redlatch"))
        .args(arguments)
        .env_remove("REDLATCH_DIR")
        .output()
        .expect("redlatch starts");
    Ended::of(&output)
}

impl Bench {
    /// Three nodes and one that may join, a gated bare repository, a clone with three commits in a row.
    pub async fn new() -> Bench {
        Bench::with_format("sha1").await
    }

    pub async fn with_format(format: &str) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = Cluster::new();
        let mut bench = Bench {
            folder,
            cluster,
            commits: Vec::new(),
            addresses: BTreeMap::new(),
            pins: BTreeMap::new(),
        };
        bench.organism().await;
        bench.repositories(format);
        let repo = bench.path("repo.git");
        let config = bench.path("gate.toml");
        redlatch(&["--config", &config, "gate", "install", "--repo", &repo]).ok();
        redlatch(&["--config", &config, "gate", "check", "--repo", &repo]).ok();
        bench
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn path(&self, name: &str) -> String {
        self.at(name).to_str().expect("text").to_owned()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        replace_file(&self.at(name), bytes, Access::Private).expect("written");
    }

    async fn organism(&mut self) {
        let genesis = crate::cluster::genesis();
        let command::RawCommand::Bootstrap(envelope) = seal_genesis(&genesis) else {
            panic!("a genesis");
        };
        assert_eq!(envelope.key, key(ROOT).public_key());
        self.write("genesis.cbor", &envelope.to_canonical());
        let policy = self.cluster.lock().policy().to_string();
        self.write("policy.txt", policy.as_bytes());
        let authority = CertificateAuthority::new();
        self.write("ca.pem", authority.pem.as_bytes());
        let organism = genesis.organism_id();
        for n in 1..=4u64 {
            let name = format!("n{n}");
            let tls = self.identity(&authority, organism, Role::Node, &name);
            let credentials = Credentials::load(&tls).expect("credentials");
            let address = self.cluster.serve(n, &credentials).await;
            self.addresses.insert(name, address.to_string());
        }
        for (role, name, n) in [
            (Role::Gate, "gate", GATE),
            (Role::Client, "agent", AGENT),
            (Role::Runner, "runner", RUNNER),
        ] {
            store_key(&self.at(&format!("{name}.key")), &key(n)).expect("stored");
            let tls = self.identity(&authority, organism, role, name);
            self.config(name, &tls);
        }
    }

    fn identity(
        &mut self,
        authority: &CertificateAuthority,
        organism: OrganismId,
        role: Role,
        name: &str,
    ) -> Tls {
        let who = PeerIdentity::new(organism, role, name).expect("an identity");
        let (certificate, private, pin) = authority.issue(&who);
        if role == Role::Node {
            self.pins.insert(who.short(), vec![pin]);
        }
        self.write(&format!("{name}.tls.pem"), certificate.as_bytes());
        self.write(&format!("{name}.tls.key"), private.as_bytes());
        Tls {
            organism: organism.to_string(),
            certificate: self.at(&format!("{name}.tls.pem")),
            key: self.at(&format!("{name}.tls.key")),
            authority: self.at("ca.pem"),
            pins: self.pins.clone(),
        }
    }

    /// `gate.toml` and `agent.toml`; the gate's has its own keys, and paths relative to the file.
    fn config(&self, name: &str, tls: &Tls) {
        let mut text = String::new();
        let file = |name: &str| {
            if tls.organism.is_empty() {
                name.to_owned()
            } else {
                self.path(name)
            }
        };
        if name == "gate" {
            text.push_str("repository = \"repo\"\nstate = \"state\"\ngenesis = \"genesis.cbor\"\n");
            text.push_str("policy = \"policy.txt\"\nsigning_key = \"gate.key\"\n");
            text.push_str("freshness_ms = 1500\ndeadline_ms = 5000\n");
        } else {
            let (genesis, policy) = (file("genesis.cbor"), file("policy.txt"));
            let signing = file(&format!("{name}.key"));
            write!(
                text,
                "genesis = {genesis:?}\npolicy = {policy:?}\nsigning_key = {signing:?}\n"
            )
            .expect("text");
            let state = file(&format!("{name}.state"));
            writeln!(text, "state = {state:?}").expect("text");
        }
        text.push_str("[nodes]\n");
        for (node, address) in &self.addresses {
            writeln!(text, "{node} = {address:?}").expect("text");
        }
        writeln!(
            text,
            "[tls]\norganism = {:?}\ncertificate = {:?}\nkey = {:?}\nauthority = {:?}",
            tls.organism, tls.certificate, tls.key, tls.authority
        )
        .expect("text");
        text.push_str("[tls.pins]\n");
        for (who, pins) in &tls.pins {
            writeln!(text, "{who:?} = {pins:?}").expect("text");
        }
        self.write(&format!("{name}.toml"), text.as_bytes());
    }

    fn repositories(&mut self, format: &str) {
        let base = self.folder.path().to_owned();
        let object_format = format!("--object-format={format}");
        git_in(&base, &["init", "-q", "--bare", &object_format, "repo.git"]).ok();
        git_in(
            &base,
            &["init", "-q", "-b", "work", &object_format, "clone"],
        )
        .ok();
        for n in 1..=3 {
            self.commit(&format!("file{n}"), "content");
        }
        self.git(&["remote", "add", "origin", &self.path("repo.git")])
            .ok();
        // The branch is there before the gate is.
        self.git(&[
            "push",
            "-q",
            "origin",
            &format!("{}:refs/heads/main", self.commits[0]),
        ])
        .ok();
    }

    pub fn commit(&mut self, file: &str, content: &str) -> String {
        std::fs::write(self.at("clone").join(file), content).expect("written");
        self.git(&["add", "-A"]).ok();
        self.git(&["commit", "-q", "-m", file]).ok();
        let commit = self.git(&["rev-parse", "HEAD"]).ok().trim().to_owned();
        self.commits.push(commit.clone());
        commit
    }

    pub fn git(&self, arguments: &[&str]) -> Ended {
        git_in(&self.at("clone"), arguments)
    }

    pub fn bare(&self, arguments: &[&str]) -> Ended {
        git_in(&self.at("repo.git"), arguments)
    }

    /// What a ref of the bare repository is at; empty if it is not there.
    pub fn head(&self, reference: &str) -> String {
        let ended = self.bare(&["rev-parse", "--verify", "--quiet", reference]);
        ended.text.trim().to_owned()
    }

    pub fn candidate_option(&self, signer: u8, repository: &str, commit: &str) -> String {
        let record = CandidatePushV1 {
            repository: id(repository),
            object: Bytes(hex::decode(commit).expect("hex")),
        };
        let scope = self.cluster.lock().world.scope();
        let envelope = Envelope::seal(scope, &key(signer), &record);
        let text = base64::Engine::encode(
            &base64::prelude::BASE64_URL_SAFE_NO_PAD,
            envelope.to_canonical(),
        );
        format!("redlatch-candidate={text}")
    }

    pub fn push_candidate(&self, commit: &str) -> Ended {
        let option = self.candidate_option(AGENT, "repo", commit);
        self.push(
            &[&option],
            &format!("{commit}:refs/redlatch/candidate/{commit}"),
        )
    }

    pub fn push(&self, options: &[&str], spec: &str) -> Ended {
        let mut arguments = vec!["push"];
        for option in options {
            arguments.extend(["-o", option]);
        }
        arguments.extend(["origin", spec]);
        self.git(&arguments)
    }

    pub fn land(&self, intent: IntentDigest, commit: &str, reference: &str) -> Ended {
        self.push(
            &[&format!("redlatch-intent={intent}")],
            &format!("{commit}:{reference}"),
        )
    }

    pub fn freeze(&self, reference: &str, old: &str, new: &str) -> IntentDigest {
        let mut shared = self.cluster.lock();
        let mut proposal = shared.world.proposal("agent", reference, 0, 1);
        let ActionPayload::Land(land) = &mut proposal.payload else {
            unreachable!("the bench lands")
        };
        land.old = Bytes(hex::decode(old).expect("hex"));
        land.new = Bytes(hex::decode(new).expect("hex"));
        let command = shared.world.freeze_command(AGENT, "agent", &proposal);
        match shared.world.ok(command) {
            event::Accepted::Frozen(digest) => digest,
            other => panic!("{other:?}"),
        }
    }

    /// Frozen, decided, committed.
    pub fn committed(&self, reference: &str, old: &str, new: &str) -> IntentDigest {
        let intent = self.freeze(reference, old, new);
        self.cluster.lock().world.commit(intent);
        intent
    }

    /// What the journal says became of an intent's effect.
    pub fn effect(&self, intent: IntentDigest) -> String {
        let shared = self.cluster.lock();
        let of_intent = |it: &&redlatch_journal::authority::Transaction| {
            it.transaction.binding.intent_digest == intent
        };
        let found = shared
            .world
            .state
            .authority
            .transactions
            .values()
            .find(of_intent);
        match found.map(|it| &it.stage) {
            Some(redlatch_journal::authority::TransactionStage::Committed(_, effect)) => {
                let text = format!("{effect:?}");
                text.split(['(', ' ']).next().unwrap_or_default().to_owned()
            }
            other => format!("{other:?}"),
        }
    }

    pub fn reconcile(&self) -> Ended {
        let (config, repo) = (self.path("gate.toml"), self.path("repo.git"));
        redlatch(&[
            "--config",
            &config,
            "gate",
            "reconcile",
            "--repo",
            &repo,
            "-o",
            "json",
        ])
    }
}

struct CertificateAuthority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    fn new() -> CertificateAuthority {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        CertificateAuthority {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, who: &PeerIdentity) -> (String, String, String) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let uri = who.to_string().try_into().expect("ASCII");
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let pin = Digest::of(&key.subject_public_key_info()).to_string();
        (certificate.pem(), key.serialize_pem(), pin)
    }
}
