#!/usr/bin/env bash
# The product's main job on real processes: three nodes, four verifiers, a sentinel and an actuator, each with its own
# keys and state, mutual TLS on loopback, and a git repository behind a gate. `redlatch demo` plays and asserts it.
#
#   deploy/demo.sh [--strict N] [--keep]      the demo's own options: redlatch demo --help
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

redlatch="$CARGO_TARGET_DIR/debug/redlatch"
[ -x "$redlatch" ] || {
    echo "demo: $redlatch is missing; build it first: make build" >&2
    exit 2
}
exec "$redlatch" demo "$@"
