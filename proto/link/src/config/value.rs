//! A TOML document whose values remember where they were written, and the merging of layers into one.
//!
//! Text from a variable or a flag has no type of its own: it stays [`Body::Text`] until the type that asks
//! for it says what it is.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, Origin};

/// A value and where its key stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) body: Body,
    /// None for the root alone.
    pub(super) origin: Option<Origin>,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Table(BTreeMap<String, Node>),
    Array(Vec<Node>),
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// From a variable or flag: read as whatever the configuration type asks for.
    Text(String),
}

impl Node {
    pub(super) fn root() -> Node {
        Node {
            body: Body::Table(BTreeMap::new()),
            origin: None,
        }
    }

    /// Puts text under a path of keys, in place of what a lower layer had there.
    pub(super) fn set<'a>(
        &mut self,
        path: impl Iterator<Item = &'a str>,
        text: &str,
        origin: &Origin,
    ) {
        let mut here = self;
        for key in path {
            let table = here.as_table();
            here = table.entry(key.to_owned()).or_insert_with(|| Node {
                body: Body::Table(BTreeMap::new()),
                origin: Some(origin.clone()),
            });
        }
        here.body = Body::Text(text.to_owned());
        here.origin = Some(origin.clone());
    }

    /// This node as a table; whatever else it was is overlaid.
    fn as_table(&mut self) -> &mut BTreeMap<String, Node> {
        if !matches!(self.body, Body::Table(_)) {
            self.body = Body::Table(BTreeMap::new());
        }
        match &mut self.body {
            Body::Table(table) => table,
            _ => unreachable!("made a table just above"),
        }
    }
}

/// Reads and parses a file.
pub(super) fn parse_file(path: &Path) -> Result<Node, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let lines = Lines { path, text: &text };
    let table = DeTable::parse(&text).map_err(|error| ConfigError::Syntax {
        origin: lines.origin(error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    Ok(Node {
        body: lines.table(table.into_inner())?,
        origin: None,
    })
}

/// Finds the line of a byte offset.
struct Lines<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Lines<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Origin::File {
            path: self.path.to_owned(),
            line,
        }
    }

    fn table(&self, table: DeTable<'_>) -> Result<Body, ConfigError> {
        let mut nodes = BTreeMap::new();
        for (key, value) in table {
            let node = self.node(key.span().start, value)?;
            nodes.insert(key.into_inner().into_owned(), node);
        }
        Ok(Body::Table(nodes))
    }

    fn node(&self, offset: usize, value: Spanned<DeValue<'_>>) -> Result<Node, ConfigError> {
        let origin = self.origin(offset);
        let refuse = |message: &str| ConfigError::Syntax {
            origin: origin.clone(),
            message: message.to_owned(),
        };
        let body = match value.into_inner() {
            DeValue::String(text) => Body::String(text.into_owned()),
            DeValue::Integer(number) => Body::Integer(
                i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| refuse("the number does not fit in 64 bits"))?,
            ),
            DeValue::Float(number) => Body::Float(
                number
                    .as_str()
                    .parse()
                    .map_err(|_| refuse("the number cannot be read"))?,
            ),
            DeValue::Boolean(truth) => Body::Boolean(truth),
            DeValue::Datetime(moment) => Body::String(moment.to_string()),
            DeValue::Array(items) => Body::Array(
                items
                    .into_iter()
                    .map(|item| self.node(item.span().start, item))
                    .collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => self.table(table)?,
        };
        Ok(Node {
            body,
            origin: Some(origin),
        })
    }
}
