//! From merged nodes to a configuration type, through serde.
//!
//! serde tells a deserializer the field names of each struct it wants; that list is what unknown keys are
//! held against, so no second description of a configuration is needed.

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::nearest::nearest;
use super::value::{Body, Node};
use super::{ConfigError, Origin};

/// Reads `T` out of a merged document.
pub(super) fn read<T: DeserializeOwned>(root: Node) -> Result<T, ConfigError> {
    T::deserialize(At {
        node: root,
        key: String::new(),
    })
    .map_err(Fault::into_error)
}

/// A fault before and after it is known where it stands.
#[derive(Debug)]
enum Fault {
    Bare(String),
    Placed(Box<ConfigError>),
}

impl Fault {
    fn at(self, key: &str, origin: &Option<Origin>) -> Fault {
        match self {
            Fault::Bare(message) => Fault::Placed(Box::new(ConfigError::Invalid {
                origin: origin.clone(),
                key: key.to_owned(),
                message,
            })),
            placed => placed,
        }
    }

    fn into_error(self) -> ConfigError {
        match self {
            Fault::Bare(message) => ConfigError::Invalid {
                origin: None,
                key: "configuration".into(),
                message,
            },
            Fault::Placed(error) => *error,
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Bare(message) => f.write_str(message),
            Fault::Placed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<M: std::fmt::Display>(message: M) -> Fault {
        Fault::Bare(message.to_string())
    }
}

/// A node and its dotted key.
struct At {
    node: Node,
    key: String,
}

impl At {
    fn child(&self, key: &str) -> String {
        if self.key.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.key)
        }
    }

    /// Refuses a key of this table that is not among `fields`.
    fn check_keys(&self, fields: &'static [&'static str]) -> Result<(), Fault> {
        let Body::Table(table) = &self.node.body else {
            return Ok(());
        };
        let Some((key, node)) = table
            .iter()
            .find(|(key, _)| !fields.contains(&key.as_str()))
        else {
            return Ok(());
        };
        let origin = node
            .origin
            .clone()
            .unwrap_or_else(|| Origin::Flag(key.clone()));
        Err(Fault::Placed(Box::new(ConfigError::UnknownKey {
            origin,
            key: self.child(key),
            nearest: nearest(key, fields).map(|near| self.child(near)),
            valid: fields.iter().map(|field| self.child(field)).collect(),
        })))
    }

    /// Runs a step and names this key in whatever goes wrong in it.
    fn placed<R>(self, step: impl FnOnce(At) -> Result<R, Fault>) -> Result<R, Fault> {
        let (key, origin) = (self.key.clone(), self.node.origin.clone());
        step(self).map_err(|fault| {
            if key.is_empty() {
                fault
            } else {
                fault.at(&key, &origin)
            }
        })
    }

    /// The items of an array; text is split at commas.
    fn into_items(self) -> Result<Items, Fault> {
        let (key, origin) = (self.key, self.node.origin);
        let nodes = match self.node.body {
            Body::Array(nodes) => nodes,
            Body::Text(text) => text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Node {
                    body: Body::Text(item.to_owned()),
                    origin: origin.clone(),
                })
                .collect(),
            _ => return Err(Fault::Bare("a list is expected".into())),
        };
        Ok(Items {
            key,
            nodes: nodes.into_iter().enumerate(),
        })
    }

    fn into_entries(self) -> Result<Entries, Fault> {
        match self.node.body {
            Body::Table(table) => Ok(Entries {
                key: self.key,
                entries: table.into_iter(),
                next: None,
            }),
            _ => Err(Fault::Bare("a table of keys is expected".into())),
        }
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let Body::Text(text) = &self.node.body else { return self.deserialize_any(visitor) };
            if let Ok(number) = text.parse::<u64>() {
                return visitor.visit_u64(number);
            }
            match text.parse::<i64>() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(Fault::Bare(format!("`{text}` is not a whole number"))),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for At {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.node.body {
            Body::Table(_) => visitor.visit_map(self.into_entries()?),
            Body::Array(_) => visitor.visit_seq(self.into_items()?),
            Body::String(text) | Body::Text(text) => visitor.visit_string(text),
            Body::Integer(number) => visitor.visit_i64(number),
            Body::Float(number) => visitor.visit_f64(number),
            Body::Boolean(truth) => visitor.visit_bool(truth),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.body {
            Body::Text(text) => match text.as_str() {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                _ => Err(Fault::Bare(format!("`{text}` is neither true nor false"))),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.body {
            Body::Text(text) => match text.parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(Fault::Bare(format!("`{text}` is not a number"))),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.placed(|at| visitor.visit_seq(at.into_items()?))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.placed(|at| visitor.visit_map(at.into_entries()?))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.check_keys(fields)?;
        self.placed(|at| visitor.visit_map(at.into_entries()?))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.placed(|at| match at.node.body {
            Body::String(text) | Body::Text(text) => {
                let variant: StringDeserializer<Fault> = text.into_deserializer();
                visitor.visit_enum(variant)
            }
            _ => visitor.visit_enum(MapAccessDeserializer::new(at.into_entries()?)),
        })
    }

    forward_to_deserialize_any! {
        i128 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// The items of an array, in order.
struct Items {
    key: String,
    nodes: std::iter::Enumerate<std::vec::IntoIter<Node>>,
}

impl<'de> de::SeqAccess<'de> for Items {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((index, node)) = self.nodes.next() else {
            return Ok(None);
        };
        let at = At {
            node,
            key: format!("{}[{index}]", self.key),
        };
        at.placed(|at| seed.deserialize(at)).map(Some)
    }
}

/// The keys of a table, in order.
struct Entries {
    key: String,
    entries: std::collections::btree_map::IntoIter<String, Node>,
    next: Option<At>,
}

impl<'de> de::MapAccess<'de> for Entries {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, node)) = self.entries.next() else {
            return Ok(None);
        };
        let dotted = if self.key.is_empty() {
            key.clone()
        } else {
            format!("{}.{key}", self.key)
        };
        let (place, origin) = (dotted.clone(), node.origin.clone());
        self.next = Some(At { node, key: dotted });
        let name: StringDeserializer<Fault> = key.into_deserializer();
        seed.deserialize(name)
            .map(Some)
            .map_err(|fault| fault.at(&place, &origin))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let at = self
            .next
            .take()
            .ok_or_else(|| Fault::Bare("a value was asked for before its key".into()))?;
        at.placed(|at| seed.deserialize(at))
    }
}
