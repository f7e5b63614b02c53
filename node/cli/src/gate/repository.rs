//! The bare repository behind a gate: refused if it can show other objects than it names (FAULTS 81).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use redlatch_types::Digest;
use redlatch_types::records::Text;

use super::core::update::Landing;
use super::refusal::{GateError, Refused};
use crate::environment;
use crate::git::{Git, GitError, ObjectFormat, ObjectId};

/// Files by which a repository shows other objects, or fewer, than its own.
const UNSAFE_FILES: [(&str, &str); 6] = [
    ("info/grafts", "info/grafts"),
    ("shallow", "shallow"),
    ("objects/info/alternates", "objects/info/alternates"),
    (
        "objects/info/http-alternates",
        "objects/info/http-alternates",
    ),
    ("commondir", "a common directory elsewhere"),
    ("config.worktree", "a second configuration file"),
];

/// Largest evidence file, in bytes: verifiers fetch no larger one.
pub(crate) const EVIDENCE_BYTES_MAX: u64 = 64 * 1024;

/// What git tells a hook about where the received objects are.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookEnvironment {
    /// `GIT_DIR`.
    pub(crate) directory: Option<OsString>,
    /// `GIT_QUARANTINE_PATH`.
    pub(crate) quarantine: Option<OsString>,
    /// `GIT_OBJECT_DIRECTORY`.
    pub(crate) objects: Option<OsString>,
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`.
    pub(crate) alternates: Option<OsString>,
    /// `GIT_SHALLOW_FILE`.
    pub(crate) shallow: Option<OsString>,
}

impl HookEnvironment {
    /// Of this process.
    pub(crate) fn of_process() -> HookEnvironment {
        let variable = |name| environment::variable(name).filter(|value| !value.is_empty());
        HookEnvironment {
            directory: variable("GIT_DIR"),
            quarantine: variable("GIT_QUARANTINE_PATH"),
            objects: variable("GIT_OBJECT_DIRECTORY"),
            alternates: variable("GIT_ALTERNATE_OBJECT_DIRECTORIES"),
            shallow: variable("GIT_SHALLOW_FILE"),
        }
    }
}

/// A repository that was looked at and not refused.
#[derive(Debug)]
pub(crate) struct Repository {
    /// Its git directory, absolute.
    pub(crate) folder: PathBuf,
    /// How it names objects.
    pub(crate) format: ObjectFormat,
    git: Git,
}

impl Repository {
    /// Looks at a repository at rest.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) fn open(folder: &Path) -> Result<Repository, GateError> {
        let folder = absolute(folder)?;
        refuse_unsafe_files(&folder)?;
        let git = Git::of_directory(&folder);
        if git.line(&["rev-parse", "--is-bare-repository"])? != "true" {
            return Err(Refused::UnsafeRepository("a work tree").into());
        }
        if !git
            .run(&["for-each-ref", "--count=1", "refs/replace/"])?
            .is_empty()
        {
            return Err(Refused::UnsafeRepository("refs/replace/").into());
        }
        Ok(Repository {
            format: git.format()?,
            folder,
            git,
        })
    }

    /// Looks at the repository of a hook, with the objects it is receiving.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) fn of_hook(environment: &HookEnvironment) -> Result<Repository, GateError> {
        if environment.shallow.is_some() {
            return Err(Refused::UnsafeRepository("a shallow push").into());
        }
        let folder = environment.directory.clone().unwrap_or_else(|| ".".into());
        let mut repository = Repository::open(Path::new(&folder))?;
        let own = repository.folder.join("objects");
        if let Some(quarantine) = quarantine(environment, &own)? {
            repository.git = Git::of_directory(&repository.folder)
                .with("GIT_OBJECT_DIRECTORY", &quarantine)
                .with("GIT_ALTERNATE_OBJECT_DIRECTORIES", &own);
        }
        Ok(repository)
    }

    /// The commit that is pushed: there, itself, and nothing but its own files.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) fn check_commit(&self, id: &ObjectId) -> Result<(), GateError> {
        self.git.commit(id, self.format)?;
        if self.git.has_gitlinks(id)? {
            return Err(Refused::Gitlink.into());
        }
        Ok(())
    }

    /// The blob that is pushed as evidence: small, itself, and named by the digest of its bytes.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) fn check_evidence(&self, id: &ObjectId, digest: &Digest) -> Result<(), GateError> {
        let size = self.git.line(&["cat-file", "-s", &id.to_string()])?;
        if size
            .parse::<u64>()
            .map_or(true, |size| size > EVIDENCE_BYTES_MAX)
        {
            return Err(Refused::EvidenceName.into());
        }
        let bytes = self.git.run(&["cat-file", "blob", &id.to_string()])?;
        if self.format.id_of("blob", &bytes).as_deref() != Some(id.bytes()) {
            return Err(GitError::NotItself(id.to_string()).into());
        }
        if Digest::of(&bytes) != *digest {
            return Err(Refused::EvidenceName.into());
        }
        Ok(())
    }

    /// Whether the move follows the branch's history.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) fn check_fast_forward(&self, landing: &Landing) -> Result<(), GateError> {
        match &landing.old {
            Some(old) if !self.git.is_ancestor(old, &landing.new)? => {
                Err(Refused::NotFastForward.into())
            }
            _ => Ok(()),
        }
    }

    /// What a ref is at: the bytes of the id, empty if there is none.
    ///
    /// # Errors
    /// [`GateError`]; a ref that stands for another is refused.
    pub(crate) fn head(&self, reference: &Text) -> Result<Vec<u8>, GateError> {
        let format = "--format=%(objectname) %(refname) %(symref)";
        let listed = self
            .git
            .line(&["for-each-ref", format, reference.as_str()])?;
        for line in listed.lines() {
            let mut parts = line.split(' ');
            let (id, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            if name != reference.as_str() {
                continue;
            }
            if parts.next().is_some_and(|target| !target.is_empty()) {
                return Err(Refused::AliasRef.into());
            }
            let id =
                ObjectId::parse(id, self.format).ok_or(GitError::Unreadable("for-each-ref"))?;
            return Ok(id.bytes().to_vec());
        }
        Ok(Vec::new())
    }
}

fn absolute(path: &Path) -> Result<PathBuf, GateError> {
    path.canonicalize()
        .map_err(|_| Refused::UnsafeRepository("no such folder").into())
}

fn refuse_unsafe_files(folder: &Path) -> Result<(), GateError> {
    for (file, what) in UNSAFE_FILES {
        // An entry that cannot be looked at counts as there.
        match fs::symlink_metadata(folder.join(file)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => return Err(Refused::UnsafeRepository(what).into()),
        }
    }
    Ok(())
}

/// Git's own quarantine below the repository's objects, or nothing; anything else is an alternate.
fn quarantine(environment: &HookEnvironment, own: &Path) -> Result<Option<PathBuf>, GateError> {
    let foreign = || GateError::from(Refused::UnsafeRepository("an object store elsewhere"));
    let Some(named) = &environment.quarantine else {
        return match (&environment.objects, &environment.alternates) {
            (None, None) => Ok(None),
            _ => Err(foreign()),
        };
    };
    let folder = absolute(Path::new(named))?;
    let objects = environment.objects.as_ref().ok_or_else(foreign)?;
    let alternates = environment.alternates.as_ref().ok_or_else(foreign)?;
    let inside = folder.parent() == Some(own)
        && folder
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("tmp_objdir-"));
    let same = absolute(Path::new(objects))? == folder && absolute(Path::new(alternates))? == own;
    if !inside || !same {
        return Err(foreign());
    }
    refuse_alternates(&folder)?;
    Ok(Some(folder))
}

fn refuse_alternates(quarantine: &Path) -> Result<(), GateError> {
    if quarantine.join("info").symlink_metadata().is_ok() {
        return Err(Refused::UnsafeRepository("alternates in the quarantine").into());
    }
    Ok(())
}
