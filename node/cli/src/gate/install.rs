//! Puts the gate in front of a bare repository: two hooks and the settings that they rest on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access, FileError};

use super::refusal::GateError;
use super::repository::Repository;
use crate::git::Git;

/// The hooks and the command that each of them calls.
const HOOKS: [&str; 2] = ["pre-receive", "post-receive"];
/// By this line a hook is known as ours.
const MARK: &str = "# Written by redlatch gate install.";

/// What git itself is told. It is told here rather than trusted to be told elsewhere.
const SETTINGS: [(&str, &str); 6] = [
    ("receive.advertisePushOptions", "true"),
    ("receive.denyDeletes", "true"),
    ("receive.denyNonFastForwards", "true"),
    ("receive.shallowUpdate", "false"),
    ("receive.fsckObjects", "true"),
    ("transfer.fsckObjects", "true"),
];

/// Installs the gate.
///
/// # Errors
/// [`GateError`]; a hook that somebody else wrote is left as it is.
pub(crate) fn install(repository: &Path, config: &Path) -> Result<(), GateError> {
    let repository = Repository::open(repository)?;
    let config = absolute(config)?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(ExitCode::Error, format!("this program's path: {error}")))?;
    let hooks = repository.folder.join("hooks");
    fs::create_dir_all(&hooks).map_err(|source| io("create", &hooks, source))?;
    for hook in HOOKS {
        refuse_foreign(&hooks.join(hook))?;
    }
    let git = Git::of_directory(&repository.folder);
    for (key, value) in SETTINGS {
        git.run(&["config", "--local", "--replace-all", key, value])?;
    }
    let hooks_path = hooks.to_str().ok_or_else(|| not_text(&hooks))?;
    git.run(&[
        "config",
        "--local",
        "--replace-all",
        "core.hooksPath",
        hooks_path,
    ])?;
    for hook in HOOKS {
        write_hook(&hooks.join(hook), &script(hook, &program, &config)?)?;
    }
    Ok(())
}

/// Whether both hooks and every setting are as [`install`] leaves them.
///
/// # Errors
/// [`GateError`] naming what differs.
pub(crate) fn check(repository: &Path, config: &Path) -> Result<(), GateError> {
    let repository = Repository::open(repository)?;
    let config = absolute(config)?;
    let differs = |what: String| {
        Failure::new(
            ExitCode::Error,
            format!("{what} is not as the gate needs it"),
        )
        .hint("run redlatch gate install again")
    };
    for hook in HOOKS {
        let path = repository.folder.join("hooks").join(hook);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mode = fs::metadata(&path).map_or(0, |it| it.permissions().mode());
        let named = quoted(&config)?;
        if !text.contains(MARK) || !text.contains(&named) || mode & 0o100 == 0 {
            return Err(differs(format!("hook {hook}")).into());
        }
    }
    let git = Git::of_directory(&repository.folder);
    for (key, value) in SETTINGS {
        if git.line(&["config", "--local", "--default", "", key])? != *value {
            return Err(differs((*key).to_owned()).into());
        }
    }
    Ok(())
}

fn script(hook: &str, program: &Path, config: &Path) -> Result<String, GateError> {
    let (program, config) = (quoted(program)?, quoted(config)?);
    Ok(format!(
        "#!/bin/sh\n{MARK}\nunset REDLATCH_DIR REDLATCH_CONFIG\nexec {program} gate {hook} --config {config}\n"
    ))
}

/// A path as one word of sh.
fn quoted(path: &Path) -> Result<String, GateError> {
    let text = path.to_str().ok_or_else(|| not_text(path))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

fn refuse_foreign(hook: &Path) -> Result<(), GateError> {
    match fs::read_to_string(hook) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(text) if text.contains(MARK) => Ok(()),
        _ => {
            let text = format!("{} exists and is not ours", hook.display());
            Err(Failure::new(ExitCode::Usage, text)
                .hint("move it away, or call the gate from it with git's standard input")
                .into())
        }
    }
}

/// Writes a hook whole: git passes over one that cannot be executed, so it never stands there without the bit.
fn write_hook(path: &Path, text: &str) -> Result<(), GateError> {
    let staged = path.with_extension("new");
    file::replace_file(&staged, text.as_bytes(), Access::Public).map_err(Failure::from)?;
    fs::set_permissions(&staged, fs::Permissions::from_mode(0o755))
        .map_err(|source| io("change", &staged, source))?;
    fs::rename(&staged, path).map_err(|source| io("rename into", path, source))?;
    Ok(file::sync_folder(path).map_err(Failure::from)?)
}

fn absolute(path: &Path) -> Result<PathBuf, GateError> {
    path.canonicalize().map_err(|_| {
        let missing = FileError::Missing {
            path: path.to_owned(),
        };
        Failure::from(missing).into()
    })
}

fn io(verb: &'static str, path: &Path, source: std::io::Error) -> GateError {
    let path = path.to_owned();
    Failure::from(FileError::Io { verb, path, source }).into()
}

fn not_text(path: &Path) -> GateError {
    Failure::new(
        ExitCode::Usage,
        format!("{} is not Unicode", path.display()),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_one_call_whatever_the_paths_hold() {
        let text = script(
            "pre-receive",
            Path::new("/opt/red latch"),
            Path::new("/srv/it's.toml"),
        );
        let text = text.expect("a script");
        let last = text.lines().last().expect("a line");
        assert_eq!(
            last,
            r"exec '/opt/red latch' gate pre-receive --config '/srv/it'\''s.toml'"
        );
        assert!(text.starts_with("#!/bin/sh\n"));
    }
}
