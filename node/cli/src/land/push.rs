//! Pushes to a gated repository, and what its gate answered.

use std::path::Path;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_types::records::CandidatePushV1;
use redlatch_types::{Bytes, Envelope, IntentDigest, Name};

use crate::gate::core::update::{CANDIDATES, INTENT_OPTION, candidate_option};
use crate::git::{self, Git, GitError, ObjectFormat, ObjectId};

/// The candidate ref of a commit.
pub(super) fn candidate_reference(commit: &ObjectId) -> String {
    format!("{CANDIDATES}{commit}")
}

/// What a subject signs beside an object that it brings.
pub(super) fn statement(repository: &Name, object: &ObjectId) -> CandidatePushV1 {
    CandidatePushV1 {
        repository: repository.clone(),
        object: Bytes(object.bytes().to_vec()),
    }
}

/// What a ref of the remote repository is at.
pub(super) fn remote_head(
    git: &Git,
    remote: &str,
    reference: &str,
    format: ObjectFormat,
) -> Result<Option<ObjectId>, Failure> {
    let listed = git
        .run(&["ls-remote", "--end-of-options", remote, reference])
        .map_err(unreachable)?;
    let text = String::from_utf8_lossy(&listed);
    let exact = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find(|(_, name)| *name == reference);
    Ok(exact.and_then(|(id, _)| ObjectId::parse(id, format)))
}

fn unreachable(error: GitError) -> Failure {
    match error {
        GitError::Failed { stderr, .. } => Failure::new(
            ExitCode::Unavailable,
            format!("unavailable the repository does not answer: {stderr}"),
        )
        .hint("check --repo, and that this user may read it"),
        other => other.into(),
    }
}

/// Stores a file as a blob of the source repository.
pub(super) fn store(git: &Git, file: &Path) -> Result<ObjectId, Failure> {
    let file = file.canonicalize().map_err(|error| {
        Failure::new(
            ExitCode::Error,
            format!("cannot read {}: {error}", file.display()),
        )
    })?;
    let format = git.format()?;
    let path = file.to_string_lossy().into_owned();
    let id = git.line(&["hash-object", "-w", "--no-filters", "--", &path])?;
    ObjectId::parse(&id, format).ok_or_else(|| GitError::Unreadable("hash-object").into())
}

/// Creates a ref, unless it is there: such refs never move, so what is there is what was meant.
pub(super) fn created_once(
    git: &Git,
    remote: &str,
    object: &ObjectId,
    reference: &str,
    sign: impl FnOnce(&ObjectId) -> Envelope,
    format: ObjectFormat,
) -> Result<(), Failure> {
    if remote_head(git, remote, reference, format)?.as_ref() == Some(object) {
        return Ok(());
    }
    let option = candidate_option(&sign(object));
    let pushed = push(git, remote, &option, object, reference);
    // Somebody else may have created it meanwhile.
    match pushed {
        Err(_) if remote_head(git, remote, reference, format)?.as_ref() == Some(object) => Ok(()),
        other => other,
    }
}

/// Moves the branch by the authority of a committed intent.
pub(super) fn landing(
    git: &Git,
    remote: &str,
    commit: &ObjectId,
    reference: &str,
    intent: IntentDigest,
) -> Result<(), Failure> {
    push(
        git,
        remote,
        &format!("{INTENT_OPTION}{intent}"),
        commit,
        reference,
    )
}

fn push(
    git: &Git,
    remote: &str,
    option: &str,
    object: &ObjectId,
    reference: &str,
) -> Result<(), Failure> {
    let spec = format!("{object}:{reference}");
    let pushed = git.output(&[
        "-c",
        "push.followTags=false",
        "push",
        "--porcelain",
        "--no-verify",
        "--no-signed",
        "--recurse-submodules=no",
        "-o",
        option,
        "--end-of-options",
        remote,
        &spec,
    ])?;
    if pushed.status.success() {
        return Ok(());
    }
    let said = [&pushed.stderr[..], &pushed.stdout[..]].concat();
    Err(answer(&String::from_utf8_lossy(&said), reference))
}

