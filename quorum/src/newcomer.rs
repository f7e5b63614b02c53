//! A verifier without a seat in what it knows: the journal is read to its end before it is sent away.
//!
//! A change of the verifiers seats somebody whom the genesis does not name. The links from there to the roster in
//! force are proven one by one, and the end is a majority's word, so no node seats anybody or hides a seat.

use std::time::Duration;

use rand_core::RngCore;
use redlatch_link::follow::{Follower, Standing, Trust, Wanted};
use redlatch_link::store::Store;
use redlatch_link::transport::Dialer;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::Digest;

use crate::process::VerifierParts;
use crate::start::StartFailure;
use crate::store::{self, FollowedV1};

/// How long it may take; then a later start goes on where this one ended.
const CATCH_UP: Duration = Duration::from_secs(60);
/// How long a majority may take to say where the end is.
const COMPARE_DEADLINE: Duration = Duration::from_secs(3);
/// Pause before the journal is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Reads the journal to the end that a majority vouches for, or for as long as it may take, and keeps what it proved.
///
/// # Errors
/// [`StartFailure`] if no node can be called at all, or nothing can be kept.
pub(crate) async fn catch_up<S: Store>(
    parts: &mut VerifierParts<S>,
    trust: Trust,
    next: u64,
) -> Result<(Trust, u64), StartFailure> {
    let dialer = Dialer::new(parts.credentials.clone());
    let mut follower = Follower::new(&dialer, &parts.nodes, trust, next)?;
    tracing::info!(
        "not a verifier of the roster that is known here; the journal is read to its end"
    );
    let begun = Monotonic::now();
    while begun.elapsed() < CATCH_UP {
        match follower.read_on(|_| Wanted::No).await {
            Ok(batch) if !batch.at_end => continue,
            Ok(_) => {
                let mut nonce = Digest::ZERO;
                parts.rng.fill_bytes(&mut nonce.0);
                let point = follower.read_point(nonce, COMPARE_DEADLINE).await;
                if point.is_ok_and(|it| follower.compare(&it, None) == Standing::Level) {
                    break;
                }
            }
            Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
        }
        world::sleep(AGAIN).await;
    }
    let (trust, next) = (follower.trust().clone(), follower.position());
    let followed = FollowedV1 {
        next,
        trust: trust.kept().clone(),
    };
    let store = parts.store.clone();
    world::blocking(move || store::keep_followed(&store, &followed)).await?;
    Ok((trust, next))
}
