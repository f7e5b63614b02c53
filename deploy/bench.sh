#!/usr/bin/env bash
# Appends per second and latency of a three-node cluster on this machine: real processes, mutual TLS, fsync on, the
# load generator on the same cores. `make bench` runs this file.
#
#   deploy/bench.sh [--seconds S] [--clients "1 64"] [--record]
#
# --record also writes docs/measured/append.json: the figures with machine, date and build. README.md shows them, and
# tests/tidy holds it to that file. Measure with nothing beside it: the load before it began is recorded too.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

seconds=10
clients="1 64"
record=
while [ $# -gt 0 ]; do
    case "$1" in
        --record)
            record="$REDLATCH_ROOT/docs/measured/append.json"
            shift
            continue
            ;;
        --seconds) seconds="$2" ;;
        --clients) clients="$2" ;;
        *)
            echo "bench: unknown option $1 (--seconds S, --clients \"1 64\", --record)" >&2
            exit 2
            ;;
    esac
    shift 2
done

# Of the minute before, and before this build adds to it.
load="$(cut -d ' ' -f 1 /proc/loadavg)"
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

# A value from the machine as JSON text.
text() {
    printf '"%s"' "$(printf '%s' "$1" | tr -d '\\"' | tr -s '[:space:]' ' ')"
}

# Machine, date and build, then the runs as `bench append -o json` printed them.
record() {
    local cpu commit
    cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    commit="$(git -C "$REDLATCH_ROOT" describe --always --dirty --abbrev=12)"
    cat <<JSON
{
  "date": $(text "$(date -u +%Y-%m-%d)"),
  "commit": $(text "$commit"),
  "profile": "dev",
  "cores": $(nproc),
  "cpu": $(text "${cpu:-unknown}"),
  "memory_mib": $(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo),
  "system": $(text "$(uname -srm)"),
  "filesystem": $(text "$(stat -f -c %T "$place")"),
  "load_before": $load,
  "runs": [
$(sed -e 's/^/    /' -e '$!s/$/,/' "$place/runs")
  ]
}
JSON
}

for n in $clients; do
    run=("$redlatch" --dir "$place/organism" bench append --clients "$n" --seconds "$seconds" --warmup 2)
    if [ -n "$record" ]; then
        "${run[@]}" -o json | tee -a "$place/runs"
    else
        "${run[@]}"
    fi
done
if [ -n "$record" ]; then
    mkdir -p "$(dirname "$record")"
    record >"$place/record"
    mv "$place/record" "$record"
    echo "bench: recorded in ${record#"$REDLATCH_ROOT"/}"
fi
