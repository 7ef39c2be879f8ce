# What a fresh machine needs: python3 (3.11 or later), Java 17 or later, make, bash. `make demo` and `make test` do the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
LOG := .run/logs
# TESTS="tests/core -k name" narrows a run of tests.
TESTS ?= tests
ARGS ?=
UNIT_PROCESSES ?= auto
PROCESSES ?= 4
export PYTHONUNBUFFERED := 1
# Each process of a run of tests reads all of them: it takes a third of the time where an earlier one could keep what it compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install develop java browser prometheus jars demo check unit test kubernetes-test chaos bench evaluate docs clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: .venv/installed .venv/kernels ## make .venv with what the job and the demo need
	@:

develop: .venv/developed .venv/kernels ## make .venv with what checks, tests and benches need as well
	@:

java: ## look for Java 17 or later; YES=1 installs it with the system's package manager
	@YES="$(YES)" .ci/java

browser: ## look for Chromium, which some tests need; YES=1 installs it with the system's package manager
	@YES="$(YES)" .ci/package chromium

prometheus: ## look for Prometheus, which some tests need; YES=1 installs it with the system's package manager
	@YES="$(YES)" .ci/package prometheus

.venv/bin/python:
	@.ci/python

.venv/installed: pyproject.toml .venv/bin/python
	@.ci/install controller

.venv/tested: pyproject.toml .venv/bin/python
	@.ci/install unit

.venv/developed: pyproject.toml .venv/bin/python
	@.ci/install dev

.venv/documented: pyproject.toml .venv/bin/python
	@.ci/install docs

.venv/kernels: .venv/installed $(wildcard autoscaler/packing/*.py autoscaler/packing/*/*.py autoscaler/goals/*.py)
	@.ci/kernels

jars: install java ## fetch the Delta and Kafka broker jars into the cache directory
	@$(BIN)/python -m autoscaler.jars >/dev/null

demo: jars ## the whole loop on a real broker, about four minutes; ARGS="--duration 600 --partitions 64 --seed 7"
	@exec $(BIN)/python -m autoscaler.cli demo $(ARGS)

check: .venv/developed ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports | sed -n "/^Analyzed/,\$$p"

unit: .venv/tested .venv/kernels ## every test that needs neither Java nor jars nor a browser: a minute or two
	$(BIN)/python -m pytest -m unit -n $(UNIT_PROCESSES) --dist worksteal $(TESTS) $(ARGS)

# Most tests of a broker wait, and one job runs at a time (tests/scheduling.py): four processes keep two cores busy. ARGS="-n 0" runs them one after the other.
test: develop jars browser prometheus ## every test but those of make chaos and make kubernetes-test: unit, and the real broker, Spark, Delta, browser and Prometheus
	@$(BIN)/python -m autoscaler.devtools.class_archive >/dev/null
	$(BIN)/python -m pytest -m "not slow and not kubernetes" -n $(PROCESSES) --dist loadfile --no-loadscope-reorder $(TESTS) $(ARGS)

# Its output is not this target's: the tests ask for the path themselves.
kubernetes-test: develop jars ## tests on a real Kubernetes control plane, built with Go the first time (a quarter of an hour)
	@.ci/control-plane >/dev/null || [[ $$? -eq 3 ]]
	@.ci/helm >/dev/null || [[ $$? -eq 3 ]]
	$(BIN)/python -m pytest -m kubernetes $(TESTS) $(ARGS)

chaos: develop jars ## an hour of kills, freezes, outages and long random runs; ARGS="--minutes 10 --seed 7"
	@exec $(BIN)/python -m tests.chaos $(ARGS)

bench: develop jars ## measure, and print a table with machine and commit
	$(BIN)/python -m tests.bench $(ARGS)

evaluate: develop jars ## run the published experiments again and write page and tables, a minute or two; ARGS="--full" with all streams, ARGS="--part sizing" how groups are sized
	@./spark-submit.sh --job jobs/evaluate.py -- --document docs/research/evaluation.md $(ARGS)

docs: .venv/documented ## build the documentation as a site, links checked, into .run/site/index.html
	@.ci/site

clean: ## remove what was made here (the jars' cache stays)
	rm -rf .venv .run build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
