#!/usr/bin/env bash
# Builds every binary of the product in the dev profile. Process tests and the demo take them from the target
# directory and never build by themselves.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$REDLATCH_ROOT"

# The simulated world has no binary in the real one.
cargo build --workspace --exclude redlatch-sim --bins "$@"
