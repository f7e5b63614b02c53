//! C2SP transparency-log checkpoints: the text that nodes and witnesses sign to say how large
//! the journal is and what its root is (c2sp.org/tlog-checkpoint), and the origin that names
//! the journal (DESIGN D4).
//!
//! A checkpoint here has exactly three lines. Extension lines, which the format allows, are
//! refused: nobody audits them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::bytes::Digest;
use crate::ids::OrganismId;
use crate::note::{KeyError, KeyName, decode_base64, decode_decimal, encode_base64};

const PRODUCTION_PREFIX: &str = "redlatch";
const DEVELOPMENT_PREFIX: &str = "redlatch-dev";

/// The text is no checkpoint of a redlatch journal. Blames whoever made it.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum CheckpointError {
    /// Not exactly three lines that each end in a newline; extension lines, for instance.
    #[error("a checkpoint has exactly three lines: origin, size, root")]
    NotThreeLines,
    /// The first line.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The second line is no decimal number without leading zeros.
    #[error("the tree size is not a decimal number")]
    BadSize,
    /// The third line is not 32 bytes of base64.
    #[error("the root is not 32 bytes of base64")]
    BadRoot,
}

/// The text names no redlatch journal.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("an origin is redlatch/<organism id>/<history> or redlatch-dev/<organism id>/<history>")]
pub struct OriginError;

/// Whether an organism's journal may authorise anything real.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Stage {
    /// Trust needs nodes and witnesses.
    Production,
    /// A local organism; its trust policy may do without witnesses.
    Development,
}

/// Which journal: `redlatch/<organism id>/<history>`, or `redlatch-dev/…`. Nodes' log keys
/// bear this name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Origin {
    /// Production or development.
    pub stage: Stage,
    /// Whose journal.
    pub organism: OrganismId,
    /// 0 at first; raised by restore and recover only.
    pub history: u64,
}

impl Origin {
    /// Name of the nodes' log keys: the origin itself.
    pub fn log_name(&self) -> KeyName {
        KeyName::new(self.to_string()).expect("an origin has no space, plus or control character")
    }

    /// Name of a node's or witness's cosigner key: `redlatch/<organism id>/cosigner/<label>`.
    /// It leaves the history out, because the key outlives it.
    ///
    /// # Errors
    /// [`KeyError::BadName`] if the label is empty or cannot stand in a key name.
    pub fn cosigner_name(&self, label: &str) -> Result<KeyName, KeyError> {
        if label.is_empty() {
            return Err(KeyError::BadName);
        }
        KeyName::new(format!(
            "{}/{}/cosigner/{label}",
            self.stage.prefix(),
            self.organism.0
        ))
    }
}

impl Stage {
    fn prefix(self) -> &'static str {
        match self {
            Stage::Production => PRODUCTION_PREFIX,
            Stage::Development => DEVELOPMENT_PREFIX,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            self.stage.prefix(),
            self.organism.0,
            self.history
        )
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Origin, OriginError> {
        let mut parts = text.splitn(3, '/');
        let stage = match parts.next() {
            Some(PRODUCTION_PREFIX) => Stage::Production,
            Some(DEVELOPMENT_PREFIX) => Stage::Development,
            _ => return Err(OriginError),
        };
        let organism = parts.next().and_then(|part| part.parse::<Digest>().ok());
        let history = parts.next().and_then(decode_decimal);
        match (organism, history) {
            (Some(organism), Some(history)) => Ok(Origin {
                stage,
                organism: OrganismId(organism),
                history,
            }),
            _ => Err(OriginError),
        }
    }
}

/// A tree head: the text of a signed head, as a value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Checkpoint {
    /// Which journal.
    pub origin: Origin,
    /// Number of leaves.
    pub size: u64,
    /// RFC 6962 root of those leaves.
    pub root: Digest,
}

