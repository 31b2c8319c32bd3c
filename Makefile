# Two commands matter: `make run` and `make test`. Both set everything up first; the second run starts at once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest $(PYTEST_PLUGINS_OF_CI)
# Some machines forbid Python to keep compiled modules: then each worker compiles a thousand of them, every time.
unexport PYTHONDONTWRITEBYTECODE
# Tests wait a third of their time: three workers keep two cores busy, and take 5 minutes where two take 7. More would
# starve Spark, which gives its Pythons ten seconds to start.
WORKERS ?= 3
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10

# Every tenth package that pip begins with, and the long silence while it unpacks them all.
PROGRESS := awk '/^Collecting/ && ++n % 10 == 0 { print "      " n " packages"; fflush() } \
  /^Installing/ { print "      unpacking " n " packages"; fflush() }'

.PHONY: help run cluster demo check style lint types test interop coverage bench soak fuzz explore mutants docs build release lock clean

help: ## what there is to run
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Kohort needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "setting up .venv once, from PyPI: one to two minutes"
	@test -x $(BIN)/python || { echo "  1/4 a virtual environment"; $(PYTHON) -m venv .venv; }
	@echo "  2/4 download and install the dependencies"
	@set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --no-compile --require-hashes \
	  --progress-bar off -r requirements.lock | $(PROGRESS)
	@echo "  3/4 compile them"
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true # as pip does, but on all cores
	@echo "  4/4 install Kohort itself"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

run: $(READY) ## everything Kohort has, on embedded defaults, in the foreground
	@$(BIN)/kohort up

cluster: $(READY) ## three nodes on a PostgreSQL from PyPI, and who leads what: kill one and watch
	@$(BIN)/python -m examples.cluster

demo: $(READY) ## a guided tour of a few minutes: one group, consumers of two libraries and a Spark job
	@$(BIN)/python -m examples.demo || [ $$? = 130 ] # Ctrl-C is a way to end it

style: $(READY) ## format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

lint: style ## format, lint and import rules
	$(BIN)/lint-imports

types: $(READY) ## mypy --strict
	$(BIN)/mypy

check: lint types ## what to run before every commit: lint, types and the quick tests
	$(PYTEST) tests/unit tests/scenario tests/property tests/docs

test: style ## lint, types, and all tests that need nothing beyond PyPI
	@mkdir -p .mypy_cache; nice sh -c '$(BIN)/lint-imports && $(BIN)/mypy' > .mypy_cache/said & types=$$!; \
	$(PYTEST) tests -m "not interop and not soak" $(PARALLEL); tests=$$?; \
	wait $$types; typed=$$?; cat .mypy_cache/said; exit $$((tests | typed))

# Peers are fetched while the first tests run, which need none; a test that needs one waits for it.
interop: $(READY) ## Java, Go, JavaScript clients and a real Kafka broker (fetched from Maven, npm, Go)
	@mkdir -p .cache; nice $(BIN)/python -m tools.peers.fetch > .cache/fetched & fetching=$$!; \
	$(PYTEST) tests/interop tests/cli tests/clients tests/spark -m "interop and not soak" $(PARALLEL) \
	  --timeout=480 -o faulthandler_timeout=600; tests=$$?; \
	wait $$fetching; cat .cache/fetched; exit $$tests

CORE := */model/*,*/primitives/*,*/codec/*,*/records/*,*/assign/*,*/coordination/*,*/groups/*,*/sim/*
coverage: $(READY) ## what the quick tests reach, by branch; fails below 96 % of the core
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q tests/unit tests/scenario tests/broker tests/fault -m "not interop and not soak"
	$(BIN)/coverage combine -q
	$(BIN)/coverage report | tail -40
	@set -o pipefail; echo "the core:"; $(BIN)/coverage report --include='$(CORE)' --fail-under=96 | grep -E '^TOTAL|failure'

soak: $(READY) ## long rounds: 50 kills, slow disks, deep exploration
	$(PYTEST) tests -m soak --timeout=7200 -o faulthandler_timeout=7500

fuzz: $(READY) ## mutate requests of every API and generate groups for every assignor, for a long time
	KOHORT_FUZZ_FRAMES=24000 KOHORT_FUZZ_EXAMPLES=100 KOHORT_FUZZ_PEERS=401000 $(PYTEST) -n 2 tests/property/wire tests/property/assign tests/property/records/test_columns.py \
	  tests/scenario/client/test_any_history.py tests/fault tests/broker/security/test_before_login.py tests/unit/security/test_acls.py --timeout=14400 -o faulthandler_timeout=14500

explore: $(READY) ## every interleaving of three members' requests and timers, deeper than in the tests
	$(BIN)/python tools/explore.py --depth 7

mutants: $(READY) ## change groups, log and client.membership in small ways: how many changes do the tests notice?
	$(BIN)/python tools/mutants.py $(PACKAGES)

bench: $(READY) ## measure, side by side with what is there to compare with
	$(BIN)/python -m benchmarks

docs: $(READY) ## regenerate the generated pages
	$(BIN)/python tools/generate_docs.py

build: $(READY) ## wheel and sdist, in dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist -t sdist -t wheel

release: $(READY) ## gather changes/ into CHANGELOG.md, set the version, commit and tag: make release VERSION=0.2.0
	@$(BIN)/python tools/release.py $(VERSION)

lock: ## pin dependencies again (needs uv)
	uv pip compile pyproject.toml --extra report --extra oauth --extra postgres --extra registry --group dev --generate-hashes --universal --python-version 3.11 \
	  --no-header --upgrade -o requirements.lock

clean: ## remove what was built, not your data
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache dist
