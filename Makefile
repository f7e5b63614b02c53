# Thin: every target calls a script in deploy/ or one cargo command; each also runs without make.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build test demo check fix sim explore fuzz bench

ARGS ?=
SEEDS ?=

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | awk -F '\t' '{ printf "make %-7s %s\n", $$1, $$2 }'

build: ## every binary, dev profile
	@deploy/prerequisites.sh
	@deploy/build.sh

test: ## the whole suite: ordinary tests, then the simulated world
	@deploy/prerequisites.sh
	@deploy/test.sh

demo: ## the product's main job on real processes (ARGS="...": the demo's own options)
	@deploy/prerequisites.sh
	@deploy/build.sh
	@deploy/demo.sh $(ARGS)

check: ## formatting and lints, warnings denied; writes nothing
	@deploy/check.sh

fix: ## formats, and applies what clippy can repair
	@. deploy/env.sh; cargo fmt --all
	@. deploy/env.sh; for own in fuzz cross; do cargo fmt --manifest-path raft/core/$$own/Cargo.toml; done
	@. deploy/env.sh; cargo clippy --workspace --exclude redlatch-sim --all-targets --fix --allow-dirty --allow-staged

sim: ## the simulated world alone (SEEDS="1 2 3")
	@deploy/prerequisites.sh
	@deploy/sim.sh $(SEEDS)

explore: ## every order of what may be sent to the journal, up to a bound (minutes; EXPLORE=wide: longer)
	@deploy/explore.sh

fuzz: ## libFuzzer looks for a command that breaks the journal (FUZZ_SECONDS, 900)
	@deploy/prerequisites.sh
	@deploy/fuzz.sh

bench: ## appends per second and latency on real processes (ARGS="...": the benchmark's own options)
	@deploy/prerequisites.sh
	@deploy/bench.sh $(ARGS)
