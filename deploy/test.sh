#!/usr/bin/env bash
# The whole suite: every binary fresh, the ordinary tests (cargo-nextest where it is installed), the documentation
# tests, then the simulated world on fixed seeds. `make test` runs this file.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
. "$here/env.sh"
cd "$REDLATCH_ROOT"

# redlatch-sim lives in the simulated world only: deploy/sim.sh builds and tests it there.
real=(--workspace --exclude redlatch-sim)

# Binaries and tests in one command: the same features, so nothing is compiled twice.
cargo build "${real[@]}" --bins --tests
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run "${real[@]}"
    cargo test "${real[@]}" --doc --quiet
else
    cargo test "${real[@]}"
fi
"$here/cross.sh"
"$here/sim.sh"
