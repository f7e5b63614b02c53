//! The one place where the machine's effects happen, in their order: durable first, then said.

use std::sync::Arc;

use redlatch_ballot::verifier::Answer;
use redlatch_ballot::{Row, VerifierEffect};
use redlatch_link::store::Store;
use redlatch_link::world;

use crate::store::{self, KeptError};
use crate::vault::Vault;

/// Carries effects out one by one and gives the answer among them.
///
/// The caller holds the machine meanwhile: rows are replaced whole, so an older row must never be
/// written over a newer one.
///
/// # Errors
/// The store's failure. Nothing after it happened; the machine must not be used again.
pub(crate) async fn run_effects<S: Store>(
    store: &S,
    vault: &Arc<Vault>,
    effects: Vec<VerifierEffect>,
) -> Result<Option<Answer>, KeptError> {
    let mut said = None;
    for effect in effects {
        match effect {
            VerifierEffect::Persist(rows) => persist(store, vault, rows).await?,
            VerifierEffect::Send(answer) => said = Some(answer),
        }
    }
    Ok(said)
}

/// Makes rows durable, away from the threads that run tasks.
pub(crate) async fn persist<S: Store>(
    store: &S,
    vault: &Arc<Vault>,
    rows: Vec<Row>,
) -> Result<(), KeptError> {
    let (store, vault) = (store.clone(), Arc::clone(vault));
    world::blocking(move || store::persist(&store, &vault, &rows)).await
}
