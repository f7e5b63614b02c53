//! The chain of rosters as this host keeps it: one file, read before anything is believed, and never shorter.
//!
//! ```text
//!   genesis ─▶ kept links, each proven again ─▶ Lineage ─▶ what nodes show ─▶ kept, if it is longer
//! ```
//!
//! The file is not trusted: every link in it is verified again from the genesis. It is there so that nobody can
//! lead this host back to nodes that were removed.

use std::fs::{File, OpenOptions};
use std::path::Path;

use minicbor::{Decode, Encode};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access, FileError};
use redlatch_types::lineage::Lineage;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::GenesisV1;
use redlatch_types::{Bytes, Canonical, OrganismId};

/// The file in a state folder.
const FILE: &str = "rosters";
/// Held while the file is replaced.
const LOCK: &str = "rosters.lock";

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct KeptV1 {
    /// Of which organism.
    #[n(0)]
    organism: OrganismId,
    /// Of which of its histories.
    #[n(1)]
    history: u64,
    /// Texts of the receipts, in order.
    #[n(2)]
    links: Vec<Bytes>,
}

/// The rosters that a state folder remembers; the genesis' alone if it remembers none.
///
/// # Errors
/// [`Failure`] if what is kept is damaged, of another journal, or does not hold.
pub(crate) fn read(folder: &Path, genesis: &GenesisV1, history: u64) -> Result<Lineage, Failure> {
    let path = folder.join(FILE);
    let unfit = |what: &str| {
        let text = format!("{} must not be used: {what}", path.display());
        Failure::new(ExitCode::Error, text)
            .hint("move it away only if the disk is to blame: the nodes show the chain again")
    };
    let mut lineage = Lineage::of_genesis(genesis, history)
        .map_err(|error| unfit(&format!("the genesis' roster: {error}")))?;
    let bytes = match file::read_file(&path) {
        Ok(bytes) => bytes,
        Err(FileError::Missing { .. }) => return Ok(lineage),
        Err(error) => return Err(error.into()),
    };
    let kept = KeptV1::from_canonical(&bytes).map_err(|error| unfit(&error.to_string()))?;
    if (kept.organism, kept.history) != (genesis.organism_id(), history) {
        return Err(unfit("it is of another journal"));
    }
    for text in &kept.links {
        let link = Receipt::parse(&text.0).map_err(|error| unfit(&error.to_string()))?;
        let taken = lineage.take(&link);
        taken.map_err(|error| unfit(&error.to_string()))?;
    }
    Ok(lineage)
}

/// Remembers the rosters, durably, unless the folder remembers more already.
///
/// # Errors
/// [`Failure`] if it cannot be written, or if what is kept is another history.
pub(crate) fn keep(
    folder: &Path,
    genesis: &GenesisV1,
    history: u64,
    lineage: &Lineage,
) -> Result<(), Failure> {
    file::create_private_folder(folder)?;
    let _held = lock(&folder.join(LOCK))?;
    let mut kept = read(folder, genesis, history)?;
    let mut longer = false;
    for link in lineage.links() {
        // A link that is kept in another version is a fork, and nothing is written over it.
        let taken = kept.take(link);
        longer |= taken.map_err(|error| Failure::new(ExitCode::Error, error.to_string()))?
            == redlatch_types::lineage::Step::Next;
    }
    if !longer {
        return Ok(());
    }
    let links = kept.links().iter();
    let record = KeptV1 {
        organism: genesis.organism_id(),
        history,
        links: links.map(|it| Bytes(it.to_string().into_bytes())).collect(),
    };
    let bytes = record.to_canonical();
    Ok(file::replace_file(
        &folder.join(FILE),
        &bytes,
        Access::Private,
    )?)
}

/// Waits for the others that write; each of them writes one small file.
fn lock(path: &Path) -> Result<File, Failure> {
    let failed = |source| FileError::Io {
        verb: "lock",
        path: path.to_owned(),
        source,
    };
    let mut open = OpenOptions::new();
    let open = open.create(true).truncate(false).write(true);
    let file = open.open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}
