//! Logs: one record per line on standard error, as JSON or text, RFC 3339 in UTC.
//!
//! Records that belong to an intent carry its digest under the one name [`INTENT_ID`]. Secrets have no
//! `Debug` or `Display` in this product, so they cannot reach a record; nothing here filters them out.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::{ExitCode, Fails};

/// The field under which every record names the intent it belongs to (DESIGN §11).
pub const INTENT_ID: &str = "intent_id";

/// The `[logs]` section of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Logs {
    /// How a record is written.
    pub format: Format,
    /// Which records are written, in `tracing` filter syntax: `info,redlatch_raft=debug`.
    pub filter: String,
}

impl Default for Logs {
    fn default() -> Logs {
        Logs {
            format: Format::Text,
            filter: "info".into(),
        }
    }
}

/// How a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object per line, fields at the top level.
    Json,
    /// One line for people.
    Text,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not in the filter syntax.
    #[error("logs.filter `{filter}` is not a valid filter")]
    Filter {
        /// What was configured.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// A subscriber is installed already.
    #[error("logging is already set up in this process")]
    AlreadySetUp,
}

impl Fails for LogsError {
    fn code(&self) -> ExitCode {
        match self {
            LogsError::Filter { .. } => ExitCode::Usage,
            LogsError::AlreadySetUp => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            LogsError::Filter { .. } => Some("try `info` or `info,redlatch_raft=debug`".into()),
            LogsError::AlreadySetUp => None,
        }
    }
}

/// Installs the process's log subscriber, once.
pub fn install(logs: &Logs) -> Result<(), LogsError> {
    let filter = EnvFilter::try_new(&logs.filter).map_err(|source| LogsError::Filter {
        filter: logs.filter.clone(),
        source,
    })?;
    // A closed standard error must not take a process down, so internal errors stay unreported.
    let layer = tracing_subscriber::fmt::layer()
        .with_timer(SystemTime)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false);
    let base = tracing_subscriber::registry().with(filter);
    let installed = match logs.format {
        Format::Json => base.with(layer.json().flatten_event(true)).try_init(),
        Format::Text => base.with(layer).try_init(),
    };
    installed.map_err(|_| LogsError::AlreadySetUp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_a_usage_error_that_names_it() {
        let logs = Logs {
            filter: "redlatch=loud=er".into(),
            ..Logs::default()
        };
        let failure = install(&logs).expect_err("not a filter").failure();
        assert_eq!(failure.code, ExitCode::Usage);
        assert!(failure.text.contains("redlatch=loud=er"), "{failure}");
    }
}
