//! A process whose key no roster has named so far: it reads on until one does, or a majority says that none will.
//!
//! ```text
//!   key of the genesis, or of an act that was followed ──────────────────▶ in force
//!   any other ─▶ changes of the roster, each proven ─▶ named? ───────────▶ in force
//!                        └─ level with a majority of the nodes, not named ▶ refused
//! ```
//!
//! So a party that an act of the root has replaced needs no genesis that names it, and a key that nobody has
//! named starts nothing.

use std::time::Duration;

use rand_core::RngCore;
use redlatch_types::Digest;
use redlatch_types::records::RosterV1;

use super::{Follower, Standing, Wanted};
use crate::world;

/// How long a majority may take to say how far the journal is.
const DEADLINE: Duration = Duration::from_secs(3);
/// Pause before it is asked again.
const PAUSE: Duration = Duration::from_millis(300);

/// Reads on until a majority of the nodes vouches that nothing more is in force than was read; whether the roster in
/// force is the one that is looked for. One that was in force in between counts for nothing. Without a majority it
/// goes on asking.
pub async fn until_named(
    follower: &mut Follower,
    is_named: impl Fn(&RosterV1) -> bool,
    rng: &mut impl RngCore,
) -> bool {
    loop {
        match follower.read_on(|_| Wanted::No).await {
            Ok(batch) if !batch.at_end => continue,
            Ok(_) => {
                let mut nonce = Digest::ZERO;
                rng.fill_bytes(&mut nonce.0);
                match follower.read_point(nonce, DEADLINE).await {
                    Ok(point) if follower.compare(&point, None) == Standing::Level => {
                        return is_named(&follower.trust().in_force().roster);
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "no majority says what is in force"),
                }
            }
            Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
        }
        world::sleep(PAUSE).await;
    }
}
