# Thin names for what the scripts do. Every target works on a fresh machine.
SHELL := /bin/bash
.DELETE_ON_ERROR:
PYTHON_VENV := .venv
BIN := $(PYTHON_VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/.tools/bin:$(PATH)
# Images for containers often set it, and every start of Python then compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run build build-dev test test-rust test-python test-servers test-slow test-changed test-all lint lint-rust lint-python bench truth schemas docs site lock fuzz dist clean

# Weighs this machine: a table here, a report in runs/.
run: build
	$(BIN)/steelyard run quick --out runs

# A working .venv/bin/steelyard with the executables of the data plane beside it, and nothing that only tests need.
build:
	scripts/build

# The same, and what tests and linters need.
build-dev:
	scripts/build --dev

# Everything but the slow tests (heavy integration).
test: build-dev
	scripts/install-test-packages
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-rust test-python
	$(MAKE) --no-print-directory test-servers

test-all: test test-slow

# The slow tests: all of them, or those that a change touches, as far as eight minutes hold them.
test-slow test-changed: build-dev
	scripts/install-test-packages --slow
	$(SIGNALS) $(BIN)/python scripts/slow_tests.py $(if $(filter test-slow,$@),--all)

# A shell that starts a job in the background may have it ignore the signals that tests send to their programs. Of make's
# jobs, which rustc would wait for, its recipes have none.
SIGNALS := env --default-signal=HUP,INT,QUIT -u MAKEFLAGS -u MFLAGS
# Property tests try the same examples each time, as those of Python do; `make fuzz` draws others.
test-rust:
	$(SIGNALS) PROPTEST_RNG_SEED=1 cargo test --workspace --locked --no-fail-fast

# What starts no server runs on all CPUs, neighbouring tests in one process, which makes what they share once. What starts
# servers runs in three rows, file by file: every test holds beside other work, and much of its time is waiting, as is
# that of Rust's tests.
SERVERS := agents bench benchmarks cli executables experiment web
PYTEST := $(SIGNALS) $(BIN)/python -m pytest --durations 15 --durations-min 5
test-python:
	$(PYTEST) -n logical --maxprocesses 8 --dist worksteal $(SERVERS:%=--ignore=python/tests/%)

test-servers:
	$(PYTEST) -n 3 --dist loadfile $(SERVERS:%=python/tests/%)

# mypy keeps one CPU busy, and so does the end of clippy: side by side they take the time of the longer.
lint: build-dev
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

lint-python:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Steelyard beside its peers, each pair measured alternately in one run.
bench: build-dev
	scripts/install-bench-packages
	$(BIN)/python benches/run.py

# Tries every statistic against simulated truth and writes docs/truth.md.
truth: build-dev
	cargo build --release --locked --package steelyard-load --example capacity_truth
	scripts/truth

# Writes the JSON Schemas again from the Python models.
schemas: build
	$(BIN)/python -m steelyard.records.schemas
	$(BIN)/python -m steelyard.decide.schema
	$(BIN)/python -m steelyard.fleet.store.schema
	$(BIN)/python -m steelyard.cli.fleet.schemas
	$(BIN)/python -m steelyard.cli.schemas

# Writes the pages of the reference again that are made of declarations.
docs: build
	$(BIN)/python -m steelyard.cli.manual --documents docs/reference
	$(BIN)/python -m steelyard.machine.checks.reference

# Builds the documentation as a site of static files in site/, which needs no network and no server.
site: build-dev
	$(BIN)/python scripts/site

# Resolves the Python dependencies anew: hashes, no hosts.
lock:
	scripts/lock

# Fuzzes each target for a minute, and tries property tests with more and other examples.
fuzz: build-dev
	scripts/fuzz 60
	PROPTEST_CASES=4000 cargo test --workspace --lib --locked --no-fail-fast
	$(PYTEST) -n logical --maxprocesses 8 -m hypothesis --hypothesis-profile search python/tests

# Packages in dist/: a wheel that needs no Rust, and the agent as a Debian package and an image.
dist:
	scripts/dist

clean:
	rm -rf target .venv .tools dist
