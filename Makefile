# Everything runs in .venv, which the first target that needs it makes.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-unit browser console pictures generate services check format dist bench bench-quick bench-durable bench-http bench-mcp bench-gateway conformance conformance-proxy interop adapters first-steps score site soak soak-readers faults mutants requirements clean

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO_INSTALLED := $(VENV)/.installed-demo
BENCH_INSTALLED := $(VENV)/.installed-bench

# The first Python on the path that is new enough; `make PYTHON=...` takes another.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$python && break; done)

# Tests, benchmarks and the demo also run in containers, as root; servers of yours should not.
export TOOLCRIB_ALLOW_ROOT := 1

CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Many tests wait for processes and timers, so there are more of them than processors.
WORKERS ?= $(shell echo $$((3 * $(CORES))))
ARGS ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_INSTALLED) ## Start Toolcrib with its console at an order desk (ARGS="--port 8080"; "--tour" stays in the terminal)
	@$(BIN)/toolcrib demo $(ARGS)

test: $(INSTALLED) browser ## Run the tests (ARGS="-k name" for some, WORKERS=0 for one process)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=20 $(ARGS)

test-unit: $(INSTALLED) ## Run the tests that need nothing but their own process
	$(BIN)/python -m pytest -q -n $(CORES) --dist worksteal -m unit --durations=20 $(ARGS)

# The console is tested in a real browser. Where one can be installed without asking anybody, it is; else its tests are skipped.
browser:
	@for name in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "installing chromium-headless-shell" && \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1; } || true

services: $(INSTALLED) ## Run PostgreSQL and NATS until Ctrl-C (ARGS="--data FOLDER" keeps their data)
	@$(BIN)/python -m toolcrib.testing.services $(ARGS)

check: $(INSTALLED) ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Format the code and mend what lint can mend
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

dist: $(INSTALLED) ## Build wheel and sdist into dist/, and check what they hold
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null
	$(BIN)/twine check --strict dist/*
	TOOLCRIB_DIST=dist $(BIN)/python -m pytest -q tests/test_distribution.py
	@ls -l dist

site: $(INSTALLED) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --config-file website/mkdocs.yml

generate: $(INSTALLED) ## Write what is generated from the types of events: a page of the reference, types of the console
	$(BIN)/python -m tests.events.generate

console: ## Build the console into the package (needs Node and npm)
	cd console && npm ci --silent --no-fund --no-audit && npm run --silent check && npx vite build

pictures: $(INSTALLED) browser ## Make the pictures of the console in the docs anew
	rm -rf docs/images/console
	TOOLCRIB_PICTURES=docs/images/console $(BIN)/python -m pytest -q tests/console/test_pictures.py

bench: $(BENCH_INSTALLED) ## Run the benchmarks (ARGS go to bench/run.py)
	$(BIN)/python bench/run.py $(ARGS)

bench-quick: $(BENCH_INSTALLED) ## Compare what is fast with bench/baseline.json in three minutes (ARGS="--only calls durable", "--accept")
	$(BIN)/python -m bench.quick $(ARGS)

bench-durable: $(BENCH_INSTALLED) ## Run those over PostgreSQL and NATS (ARGS go to bench/cluster.py)
	$(BIN)/python -m bench.cluster $(ARGS)

bench-http: $(BENCH_INSTALLED) ## Run those of the HTTP server (ARGS go to bench/http.py)
	$(BIN)/python -m bench.http $(ARGS)

bench-mcp: $(BENCH_INSTALLED) ## Run those of the MCP server (ARGS go to bench/mcp.py)
	$(BIN)/python -m bench.mcp $(ARGS)

bench-gateway: $(BENCH_INSTALLED) ## Run those of MCP servers behind Toolcrib (ARGS go to bench/gateway.py)
	$(BIN)/python -m bench.gateway $(ARGS)

conformance: $(INSTALLED) ## Run the official MCP suites against server and client (npm installs them)
	@$(BIN)/python -m tests.conformance.run $(ARGS)
	@$(BIN)/python -m tests.conformance.clients

conformance-proxy: $(INSTALLED) ## Run the same through `toolcrib serve` in front of the reference server (ARGS="--log FOLDER")
	@$(BIN)/python -m tests.conformance.proxy $(ARGS)

interop: $(INSTALLED) ## Try real MCP clients and servers with Toolcrib and print a table (npm and pip install them)
	@$(BIN)/python -m tests.conformance.peers $(ARGS)

adapters: $(INSTALLED) ## Test each adapter in an environment of its own (ARGS="langchain" for one)
	@$(BIN)/python -m tests.adapters.run $(ARGS)

first-steps: $(INSTALLED) browser ## Take the first steps of the README in an environment that pip fills from the wheel
	TOOLCRIB_FIRST_STEPS=1 $(BIN)/python -m pytest -q -s tests/test_first_steps.py

score: $(INSTALLED) ## Run public suites and write docs/score.md (ARGS="bfcl openapi" prints some)
	@$(BIN)/python -m bench.score $(or $(ARGS),--write-docs)

soak: $(INSTALLED) ## Kill parts of a cluster at random under load (ARGS="--minutes 5 --seed 1")
	@$(BIN)/python -m tests.cluster.soak $(ARGS)

faults: $(INSTALLED) ## Kill, pause, cut off and starve every set-up, then check what is left (ARGS="--minutes 60 --seed 1")
	@$(BIN)/python -m tests.faults $(ARGS)

mutants: $(INSTALLED) ## Put faults into copies of the source and see which no test notices (ARGS="--sample 25 --seed 1 --package calls")
	@nice -n 10 $(BIN)/python -m tests.mutants $(ARGS)

soak-readers: $(INSTALLED) ## Show the memory of a server with 900 readers and 100 that never read (ARGS="--minutes 30")
	@$(BIN)/python -m tests.soak $(ARGS)

requirements: $(INSTALLED) ## Show which requirements are done and open (ARGS="contract" lists the open ones)
	@$(BIN)/python -m tests.requirements $(ARGS)

clean: ## Remove the virtual environment, caches and build output
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests docs_src -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' 2>/dev/null || \
		{ echo "Toolcrib needs Python 3.11 or newer; none is on the path. Name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV)

$(DEMO_INSTALLED): pyproject.toml | $(BIN)/python
	@{ command -v uv >/dev/null && uv pip install --quiet --python $(BIN)/python --editable '.[demo]'; } || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[demo]'
	@touch $@

# It has what the demo needs too.
$(INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(DEMO_INSTALLED)

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench,cluster,services]'
	@touch $@
