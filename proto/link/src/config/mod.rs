//! Configuration: one TOML file under environment variables under flags, above the defaults.
//!
//! ```text
//!  default (serde)  <  file.toml  <  REDLATCH_SECTION__KEY=…  <  --section.key …   ->  load::<T>()  ->  T
//! ```
//!
//! A key that `T` does not have is an error that names the nearest key `T` has and where the unknown one
//! stands (file and line, variable, or flag). `T` is any serde type whose structs say `#[serde(default)]`;
//! `#[serde(flatten)]` would hide key names from the check and is not used in configuration types.
//! Whether the values make sense together is the business of the process they belong to.

mod nearest;
mod read;
mod value;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::{ExitCode, Fails};
use value::Node;

/// What every variable of the product begins with.
pub const ENV_PREFIX: &str = "REDLATCH_";
/// The variable that names the configuration file; no key of it.
pub const ENV_FILE: &str = "REDLATCH_CONFIG";

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file, at a line counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// In an environment variable.
    Env(String),
    /// On the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Env(name) => write!(f, "environment variable {name}"),
            Origin::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: not TOML: {message}")]
    Syntax {
        /// Where reading stopped.
        origin: Origin,
        /// What the parser said.
        message: String,
    },
    /// A key that does not exist.
    #[error("{origin}: unknown key `{key}`{}", suggestion(nearest))]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The whole key, dotted.
        key: String,
        /// The nearest valid key, dotted, if any resembles it.
        nearest: Option<String>,
        /// Every key that is valid in its place.
        valid: Vec<String>,
    },
    /// A value of the wrong kind, or a required key that is missing.
    #[error("{}`{key}`: {message}", place(origin))]
    Invalid {
        /// Where it stands; none for a key that is missing.
        origin: Option<Origin>,
        /// The whole key, dotted.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// A variable whose value is not Unicode.
    #[error("environment variable {0} is not Unicode")]
    NotUnicode(String),
    /// The effective configuration cannot be written as TOML.
    #[error("the configuration cannot be printed as TOML")]
    Unprintable(#[from] toml::ser::Error),
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map(|key| format!("; did you mean `{key}`?"))
        .unwrap_or_default()
}

fn place(origin: &Option<Origin>) -> String {
    origin
        .as_ref()
        .map(|origin| format!("{origin}: "))
        .unwrap_or_default()
}

impl Fails for ConfigError {
    fn code(&self) -> ExitCode {
        match self {
            ConfigError::Unprintable(_) => ExitCode::Error,
            _ => ExitCode::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Unreadable { .. } => {
                Some(format!("name an existing file with --config or {ENV_FILE}"))
            }
            ConfigError::UnknownKey { valid, .. } => {
                Some(format!("valid keys here: {}", valid.join(", ")))
            }
            _ => None,
        }
    }
}

/// The layers a configuration is read from. Later layers win: file, environment, flags.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    env: Vec<(String, String)>,
    flags: Vec<(String, String)>,
}

impl Sources {
    /// Nothing but defaults.
    pub fn none() -> Sources {
        Sources::default()
    }

    /// The file named by the flag or else by [`ENV_FILE`], and the variables of this process. `reserved`
    /// are variables with the product's prefix that are no keys.
    pub fn of_process(file: Option<&Path>, reserved: &[&str]) -> Result<Sources, ConfigError> {
        let mut sources = Sources::none();
        sources.file = file
            .map(Path::to_owned)
            .or_else(|| std::env::var_os(ENV_FILE).map(PathBuf::from));
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with(ENV_PREFIX)) else {
                continue;
            };
            if name == ENV_FILE || reserved.contains(&name) {
                continue;
            }
            let value = value
                .into_string()
                .map_err(|_| ConfigError::NotUnicode(name.to_owned()))?;
            sources = sources.env(name, value);
        }
        // The order of the process's environment decides nothing.
        sources.env.sort();
        Ok(sources)
    }

    /// Reads this file.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Sources {
        self.file = Some(path.into());
        self
    }

    /// Adds a variable: `REDLATCH_LISTEN__ADDRESS` is the key `listen.address`.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Sources {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Adds a flag's value under its dotted key.
    #[must_use]
    pub fn flag(mut self, key: impl Into<String>, value: impl Into<String>) -> Sources {
        self.flags.push((key.into(), value.into()));
        self
    }

    fn merged(&self) -> Result<Node, ConfigError> {
        let mut root = match &self.file {
            Some(path) => value::parse_file(path)?,
            None => Node::root(),
        };
        for (name, text) in &self.env {
            let key = name
                .strip_prefix(ENV_PREFIX)
                .unwrap_or(name)
                .to_ascii_lowercase();
            root.set(key.split("__"), text, &Origin::Env(name.clone()));
        }
        for (key, text) in &self.flags {
            root.set(key.split('.'), text, &Origin::Flag(key.clone()));
        }
        Ok(root)
    }
}

/// Reads a configuration: every layer merged key by key, then checked against `T`.
pub fn load<T: DeserializeOwned>(sources: &Sources) -> Result<T, ConfigError> {
    read::read(sources.merged()?)
}

/// The effective configuration as a TOML file that [`load`] reads back.
pub fn print<T: Serialize>(config: &T) -> Result<String, ConfigError> {
    Ok(toml::to_string_pretty(config)?)
}

#[cfg(test)]
mod tests;
