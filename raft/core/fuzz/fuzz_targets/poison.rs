//! libFuzzer looks for a poison command (FAULTS 18): `admit`, `decide` and `evolve` on commands it makes up.
//!
//! What is done with an input, and what must hold, is in `raft/core/tests/poison.rs`, which plays a
//! seeded generator's inputs in the ordinary tests. A crash found here goes there as a test.
#![no_main]

#[path = "../../tests/poison.rs"]
mod poison;
#[path = "../../tests/resealed.rs"]
mod resealed;
#[path = "../../tests/world/mod.rs"]
mod world;

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// Making the histories takes seconds; playing one input takes a millisecond.
static BENCH: LazyLock<poison::Bench> = LazyLock::new(poison::Bench::new);

/// Puts an input for every moment of the histories into the folder that `FUZZ_SEEDS` names.
fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else {
        return;
    };
    for (n, seed) in BENCH.seeds().iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{n:03}"));
        std::fs::write(&path, seed).expect("the folder of the seeds can be written");
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| {
    BENCH.play(input);
});
