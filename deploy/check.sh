#!/usr/bin/env bash
# Formatting and lints of both worlds, warnings denied. Writes nothing into the repository.
#
#   deploy/check.sh [fmt|clippy|clippy-sim]...      default: all three
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$REDLATCH_ROOT"

# Warnings are denied by an argument of clippy, not by RUSTFLAGS: those are part of every unit's identity and would
# compile each dependency once more.
check() {
    case "$1" in
        fmt)
            cargo fmt --all --check
            # Workspaces of their own, beside the product's.
            cargo fmt --check --manifest-path raft/core/fuzz/Cargo.toml
            cargo fmt --check --manifest-path raft/core/cross/Cargo.toml
            ;;
        clippy) cargo clippy --workspace --exclude redlatch-sim --all-targets -- -D warnings ;;
        # redlatch-sim depends on every shell, so clippy sees each of them as it is in the simulated world.
        clippy-sim)
            RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }--cfg madsim" \
                cargo clippy --profile sim -p redlatch-sim --all-targets -- -D warnings
            ;;
        *)
            echo "check: unknown step $1 (fmt, clippy, clippy-sim)" >&2
            exit 2
            ;;
    esac
}

steps=("$@")
if [ "${#steps[@]}" -eq 0 ]; then
    steps=(fmt clippy clippy-sim)
fi
for step in "${steps[@]}"; do
    check "$step"
done
