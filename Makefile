# Two commands do everything from a fresh clone: `make serve` and `make test`.
# Each creates its own environment in .venv; nothing outside this folder is touched.

PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet
DATA   ?= penstock-data
SEED   ?= 0
SEEDS  ?= 1000
STEPS  ?= 2000
ROUNDS ?= 20
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help install serve test quick nightly lint sim chaos bench docs clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Penstock needs Python 3.11 or newer; this is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.serve: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Penstock into $(VENV) ..."
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Penstock, Spark and the test tools into $(VENV): some minutes, once ..."
	@$(PIP) install -c constraints.txt -e '.[dev,cli,spark]'
	@touch $@ $(VENV)/.serve

# A Redis client for Node, to be tested with; where npm cannot fetch it, its test is skipped.
$(VENV)/.node: tests/interop/node_redis/package.json | $(BIN)/python
	@if command -v npm >/dev/null; then \
	  echo "fetching node-redis, to test with ..."; \
	  timeout 60 npm install --prefix tests/interop/node_redis --no-package-lock --no-audit --no-fund --silent \
	    --fetch-retries 0 --fetch-timeout 20000 && touch $@ \
	  || echo "node-redis could not be fetched: its test will be skipped"; fi

install: $(VENV)/.serve ## make the environment with Penstock in it, nothing else

serve: $(VENV)/.serve ## start the broker on this machine (ARGS="--listen ..." for more)
	@exec $(BIN)/penstock serve --data $(DATA) $(ARGS)

test: lint $(VENV)/.node ## lint, types, layer contract, the suite
	$(BIN)/python -bb -m pytest -n 2 --dist loadfile -m "not nightly"

quick: lint $(VENV)/.node ## the everyday part: everything but the slow tests
	$(BIN)/python -bb -m pytest -n 2 --dist loadfile -m "not slow and not nightly"

nightly: $(VENV)/.dev ## more seeds and rounds of what the suite tries once
	$(BIN)/python -bb -m pytest -n 2 --dist loadfile -m nightly

lint: $(VENV)/.dev ## style, types and layers only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

sim: $(VENV)/.dev ## simulate clusters with faults: SEED=first SEEDS=how-many STEPS=of-each
	$(BIN)/python -m tests.raft.simulation --seed $(SEED) --seeds $(SEEDS) --steps $(STEPS) $(ARGS)

chaos: $(VENV)/.dev ## real nodes under load and faults, some 10 s a round: ROUNDS=how-many [SEED=number]
	$(BIN)/python -m tests.chaos --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

docs: $(VENV)/.dev ## write the generated reference pages anew
	$(BIN)/python -m tests.generate

bench: $(VENV)/.dev ## measure against Mosquitto and Redis, where they are installed
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## forget the environment (data stays)
	rm -rf $(VENV)
