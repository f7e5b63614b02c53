//! Somebody who brings commits before an organism: a work tree, a branch, and the person's tool.
//!
//! ```text
//!   work tree ─▶ commit ─▶ gate attest ─▶ land ─▶ branch of the gated repository
//! ```
//!
//! Does not assert how a landing ends: it gives the tool's answer. It holds no process, so it may be used on a
//! thread of its own while the organism's processes are killed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary;
use crate::process::{Answer, command};

/// An author of one branch.
pub struct Author {
    /// Folder of the test, which holds the organism's.
    folder: PathBuf,
    branch: String,
}

impl Author {
    /// The author of a branch; there is no work tree yet.
    pub(crate) fn of(folder: &Path, branch: &str) -> Author {
        Author {
            folder: folder.to_path_buf(),
            branch: branch.to_owned(),
        }
    }

    /// Makes the work tree.
    pub(crate) fn begin(&self) {
        let work = self.work();
        std::fs::create_dir_all(&work).expect("the folder of this test is writable");
        git(&work, &["init", "-q", "--template=", "-b", "main", "."]);
    }

    fn place(&self) -> PathBuf {
        self.folder.join("organism")
    }

    fn bare(&self) -> PathBuf {
        self.place().join("repositories/demo.git")
    }

    fn work(&self) -> PathBuf {
        self.folder.join("work").join(&self.branch)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Runs the person's tool against the organism.
    pub fn tool(&self, arguments: &[&str]) -> Answer {
        let mut tool = command(&binary("redlatch"));
        tool.arg("--dir").arg(self.place());
        Answer::of(tool.args(arguments))
    }

    /// Makes a commit that adds one file; its id.
    pub fn commit(&self, name: &str) -> String {
        let work = self.work();
        std::fs::write(work.join(name), format!("{name}\n")).expect("writable");
        git(&work, &["add", "--", name]);
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        git(&work, &[&who[..], &["commit", "-q", "-m", name]].concat());
        git(&work, &["rev-parse", "HEAD"])
    }

    /// Has a commit attested and brings it before the organism; the tool's answer in JSON where it landed.
    pub fn land(&self, commit: &str, wait_s: u32) -> Answer {
        let (receipt, work) = (self.receipt(commit), self.work().display().to_string());
        let attest = ["gate", "attest", "--repo", &work, "--commit", commit];
        let attest = [&attest[..], &["--command", "ls", "--out", &receipt]].concat();
        let attested = self.tool(&attest);
        assert_eq!(attested.code, Some(0), "{attested:#?}");
        self.bring(commit, wait_s, &[])
    }

    /// Goes on with the landing of a commit whose intent is frozen already.
    pub fn go_on(&self, commit: &str, intent: &str, wait_s: u32) -> Answer {
        self.bring(commit, wait_s, &["--intent", intent])
    }

    fn bring(&self, commit: &str, wait_s: u32, more: &[&str]) -> Answer {
        let (receipt, work) = (self.receipt(commit), self.work().display().to_string());
        let (bare, wait) = (self.bare().display().to_string(), wait_s.to_string());
        let (reference, receipt) = (self.reference(), receipt.as_str());
        let land = ["-o", "json", "land", "--repo", &bare, "--source", &work];
        let what = [
            "--ref",
            &reference,
            "--commit",
            commit,
            "--evidence",
            receipt,
        ];
        self.tool(&[&land[..], &what[..], &["--wait", &wait], more].concat())
    }

    fn receipt(&self, commit: &str) -> String {
        let receipt = self.folder.join(format!("{commit}.receipt"));
        receipt.display().to_string()
    }

    /// What the branch is at in the gated repository; none if it does not exist.
    pub fn head(&self) -> Option<String> {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.bare());
        let reference = self.reference();
        let answer = Answer::of(git.args(["rev-parse", "--verify", "--quiet", &reference]));
        (answer.code == Some(0)).then(|| answer.out.trim().to_owned())
    }
}

/// Git's answer, without the settings of whoever runs the tests.
#[track_caller]
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(arguments);
    git.env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    let answer = Answer::of(&mut git);
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:#?}");
    answer.out.trim().to_owned()
}
