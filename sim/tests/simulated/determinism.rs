//! Fault 99: one seed, two processes, one trace; another seed, another trace.

use crate::support::{printed, simulate};

fn trace(seed: &str, scenario: &str, run: &str) -> Vec<u8> {
    let name = format!("trace-{scenario}-{seed}-{run}-{}", std::process::id());
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = path.to_str().expect("the target directory's name is text");
    let output = simulate(&[
        "--seed",
        seed,
        "--scenario",
        scenario,
        "--steps",
        "12",
        "--trace",
        file,
    ]);
    assert!(output.status.success(), "{}", printed(&output));
    let trace = std::fs::read(&path).expect("a trace was written");
    std::fs::remove_file(&path).expect("the trace is there");
    assert!(!trace.is_empty());
    trace
}

#[test]
fn fault_099_one_seed_makes_one_trace() {
    for scenario in ["calm", "organism", "random"] {
        let first = trace("7", scenario, "first");
        assert!(
            first == trace("7", scenario, "second"),
            "two runs of one seed differ: {scenario}"
        );
        assert!(
            first != trace("8", scenario, "other"),
            "two seeds make one trace: {scenario}"
        );
    }
}
