#!/usr/bin/env bash
# The rules for a person's assertion, held against an authenticator and a relying party of others (raft/core/cross).
# Its dependencies are a workspace of their own, so that nothing of them reaches a binary; `make test` runs this file.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$REDLATCH_ROOT/raft/core/cross"

cargo test --locked --quiet --test webauthn
