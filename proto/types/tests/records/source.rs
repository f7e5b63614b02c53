//! What the sources say: encoded types with their public fields, as rustfmt writes them.

#![allow(unreachable_pub, reason = "a module of a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The types of some files: each name with its public fields or its variants.
#[derive(Default)]
pub struct Sources {
    /// Every struct and enum that derives an encoding, by name.
    pub encoded: BTreeSet<String>,
    /// Members by type: public fields of structs, variants of enums.
    pub members: BTreeMap<String, Vec<String>>,
    /// Types that stand in the folder of records.
    pub records: BTreeSet<String>,
    /// The text of all files together.
    pub text: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Sources {
    /// The sources from which records are read, and the states that the table refers to.
    pub fn read() -> Sources {
        let mut sources = Sources::default();
        for entry in std::fs::read_dir(root().join("proto/types/src/records")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "rs") {
                sources.add(&std::fs::read_to_string(path).unwrap(), true, true);
            }
        }
        for file in ["mandate", "event", "command", "sign"] {
            let path = root().join(format!("proto/types/src/{file}.rs"));
            sources.add(&std::fs::read_to_string(path).unwrap(), false, true);
        }
        for file in [
            "raft/core/src/authority.rs",
            "sentinel/core/src/outbox/stored.rs",
        ] {
            let text = std::fs::read_to_string(root().join(file)).unwrap();
            sources.add(&text, false, false);
        }
        sources
    }

    /// Adds one file. `encodes` says whether its types belong to the encoded ones.
    pub fn add(&mut self, text: &str, is_record: bool, encodes: bool) {
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        self.text.push_str(shipped);
        let mut derives = false;
        let mut words = false;
        let mut current: Option<(String, usize)> = None;
        for line in shipped.lines() {
            let indent = line.len() - line.trim_start().len();
            let code = line.trim_start();
            if let Some((name, depth)) = &current {
                if code.starts_with('}') && indent == *depth {
                    current = None;
                } else if let Some(member) = member(code, indent, *depth) {
                    self.members.entry(name.clone()).or_default().push(member);
                }
                continue;
            }
            if code.starts_with("words! {") {
                words = true;
            } else if indent == 0 && code == "}" {
                words = false;
            } else if code.starts_with("#[derive(") {
                derives = code.contains("Encode");
            } else if let Some(name) = opened(code, words) {
                self.members.entry(name.clone()).or_default();
                if encodes && (derives || words) {
                    self.encoded.insert(name.clone());
                }
                if is_record && (derives || words) {
                    self.records.insert(name.clone());
                }
                derives = false;
                current = Some((name, indent));
            }
        }
    }

    /// Whether `type_name` has the field or variant `member`.
    pub fn has_member(&self, type_name: &str, member: &str) -> bool {
        let members = self.members.get(type_name);
        members.is_some_and(|m| m.iter().any(|x| x == member))
    }

    /// Whether some impl block of `type_name` holds `fn member`.
    pub fn has_function(&self, type_name: &str, member: &str) -> bool {
        let mut inside = false;
        self.text.lines().any(|line| {
            if line.starts_with("impl") {
                inside = line.ends_with(&format!(" {type_name} {{"));
            }
            inside && line.contains(&format!("fn {member}("))
        })
    }
}

/// The name of a type whose body opens on this line.
fn opened(code: &str, words: bool) -> Option<String> {
    let named = code
        .strip_prefix("pub struct ")
        .or_else(|| code.strip_prefix("pub enum "));
    let name = match named {
        Some(rest) => rest.strip_suffix(" {")?,
        None if words => code.strip_suffix(" {")?,
        None => return None,
    };
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric());
    (is_name && name.starts_with(|c: char| c.is_ascii_uppercase())).then(|| name.to_owned())
}

/// The public field or the variant that a line of a body declares.
fn member(code: &str, indent: usize, depth: usize) -> Option<String> {
    if indent != depth + 4 {
        return None;
    }
    if let Some(field) = code.strip_prefix("pub ") {
        return Some(field.split(':').next()?.to_owned());
    }
    // In `words!` a number stands before the variant.
    let code = code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let end = code.find(|c: char| !c.is_ascii_alphanumeric());
    let name = &code[..end.unwrap_or(code.len())];
    name.starts_with(|c: char| c.is_ascii_uppercase())
        .then(|| name.to_owned())
}

#[test]
fn the_reader_sees_fields_variants_and_words() {
    let mut sources = Sources::default();
    let text = "#[derive(Debug, Encode)]\npub struct A {\n    /// B.\n    #[n(0)]\n    pub b: u64,\n    \
                c: u8,\n}\n#[derive(Debug)]\npub struct Plain {\n    pub d: u64,\n}\n\
                words! {\n    /// W.\n    W {\n        /// One.\n        1 One \"one\",\n    }\n}\n\
                #[derive(Encode)]\npub enum E {\n    #[n(1)]\n    X(#[n(0)] u64),\n    Y(\n        \
                #[n(0)] u64,\n    ),\n}\nimpl A {\n    pub fn digest(&self) -> u8 {}\n}\n";
    sources.add(text, true, true);
    let encoded: Vec<_> = sources.encoded.iter().map(String::as_str).collect();
    assert_eq!(encoded, ["A", "E", "W"]);
    assert_eq!(sources.members["A"], ["b"]);
    assert_eq!(sources.members["W"], ["One"]);
    assert_eq!(sources.members["E"], ["X", "Y"]);
    assert!(sources.has_member("Plain", "d") && !sources.has_member("A", "d"));
    assert!(sources.has_function("A", "digest") && !sources.has_function("E", "digest"));
}
