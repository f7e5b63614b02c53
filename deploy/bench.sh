#!/usr/bin/env bash
# Appends per second and latency of a three-node cluster on this machine: real processes, mutual TLS, fsync on, the
# load generator on the same cores. `make bench` runs this file.
#
#   deploy/bench.sh [--seconds S] [--clients "1 64"]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

seconds=10
clients="1 64"
while [ $# -gt 0 ]; do
    case "$1" in
        --seconds) seconds="$2" ;;
        --clients) clients="$2" ;;
        *)
            echo "bench: unknown option $1 (--seconds S, --clients \"1 64\")" >&2
            exit 2
            ;;
    esac
    shift 2
done

"$(dirname "${BASH_SOURCE[0]}")/build.sh"
redlatch="$CARGO_TARGET_DIR/debug/redlatch"
place="$(mktemp -d)"
dev=
closing() {
    local status=$?
    if [ -n "$dev" ] && kill -0 "$dev" 2>/dev/null; then
        kill -TERM "$dev"
        wait "$dev" || true
    fi
    rm -rf "$place"
    exit "$status"
}
trap closing EXIT

"$redlatch" init --dev "$place/organism" >/dev/null 2>&1
"$redlatch" dev "$place/organism" >"$place/out" 2>"$place/log" &
dev=$!
for _ in $(seq 600); do
    grep -q '^ready' "$place/out" && break
    kill -0 "$dev" 2>/dev/null || break
    sleep 0.1
done
grep -q '^ready' "$place/out" || {
    cat "$place/log" >&2
    exit 1
}
for n in $clients; do
    "$redlatch" --dir "$place/organism" bench append --clients "$n" --seconds "$seconds" --warmup 2
done
