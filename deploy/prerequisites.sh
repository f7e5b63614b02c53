#!/usr/bin/env bash
# First step of `make demo`, `make test` and `.ci/run`: is there what a build needs?
#
# All there: says nothing, touches nothing, exits 0. Something missing: root gets it from apt-get; anybody else gets
# the one line to run, and exit code 2. A missing Rust is never installed, only named (exit code 2).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

install_line="apt-get install -y build-essential git libclang-dev"

# RocksDB's bindings load libclang when they are built. The C++ library libclang-cpp is not it.
has_libclang() {
    local candidate
    for candidate in \
        "${LIBCLANG_PATH:-/nonexistent}" "${LIBCLANG_PATH:-/nonexistent}"/libclang{.so,.so.*,-*.so,-*.so.*} \
        /usr/lib/llvm-*/lib/libclang{.so,.so.*,-*.so,-*.so.*} \
        /usr/lib/*-linux-gnu/libclang{.so,.so.*,-*.so,-*.so.*} \
        /usr/lib64/libclang{.so,.so.*,-*.so,-*.so.*} \
        /usr/lib/libclang{.so,.so.*,-*.so,-*.so.*} \
        /usr/local/lib/libclang{.so,.so.*,-*.so,-*.so.*}; do
        case "$candidate" in
            */libclang-cpp*) ;;
            *) if [ -f "$candidate" ]; then return 0; fi ;;
        esac
    done
    return 1
}

missing_packages() {
    local tool
    for tool in g++ make git; do
        command -v "$tool" >/dev/null 2>&1 || echo "$tool"
    done
    has_libclang || echo libclang
}

install_packages() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "$install_line"
        exit 2
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    $install_line
    local still
    still="$(missing_packages)"
    if [ -n "$still" ]; then
        echo "prerequisites: still missing after apt-get:" $still >&2
        exit 2
    fi
}

check_rust() {
    local pinned version
    pinned="$(redlatch_pinned_rust)"
    if ! command -v cargo >/dev/null 2>&1; then
        echo "prerequisites: cargo is missing: install Rust $pinned from https://rustup.rs" >&2
        exit 2
    fi
    # From the root of the repository, where rust-toolchain.toml decides.
    if ! version="$(cd "$REDLATCH_ROOT" && cargo --version | awk '{ print $2 }')" || [ -z "$version" ]; then
        echo "prerequisites: cargo does not start: install Rust $pinned (rustup toolchain install $pinned)" >&2
        exit 2
    fi
    if [ "$(printf '%s\n%s\n' "$pinned" "$version" | sort -V | head -n 1)" != "$pinned" ]; then
        echo "prerequisites: cargo $version is too old: install Rust $pinned from https://rustup.rs" >&2
        exit 2
    fi
}

if [ -n "$(missing_packages)" ]; then
    install_packages
fi
check_rust
