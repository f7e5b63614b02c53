//! A verifier without a seat in what it knows: the journal is read to its end before it is sent away.
//!
//! A change of the verifiers, or an act of the root, seats somebody whom the genesis does not name. The links from
//! there to the roster in force are proven one by one, and the end is a majority's word, so no node seats anybody or
//! hides a seat.

use redlatch_link::follow::{Follower, Trust, until_named};
use redlatch_link::store::Store;
use redlatch_link::transport::Dialer;
use redlatch_link::world;
use redlatch_types::records::RosterV1;

use crate::process::VerifierParts;
use crate::start::StartFailure;
use crate::store::{self, FollowedV1};

/// Reads the journal up to the roster that seats this verifier, or to the end that a majority vouches for, and keeps
/// what it proved. Without a majority it goes on asking.
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
    let (own, key) = (
        parts.credentials.identity().name.clone(),
        parts.vote_key.public_key(),
    );
    let seats = |roster: &RosterV1| {
        let mut verifiers = roster.verifiers.iter();
        verifiers.any(|it| it.vote_key == key && it.verifier_id.as_str() == own)
    };
    // Whether it is seated says whoever looks at the roster next.
    let _ = until_named(&mut follower, seats, &mut parts.rng).await;
    let (trust, next) = (follower.trust().clone(), follower.position());
    let followed = FollowedV1 {
        next,
        trust: trust.kept().clone(),
    };
    let store = parts.store.clone();
    world::blocking(move || store::keep_followed(&store, &followed)).await?;
    Ok((trust, next))
}
