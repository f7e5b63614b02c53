#!/usr/bin/env bash
# Exhaustive exploration of the journal: every order of everything that may be sent, up to the full bounds of
# raft/core/tests/explore/scenario.rs. It drives the journal's own decide and evolve, optimised and with every
# assertion on. A broken rule ends it with exit code 101 and a list of the steps that lead there.
#
#   deploy/explore.sh                 every full scenario
#   EXPLORE=small deploy/explore.sh   the scenarios of the ordinary tests, in the same build
#   EXPLORE=wide deploy/explore.sh    three intents; how long it takes is not known beforehand
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$REDLATCH_ROOT"

export EXPLORE="${EXPLORE:-full}"
# The profile keeps the assertions; states are counted in millions, so it is worth optimising more than a simulation.
export CARGO_PROFILE_SIM_OPT_LEVEL=3
test=tests::explore::check::every_order_of_every_scenario_keeps_every_rule
began=$SECONDS
# A name that is no test would run nothing and pass.
cargo test --profile sim -p redlatch-journal --lib -- --list --exact "$test" | grep -x "$test: test" >/dev/null || {
    echo "exploration: there is no test $test" >&2
    exit 1
}
echo "exploration: built in $((SECONDS - began)) s"
began=$SECONDS
cargo test --profile sim -p redlatch-journal --lib -- --exact --nocapture "$test"
echo "exploration: $EXPLORE bounds, no rule broken, $((SECONDS - began)) s"