/// The failure that a gate's lines stand for, or git's own.
fn answer(said: &str, reference: &str) -> Failure {
    let lines: Vec<&str> = said
        .lines()
        .map(|line| line.strip_prefix("remote: ").unwrap_or(line).trim())
        .collect();
    let words = [
        ("refused ", ExitCode::Refused),
        ("unavailable ", ExitCode::Unavailable),
        ("indeterminate ", ExitCode::Indeterminate),
        ("failed ", ExitCode::Error),
    ];
    let hint = lines.iter().find_map(|line| line.strip_prefix("hint: "));
    for line in lines.iter().filter_map(|line| line.strip_prefix("error: ")) {
        for (word, code) in words {
            if line.starts_with(word) {
                let failure = Failure::new(code, format!("the gate of {reference}: {line}"));
                return match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                };
            }
        }
    }
    if lines
        .iter()
        .any(|line| line.contains("does not support push options"))
    {
        let text = "the repository takes no push options: there is no gate in front of it";
        return Failure::new(ExitCode::Error, text)
            .hint("redlatch gate install --repo PATH --config FILE, where the repository is");
    }
    if lines
        .iter()
        .any(|line| line.contains("[rejected]") || line.contains("non-fast-forward"))
    {
        let text =
            format!("refused stale_head: {reference} moved, or the commit does not follow from it");
        return Failure::new(ExitCode::Refused, text)
            .hint("rebase on the current head, then land again");
    }
    let reason = git::reason(lines.iter().copied());
    if lines.iter().any(|line| line.ends_with(git::NEVER_BEGAN)) {
        let text = format!("unavailable the repository of {reference} does not answer: {reason}");
        return Failure::new(ExitCode::Unavailable, text)
            .hint("check --repo, and that this user may write to it");
    }
    let text = format!("git push of {reference} failed: {reason}");
    Failure::new(ExitCode::Error, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_keeps_its_exit_code_across_git() {
        let said = "remote: error: refused red_latched: A RED is latched.        \n\
                    remote:  hint: See status.        \nTo /srv/repo.git\n ! [remote rejected] main\n";
        let failure = answer(said, "refs/heads/main");
        assert_eq!(failure.code, ExitCode::Refused);
        assert!(
            failure.text.contains("refused red_latched: A RED"),
            "{}",
            failure.text
        );
        assert_eq!(failure.hint.as_deref(), Some("See status."));
        let cases = [
            (
                "remote: error: unavailable no node\n",
                ExitCode::Unavailable,
            ),
            (
                "remote: error: indeterminate cut off\n",
                ExitCode::Indeterminate,
            ),
            ("remote: error: failed git is missing\n", ExitCode::Error),
            (
                "!\tx:refs/heads/main\t[rejected] (fetch first)\n",
                ExitCode::Refused,
            ),
            ("fatal: unable to access\n", ExitCode::Error),
            (GONE, ExitCode::Unavailable),
            (
                "fatal: the receiving end does not support push options\n",
                ExitCode::Error,
            ),
        ];
        for (said, code) in cases {
            assert_eq!(answer(said, "refs/heads/main").code, code, "{said}");
        }
    }

    /// As git 2.47 writes it.
    const GONE: &str = "fatal: '/srv/repo.git' does not appear to be a git repository\n\
        fatal: Could not read from remote repository.\n\n\
        Please make sure you have the correct access rights\nand the repository exists.\n";

    #[test]
    fn gits_reason_is_kept_and_not_its_advice() {
        let failure = answer(GONE, "refs/heads/main");
        assert!(
            failure
                .text
                .ends_with("does not appear to be a git repository"),
            "{}",
            failure.text
        );
        let silent = "fatal: Could not read from remote repository.\n\nPlease make sure\n";
        let failure = answer(silent, "refs/heads/main");
        assert!(failure.text.ends_with(git::NEVER_BEGAN), "{}", failure.text);
    }
}
