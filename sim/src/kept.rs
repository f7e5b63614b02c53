//! The store that a simulated verifier is given: the product's own simulated store, with a recorder around
//! it that takes down every ballot row once it is durable.
//!
//! It changes nothing of what is read or written, and decides nothing.

use redlatch_ballot::Row;
use redlatch_ballot::messages::SigningCommitmentsV1;
use redlatch_ballot::records::BallotRecordV1;
use redlatch_link::store::{Pair, Reader, SimStore, Store, StoreError, Table, Writer};
use redlatch_types::{Canonical, Digest, VerifierId};

use crate::history::{BallotSeen, NonceSeen};
use crate::process::Stage;
use crate::trace::Who;

/// Where a verifier keeps its ballots.
const SIGNER: Table = Table("signer");

/// The recording store of one verifier. Clones are handles to one store.
#[derive(Clone)]
pub struct RecordedStore {
    inner: SimStore,
    who: &'static str,
    stage: Stage,
}

impl RecordedStore {
    /// Records what `inner` makes durable for the verifier of this name.
    pub fn new(inner: SimStore, who: &'static str, stage: Stage) -> RecordedStore {
        RecordedStore { inner, who, stage }
    }

    fn record(&self, ballot: &BallotRecordV1) {
        let verifier: VerifierId = self.who.parse().expect("its name is a name");
        let seen = seen(ballot);
        let short = &ballot.intent_digest.to_string()[..12];
        let (issues, shares) = (ballot.issues.len(), seen.packages.len());
        let opened = if seen.sheet.is_some() {
            "opened"
        } else {
            "sealed"
        };
        self.stage.note(
            Who::Party(self.who),
            format_args!("keeps its {opened} vote on {short}: {issues} issues, {shares} shares"),
        );
        let key = (verifier, ballot.intent_digest);
        let mut history = self.stage.history();
        history.ballots.entry(key).or_default().push(seen);
    }
}

/// What an invariant asks of a ballot.
fn seen(ballot: &BallotRecordV1) -> BallotSeen {
    let mut nonces = Vec::new();
    for issue in &ballot.issues {
        // What it has signed itself it can open; anything else shows no nonce.
        let Ok(signed) = issue.commitments.open::<SigningCommitmentsV1>() else {
            continue;
        };
        let said = signed.record();
        nonces.extend(said.commitments.iter().map(|commitment| NonceSeen {
            boot: issue.boot_generation,
            issue: said.issue,
            commitment: Digest::of(&commitment.to_canonical()),
        }));
    }
    BallotSeen {
        vote: ballot.vote.digest(),
        sheet: ballot.opened_sheet.as_ref().map(|sheet| sheet.digest()),
        nonces,
        packages: ballot.released.iter().map(|it| it.package_digest).collect(),
    }
}

impl Store for RecordedStore {
    fn read<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&dyn Reader) -> Result<R, E>,
    ) -> Result<R, E> {
        self.inner.read(work)
    }

    fn write<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut dyn Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut ballots = Vec::new();
        let value = self.inner.write(|view| {
            work(&mut Recording {
                view,
                ballots: &mut ballots,
            })
        })?;
        ballots.iter().for_each(|ballot| self.record(ballot));
        Ok(value)
    }
}

/// One transaction, and the ballots written in it.
struct Recording<'a> {
    view: &'a mut dyn Writer,
    ballots: &'a mut Vec<BallotRecordV1>,
}

impl Reader for Recording<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.view.get(table, key)
    }

    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.view.range(table, from, to, limit)
    }
}

impl Writer for Recording<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.view.put(table, key, value)?;
        if table == SIGNER && key.first() == Some(&Row::BALLOTS) {
            self.ballots
                .extend(BallotRecordV1::from_canonical(value).ok());
        }
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.view.delete(table, key)
    }
}
