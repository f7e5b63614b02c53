//! What a candidate changes: two trees compared entry by entry, and the way from the old head to the new.
//!
//! Only what differs is descended into. Every commit and tree on the way is read through
//! [`super::objects::Objects`], so it is itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::command::GitFault;
use super::objects::{ObjectFormat, ObjectId, Objects};
use super::rules::Limits;

/// Largest commit or tree that is read, in bytes.
const OBJECT_BYTES_MAX: u64 = 16 << 20;
/// Deepest folder that is looked into.
const DEPTH_MAX: usize = 128;

const MODE_TREE: u32 = 0o040_000;
const MODE_GITLINK: u32 = 0o160_000;
const MODE_SYMLINK: u32 = 0o120_000;

/// What is at a changed path now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// Nothing.
    Deleted,
    /// A file, or what git calls one, of so many bytes.
    File(u64),
    /// A symbolic link.
    Symlink,
    /// A commit of another repository.
    Gitlink,
}

/// Everything a candidate changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Changed paths; bytes that are no UTF-8 are replaced.
    pub(super) paths: BTreeMap<String, Now>,
    /// Whether the candidate descends from the old head; true if there is none.
    pub(super) descends: bool,
    /// Commits that are read on the way.
    pub(super) commits: u64,
    /// Whether there were more changed paths than are looked at.
    pub(super) cut: bool,
}

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    id: ObjectId,
}

/// Compares the trees of `old` and `new` and looks for `old` among the ancestors of `new`.
pub(super) async fn change(
    objects: &mut Objects,
    old: Option<&ObjectId>,
    new: &ObjectId,
    limits: &Limits,
) -> Result<Change, GitFault> {
    let (new_tree, parents) = commit(objects, new).await?;
    let mut change = Change {
        descends: true,
        commits: 1,
        ..Change::default()
    };
    let old_tree = match old {
        None => None,
        Some(old) => {
            change.descends = descends(objects, old, parents, limits, &mut change.commits).await?;
            if !change.descends {
                return Ok(change);
            }
            Some(commit(objects, old).await?.0)
        }
    };
    compare(objects, old_tree, new_tree, limits, &mut change).await?;
    Ok(change)
}

/// Whether `old` is among the commits that are reached through `next`.
async fn descends(
    objects: &mut Objects,
    old: &ObjectId,
    next: Vec<ObjectId>,
    limits: &Limits,
    read: &mut u64,
) -> Result<bool, GitFault> {
    let mut seen: BTreeSet<ObjectId> = next.iter().cloned().collect();
    let mut next: VecDeque<ObjectId> = next.into();
    while let Some(id) = next.pop_front() {
        if id == *old {
            return Ok(true);
        }
        *read += 1;
        if *read > limits.commits_max {
            return Err(GitFault::TooMany {
                what: "commits between the old and the new head",
                max: limits.commits_max,
            });
        }
        let (_, parents) = commit(objects, &id).await?;
        next.extend(parents.into_iter().filter(|it| seen.insert(it.clone())));
    }
    Ok(false)
}

async fn compare(
    objects: &mut Objects,
    old: Option<ObjectId>,
    new: ObjectId,
    limits: &Limits,
    change: &mut Change,
) -> Result<(), GitFault> {
    let mut pairs = vec![(String::new(), 0, old, Some(new))];
    while let Some((prefix, depth, old, new)) = pairs.pop() {
        if depth > DEPTH_MAX {
            return Err(GitFault::TooMany {
                what: "folders inside each other",
                max: DEPTH_MAX as u64,
            });
        }
        let before = entries(objects, old.as_ref()).await?;
        let after = entries(objects, new.as_ref()).await?;
        let names: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).collect();
        for name in names {
            let (was, is) = (before.get(name), after.get(name));
            if was == is {
                continue;
            }
            let path = format!("{prefix}{}", String::from_utf8_lossy(name));
            let folder = |entry: Option<&Entry>| {
                entry
                    .filter(|it| it.mode == MODE_TREE)
                    .map(|it| it.id.clone())
            };
            let (old_folder, new_folder) = (folder(was), folder(is));
            if old_folder.is_some() || new_folder.is_some() {
                pairs.push((format!("{path}/"), depth + 1, old_folder, new_folder));
            }
            let file = |entry: &&Entry| entry.mode != MODE_TREE;
            if was.filter(file).is_none() && is.filter(file).is_none() {
                continue;
            }
            // One more than allowed is enough to reject.
            if change.paths.len() as u64 > limits.changed_files_max {
                change.cut = true;
                return Ok(());
            }
            let now = now(objects, is.filter(file), limits).await?;
            change.paths.insert(path, now);
        }
    }
    Ok(())
}

