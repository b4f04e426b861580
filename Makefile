# Two commands on a bare machine with Python 3.11 or newer: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: run test test-all checked tested fast test-fast processors lint types browser redis bench bench-guard soak fuzz constraints oldest newest gpu docs clean
.DEFAULT_GOAL := run

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "KV Theater needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.python pyproject.toml constraints.txt
	@$(BIN)/python tools/install.py
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml constraints.txt
	@$(BIN)/python tools/install.py test
	@touch $@ $(VENV)/.run

# Bytecode of imported modules: pip would compile all twelve thousand, one after another, of which a third is
# used, and concurrent processes without bytecode would each compile the same modules.
$(VENV)/.compiled: export PYTHONDONTWRITEBYTECODE =
$(VENV)/.compiled: $(VENV)/.test
	@$(BIN)/python -m tests.imported
	@touch $@

# the page's type checker, formatter and linters (package.json); nothing of it is served
node_modules/.installed: $(VENV)/.test package.json package-lock.json
	@echo "installing the page's type checker and linters"
	@$(BIN)/python -m tools.node npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

run: $(VENV)/.run
	$(BIN)/kvtheater serve $(ARGS)

# Bytecode is written even if the environment disables it: a hundred processes would compile the same modules.
# All but the tests that tests/long.txt lists, each of more than two seconds.
test: SHORT = --short
test test-all: export PYTHONDONTWRITEBYTECODE =
test test-all: $(VENV)/.test
	@$(MAKE) --no-print-directory --jobs 2 $(VENV)/.compiled node_modules/.installed browser redis
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory --jobs 2 checked tested SHORT=$(SHORT)

checked:
	$(BIN)/mypy
	[ "$(SHORT)" ] || $(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin engine app kvtheater
	$(BIN)/lint-imports --no-cache

# Three workers, a file each (tests/conftest.py), also on two cores: a test that drives a browser waits a third of the
# time. ARGS="-n 0" runs in one process; ARGS=--find-long rewrites tests/long.txt.
tested:
	$(BIN)/python -m tests.js
	$(BIN)/python -m pytest --numprocesses 3 --quiet $(SHORT) $(ARGS) $(NONE_CHOSEN)

# run after each change: no browser, no other processes, nothing compiled but the engine's own C
test-fast: $(VENV)/.test
	$(BIN)/ruff check --quiet .
	@$(MAKE) --no-print-directory fast

# ARGS may select tests that only one of the two runs has (pytest's status 5)
NONE_CHOSEN = || [ $$? -eq 5 -a -n "$(ARGS)" ]

fast:
	$(BIN)/python -m pytest --numprocesses 2 --fast --quiet $(ARGS) $(NONE_CHOSEN)
	$(BIN)/python -m tests.js

# all but the browser tests for each other processor that this one can emulate (tests/processors.py): some minutes each
processors: $(VENV)/.test
	$(BIN)/python -m tests.processors --numprocesses 2 $(ARGS)

# the oldest torch and transformers that pyproject.toml allows, or the newest of all packages, in an environment of its own
$(VENV)/oldest/.test $(VENV)/newest/.test: $(VENV)/%/.test: $(VENV)/.python pyproject.toml constraints.txt tools/install.py
	@$(PYTHON) -m venv $(VENV)/$*
	@$(VENV)/$*/bin/python tools/install.py --$* test
	@touch $@

# all but the browser tests with these; before each release
oldest newest: %: $(VENV)/%/.test
	$(VENV)/$@/bin/python -m pytest --numprocesses 2 --ignore tests/browser $(ARGS)

# all checks that need a GPU, in a few minutes; ARGS="--device cpu --tiny" tries the script without one
gpu: $(VENV)/.test
	$(BIN)/python -m tests.gpu $(ARGS)

browser: $(VENV)/.test
	@sh tools/get_chromium.sh $(BIN)

redis: | browser
	@sh tools/get_redis.sh

lint: $(VENV)/.test node_modules/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/python -m tools.node node_modules/@biomejs/biome/bin/biome check .
	$(BIN)/python -m tools.node node_modules/eslint/bin/eslint.js static

# the documentation as a site, in site/
docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# pins for every supported system and Python; ARGS=--upgrade takes the newest releases
constraints: $(VENV)/.test
	$(BIN)/python -m tools.constraints $(ARGS)

types: $(VENV)/.test node_modules/.installed
	$(BIN)/mypy
	$(BIN)/python -m tools.node node_modules/typescript/bin/tsc --project jsconfig.json

# onnxruntime-genai is compared where it can be installed; elsewhere its column has the reason
bench: $(VENV)/.run
	-$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/kvtheater bench run --all $(ARGS)

# compares a small run with its shipped record: the counts must be equal, the ratios within the threshold
bench-guard: $(VENV)/.run
	$(BIN)/kvtheater bench run guard --out artifacts/bench
	$(BIN)/kvtheater bench compare engine/bench/results/guard.json artifacts/bench/guard.json $(ARGS)

# a class of five hundred, some of them dropped again and again, for ten minutes; ARGS="--seconds 60 --speed 8" otherwise
soak: $(VENV)/.test
	$(BIN)/python -m tests.load.classroom --rounds 1 --seconds 300 $(ARGS)

# ten minutes of changed traces for both readers; ARGS="--seconds 60 --seed 7"; findings are in artifacts/fuzz
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz $(ARGS)

clean:
	rm -rf $(VENV) build dist site artifacts .pytest_cache .mypy_cache .ruff_cache .hypothesis
