//! What a verifier keeps: the rows of its machine, its findings, what it remembers of its fellows.
//!
//! ```text
//!   signer      boot counter, ballots, ceremonies, shares     keys as redlatch_ballot::Row names them
//!   vault       what the passphrase opens, and shares open under
//!   findings    findings of votes, by digest
//!   fellows     latest boot heard of each fellow; a claim that shows that this store was rolled back
//!   journal     what is in force, and how far the journal was read
//! ```
//!
//! A share is sealed by the vault before it is written, and nothing else here is a secret that signs. Nothing
//! is ever deleted.

use minicbor::{Decode, Encode};
use rand_chacha::ChaCha20Rng;
use redlatch_ballot::messages::CeremonyId;
use redlatch_ballot::records::{BallotRecordV1, BootRecordV1, CeremonyRecordV1};
use redlatch_ballot::verifier::Stored;
use redlatch_ballot::{Row, SealedShare, ShareError};
use redlatch_link::follow::TrustV1;
use redlatch_link::passphrase::Passphrase;
use redlatch_link::store::{Reader, Store, StoreError, Table};
use redlatch_types::records::{BootClaimV1, FindingsV1};
use redlatch_types::{
    Canonical, Digest, Envelope, IntentDigest, KeyEpoch, OrganismId, Signed, VerifierId,
};

use crate::vault::{StretchCost, Vault, VaultError, VaultV1};

const SIGNER: Table = Table("signer");
const FINDINGS: Table = Table("findings");
const FELLOWS: Table = Table("fellows");
const JOURNAL: Table = Table("journal");
const VAULT: Table = Table("vault");

/// No fellow has this name: a name is not empty.
const ROLLED_BACK: &[u8] = b"";
const FOLLOWED: &[u8] = b"followed";
const SEALED: &[u8] = b"sealed";
/// Most shares looked at; a ceremony that failed late leaves one behind.
const SHARES_MAX: usize = 1024;

