//! Git objects, each hashed again before its bytes are looked at.

use std::fmt;
use std::process::Stdio;

use sha1_checked::Sha1;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::command::{Git, GitFault};

/// How a repository names its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl ObjectFormat {
    /// Git's word for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            ObjectFormat::Sha1 => "sha1",
            ObjectFormat::Sha256 => "sha256",
        }
    }

    /// Bytes of a full id.
    pub(super) const fn len(self) -> usize {
        match self {
            ObjectFormat::Sha1 => 20,
            ObjectFormat::Sha256 => 32,
        }
    }

    /// The id that these bytes have; none for a crafted SHA-1 collision.
    pub(super) fn id_of(self, kind: &str, content: &[u8]) -> Option<ObjectId> {
        let head = format!("{kind} {}\0", content.len());
        let bytes = match self {
            ObjectFormat::Sha1 => {
                let mut hash = Sha1::new();
                hash.update(head.as_bytes());
                hash.update(content);
                let result = hash.try_finalize();
                if result.has_collision() {
                    return None;
                }
                result.hash().to_vec()
            }
            ObjectFormat::Sha256 => {
                let mut hash = Sha256::new();
                hash.update(head.as_bytes());
                hash.update(content);
                hash.finalize().to_vec()
            }
        };
        Some(ObjectId(bytes))
    }
}

/// The full id of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(Vec<u8>);

impl ObjectId {
    /// A full id; the id of nothing (zeros) is none.
    pub fn new(bytes: &[u8]) -> Option<ObjectId> {
        let full = matches!(bytes.len(), 20 | 32);
        (full && bytes.iter().any(|byte| *byte != 0)).then(|| ObjectId(bytes.to_vec()))
    }

    /// The format that has ids of this length.
    pub fn format(&self) -> ObjectFormat {
        match self.0.len() {
            20 => ObjectFormat::Sha1,
            _ => ObjectFormat::Sha256,
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// A running `git cat-file`, which ends with this.
pub(super) struct Objects {
    format: ObjectFormat,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _git: Child,
}

impl Objects {
    pub(super) fn open(git: &Git, format: ObjectFormat) -> Result<Objects, GitFault> {
        let mut child = git
            .command(&git.folder, &["cat-file", "--batch-command"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(GitFault::Start)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or(GitFault::Unreadable("cat-file"))?;
        Ok(Objects {
            format,
            stdin,
            stdout: BufReader::new(stdout),
            _git: child,
        })
    }

    /// Size of an object that is of `kind`. It is git's word, and decides nothing but whether to read.
    pub(super) async fn size(
        &mut self,
        kind: &'static str,
        id: &ObjectId,
    ) -> Result<u64, GitFault> {
        self.ask("info", kind, id).await
    }

    /// The bytes of an object, hashed here and equal to its name.
    pub(super) async fn read(
        &mut self,
        kind: &'static str,
        id: &ObjectId,
        max: u64,
    ) -> Result<Vec<u8>, GitFault> {
        let size = self.size(kind, id).await?;
        if size > max {
            return Err(GitFault::TooLarge {
                kind,
                id: id.clone(),
                size,
                max,
            });
        }
        let unreadable = || GitFault::Unreadable("cat-file");
        let again = self.ask("contents", kind, id).await?;
        // The bytes, and the line feed behind them.
        let len = usize::try_from(again).map_err(|_| unreadable())?;
        if again != size {
            return Err(unreadable());
        }
        let mut content = vec![0; len + 1];
        self.stdout
            .read_exact(&mut content)
            .await
            .map_err(|_| unreadable())?;
        content.pop();
        if self.format.id_of(kind, &content).as_ref() == Some(id) {
            Ok(content)
        } else {
            Err(GitFault::NotItself(id.clone()))
        }
    }

    /// One question of the protocol of `git cat-file --batch-command`; gives the size it answers.
    async fn ask(
        &mut self,
        verb: &str,
        kind: &'static str,
        id: &ObjectId,
    ) -> Result<u64, GitFault> {
        let unreadable = |_| GitFault::Unreadable("cat-file");
        let question = format!("{verb} {id}\n");
        self.stdin
            .write_all(question.as_bytes())
            .await
            .map_err(unreadable)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line).await.map_err(unreadable)?;
        let missing = || GitFault::Missing {
            kind,
            id: id.clone(),
        };
        let mut words = line.trim_end().split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some(name), Some(found), Some(size)) if name == id.to_string() && found == kind => {
                size.parse().map_err(|_| GitFault::Unreadable("cat-file"))
            }
            (Some(name), Some(_), _) if name == id.to_string() => Err(missing()),
            _ => Err(GitFault::Unreadable("cat-file")),
        }
    }
}

#[cfg(test)]
mod hashing {
    use super::*;

    #[test]
    fn objects_are_hashed_as_git_does() {
        let empty = ObjectFormat::Sha1.id_of("tree", b"").expect("no collision");
        assert_eq!(
            empty.to_string(),
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        );
        let empty = ObjectFormat::Sha256.id_of("tree", b"").expect("a hash");
        assert_eq!(
            empty.to_string(),
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        );
    }

    #[test]
    fn an_id_is_full_and_of_something() {
        assert!(ObjectId::new(&[1; 20]).is_some());
        assert!(ObjectId::new(&[1; 32]).is_some());
        for bad in [&[0; 20][..], &[1; 19], &[1; 21], &[]] {
            assert!(ObjectId::new(bad).is_none());
        }
    }
}
