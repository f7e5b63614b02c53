//! A real bare repository behind the organism's gate, and a work tree that has commits for it.

use std::path::{Path, PathBuf};

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_types::IntentDigest;

use super::stage::Stage;
use super::timeline::{expect, typed};
use crate::gate::core::update::INTENT_OPTION;
use crate::git::{self, Git, ObjectFormat, ObjectId};

/// The branch that is guarded.
pub(super) const BRANCH: &str = "refs/heads/main";

/// Both repositories.
pub(super) struct Repository {
    bare: PathBuf,
    work: PathBuf,
}

/// A push, as git ended it.
pub(super) struct Push {
    pub(super) accepted: bool,
    /// The gate's line, or git's own reason.
    pub(super) said: String,
}

impl Push {
    /// Asserts that it was refused, and that the gate did it: git can fail for reasons of its own.
    ///
    /// # Errors
    /// [`Failure`] with what was said.
    pub(super) fn expect_refused(&self) -> Result<(), Failure> {
        let by_gate = !self.accepted && self.said.starts_with("refused ");
        expect(by_gate, "the push refused by the gate", &self.said)
    }
}

impl Repository {
    /// Makes both, and installs the gate in the bare one.
    ///
    /// # Errors
    /// [`Failure`] of git or of the installation.
    pub(super) async fn create(stage: &Stage) -> Result<Repository, Failure> {
        let repository = Repository {
            bare: stage.organism().join("repositories/demo.git"),
            work: stage.place().join("work"),
        };
        for folder in [&repository.bare, &repository.work] {
            file::create_private_folder(folder)?;
        }
        let (work, bare) = (repository.git(), Git::in_folder(&repository.bare));
        bare.run(&["init", "-q", "--bare", "--template=", "-b", "main", "."])?;
        work.run(&["init", "-q", "--template=", "-b", "main", "."])?;
        let path = repository.bare();
        let install = ["--dir", stage.dir(), "gate", "install", "--repo", &path];
        typed(&stage.tool.typed(&install))?;
        stage.tool.done(&install).await?;
        Ok(repository)
    }

    /// Path of the bare one.
    pub(super) fn bare(&self) -> String {
        self.bare.display().to_string()
    }

    /// Path of the work tree.
    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    fn git(&self) -> Git {
        Git::in_folder(&self.work)
    }

    /// A commit that adds one file.
    ///
    /// # Errors
    /// [`Failure`] of git.
    pub(super) fn commit(&self, name: &str, content: &str) -> Result<ObjectId, Failure> {
        file::replace_file(&self.work.join(name), content.as_bytes(), Access::Public)?;
        let git = self.git();
        git.run(&["add", "--", name])?;
        let message = format!("Add {name}");
        git.run(&[
            "-c",
            "user.name=demo",
            "-c",
            "user.email=demo@localhost",
            "-c",
            "commit.gpgSign=false",
            "commit",
            "-q",
            "-m",
            &message,
        ])?;
        Ok(git.resolve("HEAD", ObjectFormat::Sha1)?)
    }

    /// Pushes a commit to the branch with git alone, naming an intent or none.
    ///
    /// # Errors
    /// [`Failure`] if git cannot be run.
    pub(super) fn push(
        &self,
        commit: &ObjectId,
        intent: Option<IntentDigest>,
    ) -> Result<Push, Failure> {
        let spec = format!("{commit}:{BRANCH}");
        let bare = self.bare();
        let option = intent.map(|it| format!("{INTENT_OPTION}{it}"));
        let mut arguments = vec!["push", "--porcelain"];
        if let Some(option) = &option {
            arguments.extend(["-o", option]);
        }
        arguments.extend([bare.as_str(), spec.as_str()]);
        let shown = option
            .as_ref()
            .map_or(String::new(), |_| "-o redlatch-intent=… ".to_owned());
        typed(&format!("git push {shown}demo.git {BRANCH}"))?;
        let output = self.git().output(&arguments)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = |mark: &str| {
            said.lines()
                .find_map(|it| Some(it.split_once(mark)?.1.trim()))
        };
        let gate = line("remote: error: ");
        Ok(Push {
            accepted: output.status.success(),
            said: gate.unwrap_or_else(|| git::reason(said.lines())).to_owned(),
        })
    }

    /// What the guarded branch is at.
    ///
    /// # Errors
    /// [`Failure`] of git.
    pub(super) fn head(&self) -> Result<Option<ObjectId>, Failure> {
        let bare = Git::of_directory(&self.bare);
        match bare.resolve(BRANCH, ObjectFormat::Sha1) {
            Ok(id) => Ok(Some(id)),
            Err(crate::git::GitError::NoCommit(_)) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Asserts what the guarded branch is at.
    ///
    /// # Errors
    /// [`Failure`] if it is at something else.
    pub(super) fn expect_head(&self, wanted: Option<&ObjectId>) -> Result<(), Failure> {
        let shown = |id: Option<&ObjectId>| id.map_or("nothing".to_owned(), ObjectId::to_string);
        let head = self.head()?;
        expect(
            head.as_ref() == wanted,
            format!("{BRANCH} at {}", shown(wanted)),
            shown(head.as_ref()),
        )
    }
}

/// Where a file of the demo stands, as an argument.
pub(super) fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        let text = format!("{} is not Unicode", path.display());
        Failure::new(ExitCode::Usage, text).hint("set TMPDIR to a folder with a plain name")
    })
}
