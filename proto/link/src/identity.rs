//! Who a process is: `spiffe://<organism id, hex>/<role>/<name>`.
//!
//! The text form is exact: one spelling per identity, so that identities compare as strings, as values and
//! as certificate fields alike. Where an identity comes from (a certificate) is [`crate::certificate`].

use std::fmt;
use std::str::FromStr;

use redlatch_types::OrganismId;
use redlatch_types::limits::NAME_LEN_MAX;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SCHEME: &str = "spiffe://";

/// What a process is in the organism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Replicates the journal.
    Node,
    /// Votes and witnesses.
    Verifier,
    /// Says GREEN, WITHHELD or RED.
    Sentinel,
    /// Runs the negative verbs.
    Actuator,
    /// Proposes.
    Client,
    /// Stands in front of a resource.
    Gate,
    /// A person with a tool.
    Operator,
    /// Runs a check and signs its evidence.
    Runner,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 8] = [
        Role::Node,
        Role::Verifier,
        Role::Sentinel,
        Role::Actuator,
        Role::Client,
        Role::Gate,
        Role::Operator,
        Role::Runner,
    ];

    /// The role as it stands in an identity.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Verifier => "verifier",
            Role::Sentinel => "sentinel",
            Role::Actuator => "actuator",
            Role::Client => "client",
            Role::Gate => "gate",
            Role::Operator => "operator",
            Role::Runner => "runner",
        }
    }

    /// True for the roles whose holders are known by key as well as by name (FAULTS 57).
    pub const fn is_fixed(self) -> bool {
        matches!(
            self,
            Role::Node | Role::Verifier | Role::Sentinel | Role::Actuator
        )
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = NotAnIdentity;

    fn from_str(text: &str) -> Result<Role, NotAnIdentity> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(NotAnIdentity::UnknownRole)
    }
}

/// A process of one organism: its role and its name within the role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIdentity {
    /// The organism it belongs to.
    pub organism: OrganismId,
    /// What it is.
    pub role: Role,
    /// Which of that role it is: 1 to 64 of `a-z 0-9 . _ -`, starting with a letter or digit.
    pub name: String,
}

impl PeerIdentity {
    /// An identity, if the name is one.
    pub fn new(
        organism: OrganismId,
        role: Role,
        name: impl Into<String>,
    ) -> Result<PeerIdentity, NotAnIdentity> {
        let name = name.into();
        if is_name(&name) {
            Ok(PeerIdentity {
                organism,
                role,
                name,
            })
        } else {
            Err(NotAnIdentity::Name)
        }
    }

    /// `role/name`, which is unique within the organism.
    pub fn short(&self) -> String {
        format!("{}/{}", self.role, self.name)
    }
}

/// Why a text is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnIdentity {
    /// It does not begin with `spiffe://`.
    #[error("it does not begin with spiffe://")]
    Scheme,
    /// It is not organism, role and name.
    #[error("it is not spiffe://<organism>/<role>/<name>")]
    Shape,
    /// The trust domain is not 64 lower-case hex digits.
    #[error("its organism is not 64 lower-case hex digits")]
    Organism,
    /// The role is none of the known ones.
    #[error(
        "its role is not one of node, verifier, sentinel, actuator, client, gate, operator, runner"
    )]
    UnknownRole,
    /// The name is empty, too long, or has other characters.
    #[error("its name is not 1 to 64 of a-z 0-9 . _ - beginning with a letter or digit")]
    Name,
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}", self.organism, self.role, self.name)
    }
}

impl FromStr for PeerIdentity {
    type Err = NotAnIdentity;

    fn from_str(text: &str) -> Result<PeerIdentity, NotAnIdentity> {
        let rest = text.strip_prefix(SCHEME).ok_or(NotAnIdentity::Scheme)?;
        let mut parts = rest.split('/');
        let (Some(organism), Some(role), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotAnIdentity::Shape);
        };
        let organism = organism.parse().map_err(|_| NotAnIdentity::Organism)?;
        PeerIdentity::new(organism, role.parse()?, name)
    }
}

impl Serialize for PeerIdentity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PeerIdentity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PeerIdentity, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|reason| {
            serde::de::Error::custom(format!("`{text}` is not an identity: {reason}"))
        })
    }
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let first = text.bytes().next().is_some_and(plain);
    first
        && text.len() <= NAME_LEN_MAX
        && text
            .bytes()
            .all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;

    fn organism(byte: u8) -> OrganismId {
        OrganismId(Digest([byte; 32]))
    }

    #[test]
    fn every_role_prints_and_parses_back() {
        for role in Role::ALL {
            let peer = PeerIdentity::new(organism(7), role, "n-1.eu_west").expect("a name");
            assert_eq!(peer.to_string().parse(), Ok(peer));
        }
    }

    #[test]
    fn one_spelling_only() {
        let id = "ab".repeat(32);
        let cases = [
            (format!("https://{id}/node/n1"), NotAnIdentity::Scheme),
            (format!("SPIFFE://{id}/node/n1"), NotAnIdentity::Scheme),
            (format!("spiffe://{id}/node"), NotAnIdentity::Shape),
            (format!("spiffe://{id}/node/n1/"), NotAnIdentity::Shape),
            (format!("spiffe://{id}/node/n1/x"), NotAnIdentity::Shape),
            (
                format!("spiffe://{}/node/n1", id.to_uppercase()),
                NotAnIdentity::Organism,
            ),
            (
                format!("spiffe://{}/node/n1", &id[2..]),
                NotAnIdentity::Organism,
            ),
            ("spiffe:///node/n1".to_owned(), NotAnIdentity::Organism),
            (format!("spiffe://{id}/Node/n1"), NotAnIdentity::UnknownRole),
            (
                format!("spiffe://{id}/owner/n1"),
                NotAnIdentity::UnknownRole,
            ),
            (format!("spiffe://{id}/node/"), NotAnIdentity::Name),
            (format!("spiffe://{id}/node/N1"), NotAnIdentity::Name),
            (format!("spiffe://{id}/node/n%31"), NotAnIdentity::Name),
            (format!("spiffe://{id}/node/n1?x"), NotAnIdentity::Name),
            (format!("spiffe://{id}/node/..a"), NotAnIdentity::Name),
            (
                format!("spiffe://{id}/node/{}", "a".repeat(65)),
                NotAnIdentity::Name,
            ),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<PeerIdentity>(), Err(reason), "{text}");
        }
    }
}
