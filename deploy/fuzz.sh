#!/usr/bin/env bash
# libFuzzer looks for a poison command: one that panics admit, decide or evolve, or does what no command may
# (raft/core/tests/poison.rs says what must hold). The compiler is the pinned one; neither nightly nor cargo-fuzz is needed.
# It ends after FUZZ_SECONDS, or at the first input that breaks something with the exit code of libFuzzer and the
# name of the file that holds it. That file, as an argument, is played again.
#
#   deploy/fuzz.sh                           15 minutes
#   FUZZ_SECONDS=3600 deploy/fuzz.sh         an hour
#   FUZZ_JOBS=4 deploy/fuzz.sh               four processes that share one corpus
#   deploy/fuzz.sh .../crash-0123abcd        this input alone
#
# Inputs that reached new code are kept in $CARGO_TARGET_DIR/fuzz/corpus and the next run begins with them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$REDLATCH_ROOT/raft/core/fuzz"

# Its own folder: everything is compiled once more, with counters at every edge.
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/fuzz"
corpus="$CARGO_TARGET_DIR/corpus"
found="$CARGO_TARGET_DIR/found"
mkdir -p "$corpus" "$found"

host="$(rustc -vV | sed -n 's/^host: //p')"
# With a target named, these flags reach no build script.
counters="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
counters+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
RUSTFLAGS="$counters" cargo build --release --locked --target "$host" --bin poison
poison="$CARGO_TARGET_DIR/$host/release/poison"

if [ "$#" -gt 0 ]; then
    exec "$poison" "$@"
fi
FUZZ_SEEDS="$corpus" "$poison" -runs=0 "$corpus" >/dev/null 2>&1
options=("-max_total_time=${FUZZ_SECONDS:-900}" -max_len=16384 -len_control=0 -timeout=10 -print_final_stats=1)
if [ "${FUZZ_JOBS:-1}" -gt 1 ]; then
    options+=("-fork=$FUZZ_JOBS")
fi
"$poison" "${options[@]}" "-artifact_prefix=$found/" "$corpus"
echo "fuzz: nothing found"