/// Why the store does not give what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The store failed; the process must end.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row is there and cannot be read.
    #[error("the {0} in the store cannot be read")]
    Unreadable(&'static str),
    /// A share is not this verifier's.
    #[error("a key share in the store: {0}")]
    Share(#[from] ShareError),
    /// Shares cannot be opened or sealed.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

fn row<T: Canonical>(
    view: &dyn Reader,
    table: Table,
    key: &[u8],
    what: &'static str,
) -> Result<Option<T>, KeptError> {
    let Some(bytes) = view.get(table, key)? else {
        return Ok(None);
    };
    T::from_canonical(&bytes)
        .map(Some)
        .map_err(|_| KeptError::Unreadable(what))
}

/// Opens the vault that is kept; a store in which nothing was ever counted gets one, durably.
///
/// # Errors
/// [`KeptError`]; [`VaultError::WrongPassphrase`] if it was made under another one.
pub(crate) fn vault<S: Store>(
    store: &S,
    passphrase: &Passphrase,
    cost: StretchCost,
    owner: (OrganismId, &VerifierId),
    rng: ChaCha20Rng,
) -> Result<Vault, KeptError> {
    let kept: Option<VaultV1> = store.read(|view| row(view, VAULT, SEALED, "vault"))?;
    if let Some(kept) = kept {
        return Ok(Vault::open(&kept, passphrase, owner, rng)?);
    }
    if store.get(SIGNER, &Row::boot_key())?.is_some() {
        return Err(VaultError::Gone.into());
    }
    let (vault, kept) = Vault::create(passphrase, cost, owner, rng)?;
    store.put(VAULT, SEALED, &kept.to_canonical())?;
    Ok(vault)
}

/// Writes rows in one durable transaction; a share is sealed for its row.
pub(crate) fn persist<S: Store>(store: &S, vault: &Vault, rows: &[Row]) -> Result<(), KeptError> {
    let mut pairs = Vec::new();
    for row in rows {
        let key = row.key();
        let value = match row {
            Row::Share(share) => vault.seal(&key, &share.bytes)?,
            Row::Boot(_) | Row::Ballot(_) | Row::Ceremony(_) => row.value().to_vec(),
        };
        pairs.push((key, value));
    }
    store.write(|view| {
        pairs
            .iter()
            .try_for_each(|(key, value)| view.put(SIGNER, key, value).map_err(KeptError::from))
    })
}

/// The ballot on an intent.
pub(crate) fn ballot<S: Store>(
    store: &S,
    intent: &IntentDigest,
) -> Result<Option<BallotRecordV1>, KeptError> {
    store.read(|view| row(view, SIGNER, &Row::ballot_key(intent), "ballot"))
}

/// Whether a ceremony was begun here.
pub(crate) fn begun<S: Store>(
    store: &S,
    id: &CeremonyId,
) -> Result<Option<CeremonyRecordV1>, KeptError> {
    store.read(|view| row(view, SIGNER, &Row::ceremony_key(id), "ceremony"))
}

/// Every share, by ascending epoch.
pub(crate) fn shares<S: Store>(
    store: &S,
    vault: &Vault,
    organism: OrganismId,
    identifier: u16,
) -> Result<Vec<SealedShare>, KeptError> {
    let (from, to) = ([Row::SHARES], [Row::SHARES + 1]);
    let pairs = store.range(SIGNER, &from, Some(&to), SHARES_MAX)?;
    let mut shares = Vec::new();
    for (key, bytes) in pairs {
        let bytes = vault.unseal(&key, &bytes)?;
        shares.push(SealedShare::from_bytes(&bytes, organism, identifier)?);
    }
    Ok(shares)
}

/// What the start is decided by.
///
/// # Errors
/// [`KeptError`].
pub(crate) fn stored<S: Store>(
    store: &S,
    vault: &Vault,
    organism: OrganismId,
    identifier: u16,
) -> Result<Stored, KeptError> {
    let boot: Option<BootRecordV1> =
        store.read(|view| row(view, SIGNER, &Row::boot_key(), "boot counter"))?;
    let shares = shares(store, vault, organism, identifier)?;
    Ok(Stored {
        boot,
        share_epoch: shares
            .iter()
            .map(SealedShare::epoch)
            .max()
            .unwrap_or(KeyEpoch(0)),
        // Fellows are asked once this process runs; until then it does not vote.
        remembered_generation: None,
        was_rolled_back: store.get(FELLOWS, ROLLED_BACK)?.is_some(),
    })
}

/// Keeps findings under their digest, before the vote that names it.
pub(crate) fn keep_findings<S: Store>(store: &S, findings: &FindingsV1) -> Result<(), StoreError> {
    store.put(FINDINGS, &findings.digest().0, &findings.to_canonical())
}

/// Findings whose vote was opened; before that nobody is told (FAULTS 31).
pub(crate) fn opened_findings<S: Store>(
    store: &S,
    digest: &Digest,
) -> Result<Option<FindingsV1>, KeptError> {
    store.read(|view| {
        let found: Option<FindingsV1> = row(view, FINDINGS, &digest.0, "findings")?;
        let Some(findings) = found else {
            return Ok(None);
        };
        let key = Row::ballot_key(&findings.intent_digest);
        let ballot: Option<BallotRecordV1> = row(view, SIGNER, &key, "ballot")?;
        let opened = ballot.is_some_and(|ballot| ballot.opened_sheet.is_some());
        Ok(opened.then_some(findings))
    })
}

/// Remembers a fellow's boot if it is later than the one known. Gives what is remembered now. The boots of a
/// verifier that was replaced under its name are another's: the caller has seen that the key of this one is in force.
pub(crate) fn remember_boot<S: Store>(
    store: &S,
    claim: &Signed<BootClaimV1>,
) -> Result<Envelope, KeptError> {
    let key = claim.record().verifier_id.as_str().as_bytes();
    let known: Option<Envelope> = store.read(|view| row(view, FELLOWS, key, "fellow's boot"))?;
    if let Some(known) = known {
        let before = known
            .open::<BootClaimV1>()
            .map_err(|_| KeptError::Unreadable("fellow's boot"))?;
        let same_verifier = before.key() == claim.key();
        if same_verifier && before.record().generation >= claim.record().generation {
            return Ok(known);
        }
    }
    store.put(FELLOWS, key, &claim.envelope().to_canonical())?;
    Ok(claim.envelope().clone())
}

/// Keeps a claim of an own boot that this store does not know: from here on it is never started from.
pub(crate) fn keep_rollback<S: Store>(store: &S, claim: &Envelope) -> Result<(), StoreError> {
    store.put(FELLOWS, ROLLED_BACK, &claim.to_canonical())
}

/// What is known of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct FollowedV1 {
    /// Every leaf before this one was read.
    #[n(0)]
    pub(crate) next: u64,
    /// What is in force there. No receipt is needed for it again.
    #[n(1)]
    pub(crate) trust: TrustV1,
}

/// How far the journal was followed.
pub(crate) fn followed<S: Store>(store: &S) -> Result<Option<FollowedV1>, KeptError> {
    store.read(|view| row(view, JOURNAL, FOLLOWED, "roster in force"))
}

/// Keeps how far the journal was followed.
pub(crate) fn keep_followed<S: Store>(store: &S, followed: &FollowedV1) -> Result<(), StoreError> {
    store.put(JOURNAL, FOLLOWED, &followed.to_canonical())
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;
    use redlatch_link::store::SimDisk;
    use redlatch_types::{Scope, SigningKey};

    use super::*;

    fn claim(generation: u64, boot: u8) -> Signed<BootClaimV1> {
        let scope = Scope {
            organism_id: OrganismId(Digest::ZERO),
            organism_epoch: 1,
        };
        let claim = BootClaimV1 {
            verifier_id: "vb".parse().unwrap(),
            generation,
            boot: Digest([boot; 32]),
            key_epoch: KeyEpoch(0),
        };
        let sealed = Envelope::seal(scope, &SigningKey::from_seed([9; 32]), &claim);
        sealed.open().unwrap()
    }

    fn opened<S: Store>(store: &S, passphrase: &str) -> Result<Vault, KeptError> {
        let cost = StretchCost {
            memory_kib: 8,
            passes: 1,
        };
        let (passphrase, owner) = (Passphrase::new(passphrase.into()), "va".parse().unwrap());
        let rng = ChaCha20Rng::from_seed([5; 32]);
        let owner = (OrganismId(Digest::ZERO), &owner);
        vault(store, &passphrase, cost, owner, rng)
    }

    #[test]
    fn the_vault_is_durable_and_opens_by_its_passphrase_alone() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let sealed = opened(&store, "one").unwrap().seal(b"row", b"share");
        drop(store);
        disk.crash();
        let store = disk.open().unwrap();
        let again = opened(&store, "one").unwrap();
        assert_eq!(
            again.unseal(b"row", &sealed.unwrap()).unwrap()[..],
            *b"share"
        );
        let wrong = opened(&store, "two").err();
        assert!(matches!(
            wrong,
            Some(KeptError::Vault(VaultError::WrongPassphrase))
        ));
    }

    #[test]
    fn fault_034_a_store_with_a_boot_gets_no_new_vault() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let boot = BootRecordV1 {
            organism_id: OrganismId(Digest::ZERO),
            verifier_id: "va".parse().unwrap(),
            generation: 1,
            key_epoch: KeyEpoch(0),
        };
        let opener = opened(&store, "one").unwrap();
        persist(&store, &opener, &[Row::Boot(boot)]).unwrap();
        let delete = |view: &mut dyn redlatch_link::store::Writer| view.delete(VAULT, SEALED);
        store.write(delete).unwrap();
        let gone = opened(&store, "one").err();
        assert!(matches!(gone, Some(KeptError::Vault(VaultError::Gone))));
    }

    #[test]
    fn fault_034_a_fellows_memory_only_goes_forward() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let fifth = claim(5, 1).envelope().clone();
        assert_eq!(remember_boot(&store, &claim(5, 1)).unwrap(), fifth);
        assert_eq!(remember_boot(&store, &claim(4, 2)).unwrap(), fifth);
        assert_eq!(remember_boot(&store, &claim(5, 3)).unwrap(), fifth);
        drop(store);
        disk.crash();
        let store = disk.open().unwrap();
        assert_eq!(remember_boot(&store, &claim(5, 3)).unwrap(), fifth);
        let sixth = claim(6, 4).envelope().clone();
        assert_eq!(remember_boot(&store, &claim(6, 4)).unwrap(), sixth);
    }

    #[test]
    fn a_verifier_that_was_replaced_under_its_name_begins_its_boots_anew() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        remember_boot(&store, &claim(5, 1)).unwrap();
        let before = claim(1, 2);
        let (scope, record) = (*before.scope(), before.record());
        let replaced = Envelope::seal(scope, &SigningKey::from_seed([10; 32]), record);
        let kept = remember_boot(&store, &replaced.open().unwrap()).unwrap();
        assert_eq!(kept, replaced);
    }

    #[test]
    fn fault_034_a_rollback_once_shown_stays_known() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let known = |store: &_| {
            let opened = opened(store, "one").unwrap();
            stored(store, &opened, OrganismId(Digest::ZERO), 1)
                .unwrap()
                .was_rolled_back
        };
        assert!(!known(&store));
        keep_rollback(&store, claim(5, 1).envelope()).unwrap();
        drop(store);
        disk.crash();
        assert!(known(&disk.open().unwrap()));
    }

    #[test]
    fn findings_nobody_opened_are_nobodys() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let findings = FindingsV1 {
            intent_digest: IntentDigest(Digest::of(b"intent")),
            verifier_id: "va".parse().unwrap(),
            findings: vec![],
        };
        keep_findings(&store, &findings).unwrap();
        assert!(
            opened_findings(&store, &findings.digest())
                .unwrap()
                .is_none()
        );
        assert!(opened_findings(&store, &Digest::ZERO).unwrap().is_none());
    }
}
