# Packages go into .venv, jars into the user's cache folder (ISTHMUS_JARS_DIR overrides); nothing else is touched.
# A bare machine needs python3 (3.11 or later), java 17 or later, and make.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
UV      := $(BIN)/uv
# The certificates that the machine trusts: behind a company's proxy they are not those that uv brings.
export UV_SYSTEM_CERTS ?= 1
# Compiling everything again for each process that a test starts would take longer than most tests.
export PYTHONDONTWRITEBYTECODE :=
FILE    ?= examples/quickstart.properties
NAME    ?= router

# What costs a millisecond for each of thousands of tests. `make test` has all of it.
IN_HASTE := --capture sys -p no:cacheprovider -p no:faulthandler -p no:unraisableexception -p no:threadexception

.PHONY: help setup run demo test all-tests again unit lint types bench fuzz walk docs lock clean
help: ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.installed $(VENV)/.jars $(VENV)/.classes ## install everything that is needed

$(UV):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check uv==0.13.7

# Where setup.py finds what it compiles.
COMPILED := $(wildcard $(addprefix src/isthmus/,codecs/*/*.py converters/*.py edges/amqp/*/*.py edges/amqp/*/*/*.py journal/*.py kafka/*.py))

# Takes away what the lock does not name, this package and the peers included.
$(VENV)/.packages: requirements.lock | $(UV)
	$(UV) pip sync --quiet --python $(BIN)/python requirements.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.packages pyproject.toml setup.py $(COMPILED)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# Without a C compiler the tests against these peers are skipped, and say so.
$(VENV)/.peers: requirements-peers.lock $(VENV)/.packages
	-$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements-peers.lock
	@touch $@

$(VENV)/.jars: requirements.lock src/isthmus/embedded/ivy.xml | $(VENV)/.installed
	$(BIN)/python -m isthmus.embedded.jars spark broker
	@touch $@

$(VENV)/.classes: $(VENV)/.jars src/isthmus/pipeline/record_classes.py src/isthmus/embedded/class_archive.py
	$(BIN)/python -m isthmus.pipeline.record_classes
	@touch $@

run: setup ## run a bridge on an embedded Kafka (FILE=...)
	$(BIN)/isthmus run $(FILE)

demo: setup ## 10,000 messages over three routes, poison among them, and where each one went
	$(BIN)/python examples/demo.py

test: setup $(VENV)/.peers ## everything that must hold
	$(MAKE) --no-print-directory --jobs 3 lint types all-tests

all-tests: $(VENV)/.installed
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

again: $(VENV)/.installed ## what failed in the last run of all tests, one after the other
	$(BIN)/pytest --last-failed --last-failed-no-failures none

unit: $(VENV)/.installed ## the tests that need no Spark, no network and no generated examples: seconds
	$(BIN)/pytest --numprocesses 2 --quiet -m "not hypothesis" $(IN_HASTE) tests/unit

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.installed
	$(BIN)/mypy

bench: setup $(VENV)/.peers ## one benchmark (NAME=router|latency|converters|codec|bridge_message|nats|request_reply|ledger|once|cluster|idle|growth|commit|front_door|queue|soak|hostile|page|reload)
	$(BIN)/python -m benches.$(NAME)

fuzz: $(VENV)/.installed ## 200,000 malformed inputs for every way in
	$(BIN)/python -m tests.fuzz --count 200000

walk: $(VENV)/.installed ## the README's commands in a fresh clone with an empty home, and all wheels: minutes
	ISTHMUS_WALK=1 $(BIN)/pytest tests/docs/test_fresh_clone.py tests/cli/test_package.py

docs: setup ## write what pages have from the code, build the site into build/site, and test what it says
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/pytest tests/docs

lock: $(UV) ## pin every dependency with its hashes
	$(UV) pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.11 \
	  --universal --extra bridge --extra amqp --extra nats --extra mq --extra otel --group dev pyproject.toml --output-file requirements.lock
	$(UV) pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.11 \
	  --universal --group peers --constraint requirements.lock --output-file requirements-peers.lock

clean: ## remove everything that make installed or a run left behind
	rm -rf $(VENV) .isthmus build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src -name '*.so' -delete