impl Checkpoint {
    /// Reads the text of a note, its last newline included.
    ///
    /// # Errors
    /// [`CheckpointError`] for anything that `Display` would not have written.
    pub fn parse(text: &str) -> Result<Checkpoint, CheckpointError> {
        let lines = text
            .strip_suffix('\n')
            .ok_or(CheckpointError::NotThreeLines)?;
        let mut lines = lines.split('\n');
        let (Some(origin), Some(size), Some(root), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(CheckpointError::NotThreeLines);
        };
        Ok(Checkpoint {
            origin: origin.parse()?,
            size: decode_decimal(size).ok_or(CheckpointError::BadSize)?,
            root: decode_hash(root).ok_or(CheckpointError::BadRoot)?,
        })
    }
}

/// The text to be signed, its last newline included.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}\n{}\n{}",
            self.origin,
            self.size,
            encode_base64(&self.root.0)
        )
    }
}

/// 32 bytes of base64.
pub(crate) fn decode_hash(text: &str) -> Option<Digest> {
    decode_base64(text)?.try_into().ok().map(Digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(stage: Stage, history: u64) -> Origin {
        Origin {
            stage,
            organism: OrganismId(Digest::of(b"organism")),
            history,
        }
    }

    #[test]
    fn origins_have_one_spelling() {
        let id = Digest::of(b"organism").to_string();
        for (stage, prefix) in [
            (Stage::Production, "redlatch"),
            (Stage::Development, "redlatch-dev"),
        ] {
            let text = format!("{prefix}/{id}/7");
            assert_eq!(origin(stage, 7).to_string(), text);
            assert_eq!(text.parse(), Ok(origin(stage, 7)));
        }
        for bad in [
            String::new(),
            format!("redlatch/{id}"),
            format!("redlatch/{id}/"),
            format!("redlatch/{id}/07"),
            format!("redlatch/{id}/+7"),
            format!("redlatch/{id}/7/8"),
            format!("redlatch/{id}/18446744073709551616"),
            format!("redlatch/{}/7", id.to_uppercase()),
            format!("redlatch/{}/7", &id[1..]),
            format!("redlatch-devel/{id}/7"),
            format!("Redlatch/{id}/7"),
            format!(" redlatch/{id}/7"),
        ] {
            assert_eq!(bad.parse::<Origin>(), Err(OriginError), "{bad:?}");
        }
    }

    #[test]
    fn a_checkpoint_has_three_lines_and_one_spelling() {
        let checkpoint = Checkpoint {
            origin: origin(Stage::Production, 0),
            size: 42,
            root: Digest::of(b"r"),
        };
        let text = checkpoint.to_string();
        assert_eq!(Checkpoint::parse(&text), Ok(checkpoint));

        let lines: Vec<&str> = text.lines().collect();
        let [first, size, root] = lines[..] else {
            panic!("three lines")
        };
        use CheckpointError::{BadRoot, BadSize, NotThreeLines, Origin};
        for (bad, why) in [
            (String::new(), NotThreeLines),
            (text.trim_end().to_owned(), NotThreeLines),
            (format!("{first}\n{size}\n"), NotThreeLines),
            (format!("{text}extension\n"), NotThreeLines),
            (format!("{text}\n"), NotThreeLines),
            (format!("{size}\n{first}\n{root}\n"), Origin(OriginError)),
            (format!("{first}\n{root}\n{size}\n"), BadSize),
            (format!("{first}\n042\n{root}\n"), BadSize),
            (format!("{first}\n\n{root}\n"), BadSize),
            (format!("{first}\n-1\n{root}\n"), BadSize),
            (
                format!("{first}\n{size}\n{}\n", root.trim_end_matches('=')),
                BadRoot,
            ),
            (format!("{first}\n{size}\n{root} \n"), BadRoot),
            (format!("{first}\n{size}\nAAAA\n"), BadRoot),
            (text.replace('\n', "\r\n"), Origin(OriginError)),
        ] {
            assert_eq!(Checkpoint::parse(&bad), Err(why), "{bad:?}");
        }
    }
}
