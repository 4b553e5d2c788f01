# Needs make and Python 3.11 or newer. Everything else is put into .venv, from requirements-dev.lock (hash-checked).
.DEFAULT_GOAL := help
.SUFFIXES:
SHELL := /bin/sh

# The first of these that is really 3.11 or newer; override with `make setup PYTHON=/path/to/python3`.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
ARGS ?=
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup dev test check crash sim soak bench docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything, console script included

$(READY): requirements-dev.lock pyproject.toml scripts/install.py
	@test -n "$(PYTHON)" || { echo "rota needs Python 3.11 or newer on the PATH (or: make setup PYTHON=/path/to/python3)" >&2; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -c 'import pip' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV)
	@echo "installing into $(VENV)"
	@$(BIN)/python scripts/install.py
	@touch $@

dev: setup ## run everything on an embedded PostgreSQL (ARGS="--port 8080")
	@exec $(BIN)/rota dev $(ARGS)

test: setup ## all tests (ARGS="tests/unit -k cron")
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not soak" $(ARGS)

check: setup ## format, lint, strict types, import contract, size limits
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_sizes.py

crash: setup ## the tests that kill real processes
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "crash and not soak" $(ARGS)

sim: setup ## many seeds of the deterministic simulation (ARGS="--seeds 2000")
	@exec $(BIN)/python -m rota.sim $(ARGS)

soak: setup ## the long forms of the tests (minutes to hours)
	$(PYTEST) -n $(WORKERS) --dist worksteal -m soak --timeout 3600 $(ARGS)

bench: setup ## measure (ARGS="lifecycle --json")
	@exec $(BIN)/rota bench $(ARGS)

docs: setup ## check the links and examples of the documentation
	$(BIN)/python scripts/check_docs.py

lock: setup ## make the lock files again from pyproject.toml
	$(BIN)/python scripts/lock.py

clean: ## remove .venv and caches; data folders stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis src/*.egg-info
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
