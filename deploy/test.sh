#!/usr/bin/env bash
# The whole suite: every binary fresh, the ordinary tests (cargo-nextest where it is installed), the documentation
# tests, then the simulated world on fixed seeds. `make test` runs this file.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
. "$here/env.sh"
cd "$REDLATCH_ROOT"

"$here/build.sh"
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace
    cargo test --workspace --doc --quiet
else
    cargo test --workspace
fi
"$here/sim.sh"
