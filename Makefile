# Every command a person needs; each is also what the checks run.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test bench check fmt fuzz mutants sanitize torture

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

run: ## build and start Perch on 127.0.0.1:8080, with a stand-in chat server
	@.ci/start

test: ## everything: lint, unit, architecture, contract, end to end
	@.ci/test

check: ## the quick part: lint and architecture
	@.ci/test lint architecture

bench: ## measure against C twins and nchan; PEERS=none leaves those out
	@.ci/bench $(ROW)

sanitize: ## the tests under the address and the thread sanitizer
	@.ci/sanitize

torture: ## the long runs of what `test` does briefly
	@.ci/torture

fuzz: ## made-up bytes for each parser; TARGET= one, SECONDS= for each, SEED=
	@.ci/fuzz-parsers "$(TARGET)" "$(SECONDS)" "$(SEED)"

mutants: ## break conditions one at a time: each must turn a test red; NAMES= some
	@.ci/mutants $(NAMES)

fmt: ## format the sources in place, and write the contract as JSON and docs/events.md
	@.ci/openapi-json
	@.ci/events-page
	@source .ci/environment && swift format --in-place --parallel --recursive Sources Tests Package.swift