/// What an entry is now; the bytes of a file that may be looked at are hashed.
async fn now(
    objects: &mut Objects,
    entry: Option<&Entry>,
    limits: &Limits,
) -> Result<Now, GitFault> {
    let Some(entry) = entry else {
        return Ok(Now::Deleted);
    };
    match entry.mode {
        MODE_GITLINK => Ok(Now::Gitlink),
        MODE_SYMLINK => Ok(Now::Symlink),
        _ => {
            let size = objects.size("blob", &entry.id).await?;
            if size <= limits.file_bytes_max {
                objects
                    .read("blob", &entry.id, limits.file_bytes_max)
                    .await?;
            }
            Ok(Now::File(size))
        }
    }
}

/// Tree and parents of a commit.
async fn commit(
    objects: &mut Objects,
    id: &ObjectId,
) -> Result<(ObjectId, Vec<ObjectId>), GitFault> {
    let bytes = objects.read("commit", id, OBJECT_BYTES_MAX).await?;
    parse_commit(&bytes, id.format()).ok_or(GitFault::Malformed {
        kind: "commit",
        id: id.clone(),
    })
}

fn parse_commit(bytes: &[u8], format: ObjectFormat) -> Option<(ObjectId, Vec<ObjectId>)> {
    let header = |line: &[u8], key: &str| -> Option<ObjectId> {
        let text = line.strip_prefix(key.as_bytes())?;
        ObjectId::new(&hex::decode(text).ok()?).filter(|id| id.format() == format)
    };
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let tree = header(lines.next()?, "tree ")?;
    let mut parents = Vec::new();
    for line in lines {
        if !line.starts_with(b"parent ") {
            break;
        }
        parents.push(header(line, "parent ")?);
    }
    Some((tree, parents))
}

async fn entries(
    objects: &mut Objects,
    tree: Option<&ObjectId>,
) -> Result<BTreeMap<Vec<u8>, Entry>, GitFault> {
    let Some(id) = tree else {
        return Ok(BTreeMap::new());
    };
    let bytes = objects.read("tree", id, OBJECT_BYTES_MAX).await?;
    parse_tree(&bytes, id.format()).ok_or(GitFault::Malformed {
        kind: "tree",
        id: id.clone(),
    })
}

/// Entries of a tree: octal mode, space, name, NUL, id. A name that leads out of its folder, into git's
/// own, or that stands twice is none.
fn parse_tree(mut bytes: &[u8], format: ObjectFormat) -> Option<BTreeMap<Vec<u8>, Entry>> {
    let mut entries = BTreeMap::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let mode = u32::from_str_radix(str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
        bytes = &bytes[space + 1..];
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let name = bytes[..end].to_vec();
        bytes = &bytes[end + 1..];
        let id = ObjectId::new(bytes.get(..format.len())?)?;
        bytes = &bytes[format.len()..];
        let reserved = matches!(name.as_slice(), b"" | b"." | b"..")
            || name.contains(&b'/')
            || name.eq_ignore_ascii_case(b".git");
        if reserved || entries.insert(name, Entry { mode, id }).is_some() {
            return None;
        }
    }
    Some(entries)
}

#[cfg(test)]
mod parsing {
    use super::*;

    fn entry(mode: &str, name: &str) -> Vec<u8> {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[7; 20]].concat()
    }

    #[test]
    fn trees_with_names_that_lead_elsewhere_are_malformed() {
        let good = [entry("100644", "a"), entry("40000", "b")].concat();
        let parsed = parse_tree(&good, ObjectFormat::Sha1).expect("a tree");
        assert_eq!(parsed[&b"b".to_vec()].mode, MODE_TREE);
        for name in ["", ".", "..", ".git", ".GIT", "a/b"] {
            assert!(
                parse_tree(&entry("100644", name), ObjectFormat::Sha1).is_none(),
                "{name}"
            );
        }
        let twice = [entry("100644", "a"), entry("100644", "a")].concat();
        assert!(parse_tree(&twice, ObjectFormat::Sha1).is_none());
        for cut in [&good[..good.len() - 1], b"x a\0", b"100644"] {
            assert!(parse_tree(cut, ObjectFormat::Sha1).is_none());
        }
    }

    #[test]
    fn a_commit_names_its_tree_and_its_parents() {
        let id = "11".repeat(20);
        let text = format!("tree {id}\nparent {id}\nparent {id}\nauthor x\n\nparent {id}\n");
        let (_, parents) = parse_commit(text.as_bytes(), ObjectFormat::Sha1).expect("a commit");
        assert_eq!(parents.len(), 2);
        assert!(parse_commit(b"author x\n", ObjectFormat::Sha1).is_none());
        assert!(parse_commit(format!("tree {id}11\n").as_bytes(), ObjectFormat::Sha1).is_none());
    }
}
