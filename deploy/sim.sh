#!/usr/bin/env bash
# The simulated world: its own tests (every scenario on fixed seeds, planted faults, the invariants' own tests), then
# random faults on the given seeds. Each of those runs twice, each time in its own process, and the two traces must be
# equal byte for byte.
#
#   deploy/sim.sh [SEED]...      default: 1 2 3
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$REDLATCH_ROOT"

seeds=("$@")
if [ "${#seeds[@]}" -eq 0 ]; then
    seeds=(1 2 3)
fi

export RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }--cfg madsim"
began=$SECONDS
# redlatch-raft has tests of its own in this world: clusters that change who they are.
simulated=(-p redlatch-sim -p redlatch-raft)
cargo build --profile sim "${simulated[@]}" --bins --tests
echo "simulated suite: built in $((SECONDS - began)) s"
began=$SECONDS
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --cargo-profile sim "${simulated[@]}"
else
    cargo test --profile sim "${simulated[@]}"
fi
sim="$CARGO_TARGET_DIR/sim/redlatch-sim"
traces="$(mktemp -d)"
trap 'rm -rf "$traces"' EXIT

# Keeps the traces of a failed seed where the reader can find them.
fail() {
    trap - EXIT
    echo "simulated suite: seed $1: $2 (traces in $traces; again: $sim --seed $1)" >&2
    exit 1
}

for seed in "${seeds[@]}"; do
    for run in first second; do
        "$sim" --seed "$seed" --trace "$traces/$seed.$run" >"$traces/$seed.$run.log" 2>&1 || {
            tail -n 40 "$traces/$seed.$run.log" >&2
            fail "$seed" "the $run run failed"
        }
        [ -s "$traces/$seed.$run" ] || fail "$seed" "the $run run wrote no trace"
    done
    cmp "$traces/$seed.first" "$traces/$seed.second" >&2 || fail "$seed" "two runs differ"
    echo "simulated suite: seed $seed: two equal traces of $(wc -l <"$traces/$seed.first") lines"
    sed -n 's/^passed: /simulated suite:   /p' "$traces/$seed.first.log"
done
echo "simulated suite: ${#seeds[@]} seeds of random faults twice, all passed, $((SECONDS - began)) s with the tests"
