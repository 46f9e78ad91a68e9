# Every target does its own set-up, from a clean clone. What is needed beforehand: Python 3.11 or later, a C compiler, Rust 1.85 or later.
# Stamp files below .venv/ say what is done, so that nothing is built or installed twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps

# Further arguments: make test PYTEST_ARGS="-k trim -x", make demo DEMO_ARGS="--seconds 5"
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
TORTURE_ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Cargo builds the bindings for the Python that will import them.
export PYO3_PYTHON := $(abspath $(BIN)/python)
# rustup's folder is often not on the path of a shell that is no login shell.
export PATH := $(PATH):$(HOME)/.cargo/bin

NATIVE_SOURCES := $(shell find native \( -path native/target -o -path native/fuzz \) -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock \) -print)
PACKAGES := diskstream diskstream_command pyspark_diskstream
# What programs import. A package that says what it exports has no others on its page.
REFERENCE := diskstream $(addprefix diskstream.,aio archiving backups cold compat dissecting exporting ingest replaying spark)
# mypy refuses a directory without Python in it.
TYPED := $(sort $(patsubst %/,%,$(dir $(wildcard diskstream/*.py diskstream_command/*.py tools/*.py tests/*.py bench/*.py))))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help build demo test check check-python check-rust bench torture fuzz sanitize docs format clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	    printf '  make %-14s %s\n' "$$name" "$$text"; done

build: $(STAMPS)/native $(STAMPS)/bytecode ## Build the native core and install the package into .venv

demo: build $(STAMPS)/columnar $(STAMPS)/spark-bytecode ## Feed, tail, crash, recover and seal a store with this machine's telemetry
	$(BIN)/diskstream demo $(DEMO_ARGS)

# Four at most: those of Spark's tests that share a session take longest and are one process's, and some others keep all
# processors at work themselves.
test: build $(STAMPS)/test $(STAMPS)/columnar $(STAMPS)/classes $(STAMPS)/spark-bytecode ## Run all tests, in a process for each processor
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 $(PYTEST_ARGS)

check: check-python check-rust ## Lint, formatting and types of Python; lint, formatting and tests of Rust

check-python: build $(STAMPS)/test $(STAMPS)/lint $(STAMPS)/bench ## The Python half of check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/python -m tests.check_stubs

# The bindings are not linked as a test program (that would need libpython): pytest is their test.
check-rust: $(STAMPS)/toolchain ## The Rust half of check
	cd native && cargo fmt --all --check
	cd native/fuzz/libfuzzer && cargo fmt --check
	cd native && cargo clippy --locked --workspace --all-targets -- -D warnings
	cd native && cargo test --locked --workspace --exclude diskstream-native

bench: build $(STAMPS)/bench $(STAMPS)/columnar $(STAMPS)/spark-bytecode ## Compare with Redis, SQLite and a bare loop, side by side in one run
	$(BIN)/python -m bench $(BENCH_ARGS)

torture: build $(STAMPS)/test $(STAMPS)/bench $(STAMPS)/cxx ## Break disks, processes, files and inputs: TORTURE_ARGS="--seed 7 --for 1h"
	$(BIN)/python -m tests.torture $(TORTURE_ARGS)

fuzz: build $(STAMPS)/test $(STAMPS)/cxx ## Made-up bytes for every parser: TORTURE_ARGS="--seed 7 --for 1h"
	$(BIN)/python -m tests.torture fuzz $(TORTURE_ARGS)

sanitize: build $(STAMPS)/test ## The tests of the Rust crates, and some of the bindings, under the address sanitizer
	$(BIN)/python -m tests.fuzz.sanitize

docs: build $(STAMPS)/docs $(STAMPS)/spark ## Write the reference of the Python interface to build/docs
	$(BIN)/pdoc --output-directory build/docs $(REFERENCE)

format: $(STAMPS)/lint ## Format Python and Rust, and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd native && cargo fmt --all
	cd native/fuzz/libfuzzer && cargo fmt

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) build dist native/target .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	rm -f diskstream/_native*.so diskstream/spark/columnar/*.jar
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ----------------------------------------------------------------------------------------------------------

# Debian keeps ensurepip, without which a virtual environment has no pip, in a package of its own. Its pip is then too old:
# 25.1 is the first that knows --group.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'diskstream needs Python 3.11 or later; name one: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv; \
	    fi; \
	    $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	        echo '$(PYTHON) cannot make virtual environments: install them (Debian: apt-get install python3-venv)' >&2; exit 1; }; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/toolchain: | $(STAMPS)/venv
	@command -v cargo >/dev/null || { echo 'cargo is missing: install Rust (https://rustup.rs)' >&2; exit 1; }
	@command -v cc >/dev/null || { echo 'a C compiler is missing: install one (Debian: apt-get install gcc libc6-dev)' >&2; exit 1; }
	@touch $@

# Spark runs on Java. Where it is missing and cannot be installed, there is no stamp, and the next run tries again. Debian 13
# has no Java 17 any more, but a newer one as its default.
$(STAMPS)/java: | $(STAMPS)/venv
	@$(BIN)/python -m tests.spark.java 2>/dev/null || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        export DEBIAN_FRONTEND=noninteractive; \
	        timeout 120 apt-get update -qq && for package in openjdk-17-jre-headless default-jre-headless; do \
	            timeout 600 apt-get install -qq -y --no-install-recommends $$package >/dev/null && break; \
	        done; \
	    fi; }
	@if $(BIN)/python -m tests.spark.java; then touch $@; else \
	    echo 'what needs Spark is left out; install Java (Debian: apt-get install openjdk-17-jre-headless)'; fi

# The classes with which Spark takes columns as they are, compiled by what PySpark brings. Where they cannot be, as without
# Java, there is no stamp, and scans go by rows.
$(STAMPS)/columnar: $(wildcard diskstream/spark/columnar/*.scala) $(STAMPS)/spark | $(STAMPS)/java $(STAMPS)/native
	@if [ -e $(STAMPS)/java ] && $(BIN)/python -m diskstream.spark.columnar >/dev/null; then touch $@; fi

# Spark's Python processes compile its package anew at each start, unless its bytecode is beside it.
$(STAMPS)/spark-bytecode: $(STAMPS)/spark | $(STAMPS)/native
	$(BIN)/python -m diskstream.spark.bytecode >/dev/null
	@touch $@

# Spark's classes in a file, which JVMs of tests take as they are: each starts in half the time. Without it they start as ever.
$(STAMPS)/classes: tests/spark/shared_classes.py tests/spark/quick_java.py $(STAMPS)/columnar
	@if [ -e $(STAMPS)/java ] && $(BIN)/python -m tests.spark.shared_classes >/dev/null 2>&1; then touch $@; fi

# libFuzzer is C++. Where no compiler for it can be installed, what needs it says so and is left out.
$(STAMPS)/cxx: | $(STAMPS)/venv
	@command -v c++ >/dev/null || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	            timeout 300 apt-get install -qq -y --no-install-recommends g++ >/dev/null; \
	    fi; }
	@if command -v c++ >/dev/null; then touch $@; else \
	    echo 'the parsers of the core are not fuzzed; install a C++ compiler (Debian: apt-get install g++)'; fi

# One stamp for each dependency group of pyproject.toml.
$(STAMPS)/build $(STAMPS)/spark $(STAMPS)/test $(STAMPS)/lint $(STAMPS)/bench $(STAMPS)/docs: pyproject.toml | $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet --group $(@F)
	@touch $@

$(STAMPS)/native: $(NATIVE_SOURCES) pyproject.toml $(STAMPS)/build | $(STAMPS)/toolchain
	env -u CONDA_PREFIX VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release
	@touch $@

# Where PYTHONDONTWRITEBYTECODE is set, as in many containers, each process would compile the package anew, in half a second.
$(STAMPS)/bytecode: $(shell find $(PACKAGES) -name '*.py') | $(STAMPS)/venv
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@
