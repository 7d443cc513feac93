# `make` alone lists the targets. The first one that needs it sets up .venv; later ones find it ready.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
READY := $(VENV)/.ready
EXAMPLE := examples/openreg

# Renders in different folders share the compiler cache, if ccache is installed.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)
# The suite of a rendered project keeps about one core busy, so two are tested at once.
export TEST_PROCESSES ?= 2
# Nothing that a venv holds loads itself into Python processes that do not ask for it.
export TORCH_DEVICE_BACKEND_AUTOLOAD := 0
export PATH := $(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo first-hour test test-fast test-matrix lint format examples examples-check backport clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with everything that is needed

$(READY): requirements-torch.txt requirements-dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-torch.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

demo: $(READY) ## render a vendor project, build it, and train on its device
	$(BIN)/torch-backend demo

first-hour: $(READY) ## run the commands of "A vendor's first hour" in README.md; transcript in build/first_hour
	$(BIN)/python -m tests.first_hour

test: lint examples-check ## all checks and all tests; compiles several projects
	$(BIN)/python -m pytest --verbose --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder -m "not matrix"

test-fast: $(READY) ## tests that compile nothing
	$(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder -m "not build"

test-matrix: lint examples-check ## the same with a CUDA build of torch (fetches 540 MB once), with clang, and with all programs of libraries
	$(BIN)/python -m pytest --verbose --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder

lint: $(READY) ## check format, style, types and template files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/torch-backend lint-template
	cd $(EXAMPLE) && $(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	$(BIN)/python -m torch_backend format-cpp --check $(EXAMPLE)

format: $(READY) ## format what is written by hand, the example included
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cd $(EXAMPLE) && $(BIN)/ruff format . && $(BIN)/ruff check --fix .
	$(BIN)/python -m torch_backend format-cpp $(EXAMPLE)

examples: $(READY) ## render examples/ anew from template/, touching only what changes
	$(BIN)/torch-backend render-example

examples-check: $(READY) ## fail if examples/ is not what template/ renders
	$(BIN)/torch-backend check-example

backport: $(READY) ## carry edits made in examples/ back into template/
	$(BIN)/torch-backend backport

clean: ## remove build outputs
	rm -rf build .mypy_cache .pytest_cache .ruff_cache
	rm -rf $(EXAMPLE)/build $(EXAMPLE)/.mypy_cache $(EXAMPLE)/.pytest_cache $(EXAMPLE)/.ruff_cache
	find generator tests $(EXAMPLE) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf $(VENV)
