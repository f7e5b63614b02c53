//! The verifier's own clone: bare, without hooks, filled by name from one source, one call at a time.
//!
//! Only the candidate's ref and refs of named evidence are ever fetched. Fetched packs are indexed and
//! checked by git (`fetch.fsckObjects`), and whatever is judged is hashed again here. A clone that is lost is
//! made anew; nothing depends on it.

use std::path::PathBuf;

use redlatch_link::file::{self, Access};
use redlatch_types::Digest;
use tokio::sync::Mutex;

use super::command::{Git, GitFault};
use super::objects::{ObjectFormat, ObjectId, Objects};

/// Where candidates stand in the source.
const CANDIDATES: &str = "refs/redlatch/candidate/";
/// Where evidence stands in the source: one blob per ref, named by its SHA-256.
const EVIDENCE: &str = "refs/redlatch/evidence/";
/// Largest evidence file, in bytes.
const EVIDENCE_BYTES_MAX: u64 = 64 * 1024;

const CONFIGURATION: &str = "[safe]\n\tdirectory = *\n[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\
    [fetch]\n\tfsckObjects = true\n\tunpackLimit = 1\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n\
    [protocol]\n\tversion = 2\n[submodule]\n\trecurse = false\n";

/// Where a quarantine lies and what it fetches from.
#[derive(Clone, Debug)]
pub struct QuarantineConfig {
    /// Folder of the clones, one per object format.
    pub folder: PathBuf,
    /// Path or URL of the guarded repository.
    pub source: String,
    /// Where git is looked for.
    pub search_path: String,
    /// Protocols that a fetch may use.
    pub protocols: String,
}

/// The clones.
pub struct Quarantine {
    config: QuarantineConfig,
    /// Held while git changes a clone.
    fetching: Mutex<()>,
}

impl Quarantine {
    /// Nothing is made or fetched yet.
    pub fn new(config: QuarantineConfig) -> Quarantine {
        Quarantine {
            config,
            fetching: Mutex::new(()),
        }
    }

    /// Fetches a candidate and gives its objects.
    pub(super) async fn candidate(&self, id: &ObjectId) -> Result<Objects, GitFault> {
        let git = self
            .fetch(id.format(), &format!("{CANDIDATES}{id}"))
            .await?;
        Objects::open(&git, id.format())
    }

    /// Fetches an evidence file: bytes that hash to `digest`.
    ///
    /// # Errors
    /// A sentence about what is missing.
    pub async fn evidence(&self, format: ObjectFormat, digest: &Digest) -> Result<Vec<u8>, String> {
        let found = self.fetch_evidence(format, digest).await;
        let bytes = found.map_err(|fault| format!("evidence {digest}: {fault}"))?;
        if Digest::of(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(format!("evidence {digest} has other bytes"))
        }
    }

    async fn fetch_evidence(
        &self,
        format: ObjectFormat,
        digest: &Digest,
    ) -> Result<Vec<u8>, GitFault> {
        let reference = format!("{EVIDENCE}{digest}");
        let git = self.fetch(format, &reference).await?;
        let output = git
            .run(
                "rev-parse",
                &["rev-parse", "--verify", "--end-of-options", &reference],
            )
            .await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let id = hex::decode(text.trim_end())
            .ok()
            .and_then(|bytes| ObjectId::new(&bytes))
            .filter(|id| id.format() == format)
            .ok_or(GitFault::Unreadable("rev-parse"))?;
        let mut objects = Objects::open(&git, format)?;
        objects.read("blob", &id, EVIDENCE_BYTES_MAX).await
    }

    /// Fetches one ref of the source under its own name.
    async fn fetch(&self, format: ObjectFormat, reference: &str) -> Result<Git, GitFault> {
        let _alone = self.fetching.lock().await;
        let git = self.clone_of(format).await?;
        let refspec = format!("+{reference}:{reference}");
        let arguments = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--refmap=",
            "--",
            &self.config.source,
            &refspec,
        ];
        git.run("fetch", &arguments).await?;
        Ok(git)
    }

    /// The clone of an object format, made if there is none.
    async fn clone_of(&self, format: ObjectFormat) -> Result<Git, GitFault> {
        let folder = &self.config.folder;
        let configuration = folder.join("gitconfig");
        let git = Git {
            folder: folder.join(format!("{}.git", format.name())),
            configuration: configuration.clone(),
            search_path: self.config.search_path.clone(),
            protocols: self.config.protocols.clone(),
        };
        if git.folder.join("HEAD").is_file() {
            return Ok(git);
        }
        file::create_private_folder(folder)?;
        file::replace_file(&configuration, CONFIGURATION.as_bytes(), Access::Private)?;
        let object_format = format!("--object-format={}", format.name());
        let bare = git.folder.display().to_string();
        let arguments = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            &object_format,
            "--",
            &bare,
        ];
        git.run_in(folder, "init", &arguments).await?;
        Ok(git)
    }
}
