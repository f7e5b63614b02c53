# Sourced by every script and every Makefile recipe: one target directory, the pinned toolchain, the repository root.
# It sets variables only: CARGO_TARGET_DIR, REDLATCH_ROOT and, where needed, RUSTUP_TOOLCHAIN. It does not install,
# build or change the working directory.

REDLATCH_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
# Not exported: variables with the product's prefix are settings of its processes.

# One directory for the real and the simulated world, so RocksDB is compiled once.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/redlatch/target}"

# The compiler version that rust-toolchain.toml names.
redlatch_pinned_rust() {
    sed -n 's/^channel = "\(.*\)"$/\1/p' "$REDLATCH_ROOT/rust-toolchain.toml"
}

# rustup looks a pinned version up by name and would download it even if an installed `stable` is that very version:
# point it at the installed one. A RUSTUP_TOOLCHAIN that the caller has set is kept.
redlatch_choose_toolchain() {
    if [ -n "${RUSTUP_TOOLCHAIN:-}" ] || ! command -v rustup >/dev/null 2>&1; then
        return 0
    fi
    local pinned names name version
    pinned="$(redlatch_pinned_rust)"
    names="$(cd / && rustup toolchain list 2>/dev/null | awk '{ print $1 }')" || return 0
    for name in $names; do
        case "$name" in
            "$pinned" | "$pinned"-*) return 0 ;;
        esac
    done
    for name in $names; do
        version="$(cd / && RUSTUP_TOOLCHAIN="$name" rustc --version 2>/dev/null | awk '{ print $2 }')" || continue
        if [ "$version" = "$pinned" ]; then
            export RUSTUP_TOOLCHAIN="$name"
            return 0
        fi
    done
}
redlatch_choose_toolchain
