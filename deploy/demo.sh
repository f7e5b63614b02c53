#!/usr/bin/env bash
# The first part of the product on real processes: three nodes with their own keys and state, mutual TLS on loopback,
# a replicated journal with receipts. Every line below is the tools' own output; nothing is replayed.
#
#   deploy/demo.sh [--keep]      --keep leaves the organism's folder and says where it is
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

keep=no
for argument in "$@"; do
    case "$argument" in
        --keep) keep=yes ;;
        *)
            echo "demo: unknown option $argument (--keep)" >&2
            exit 2
            ;;
    esac
done

redlatch="$CARGO_TARGET_DIR/debug/redlatch"
[ -x "$redlatch" ] || {
    echo "demo: $redlatch is missing; build it first: make build" >&2
    exit 2
}
place="$(mktemp -d)"
organism="$place/organism"
dev=
: >"$place/dev.out"

# Stops what was started, whatever happened.
closing() {
    local status=$?
    if [ -n "$dev" ] && kill -0 "$dev" 2>/dev/null; then
        kill -TERM "$dev"
        wait "$dev" || true
    fi
    if [ "$status" -ne 0 ] && [ -f "$place/dev.log" ]; then
        echo "demo: failed; the processes said:" >&2
        cat "$place/dev.log" >&2
    fi
    if [ "$keep" = yes ]; then
        echo "the organism's folder is $organism"
    else
        rm -rf "$place"
    fi
    exit "$status"
}
trap closing EXIT

# Prints a command as it would be typed, then runs it.
show() {
    echo
    echo "\$ $*" | sed "s#$place/##g; s#^\$ $redlatch#\$ redlatch#"
    "$@" | sed "s#$place/##g"
}

# One field of a command's JSON answer.
field() {
    sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1
}

ask=("$redlatch" --dir "$organism")

echo "== a development organism, and its three nodes"
show "$redlatch" init --dev "$organism"
"$redlatch" dev "$organism" >"$place/dev.out" 2>"$place/dev.log" &
dev=$!
for _ in $(seq 600); do
    grep -q '^ready' "$place/dev.out" && break
    kill -0 "$dev" 2>/dev/null || break
    sleep 0.1
done
grep -q '^ready' "$place/dev.out"
echo
echo "\$ redlatch dev organism &"
sed "s#$place/##g" "$place/dev.out" | sed -n '1,/^$/p'
show "${ask[@]}" status

echo
echo "== an intent is frozen: its bytes are durable on a majority and may be signed about"
commit="$(printf 'demo candidate' | git hash-object --stdin)"
show "${ask[@]}" intent freeze --repo demo --ref refs/heads/main --new "$commit"
show "${ask[@]}" journal tail

echo
echo "== its receipt, and what anybody can check offline with two files"
position="$("${ask[@]}" -o json journal tail | grep '"event":"frozen"' | field position)"
"${ask[@]}" receipt get --position "$position" >"$place/freeze.tlog-proof"
echo
echo "\$ redlatch --dir organism receipt get --position $position > freeze.tlog-proof"
show "$redlatch" receipt verify "$place/freeze.tlog-proof" --policy "$organism/trust-policy.txt"
sed 's/^index .*/index 0/' "$place/freeze.tlog-proof" >"$place/altered.tlog-proof"
echo
echo "\$ redlatch receipt verify altered.tlog-proof --policy organism/trust-policy.txt"
code=0
"$redlatch" receipt verify "$place/altered.tlog-proof" --policy "$organism/trust-policy.txt" || code=$?
echo "exit code $code"
[ "$code" -eq 1 ]

echo
echo "== the leader is killed; the cluster goes on"
leader="$("${ask[@]}" -o json status | tr '{' '\n' | grep '"role":"leader"' | field name)"
echo "\$ kill -9 $leader"
kill -9 "$(cat "$organism/run/$leader.pid")"
commit="$(printf 'second candidate' | git hash-object --stdin)"
show "${ask[@]}" intent freeze --repo demo --ref refs/heads/main --new "$commit"
show "${ask[@]}" status

echo
echo "== everything is stopped cleanly"
kill -TERM "$dev"
wait "$dev"
dev=
grep -v '^WARNING\|^  ' "$place/dev.log"
