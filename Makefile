# `make` without a target lists the targets. The first target that needs .venv creates it.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
READY := $(VENV)/.ready
EXAMPLE := examples/openreg

# If ccache is installed, projects in different folders share the compiler cache.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)
# The suite of a rendered project keeps about one core busy, so two are tested at once.
export TEST_PROCESSES ?= 2
# A backend that is installed in .venv must not load itself into every Python process.
export TORCH_DEVICE_BACKEND_AUTOLOAD := 0
export PATH := $(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo first-hour test test-fast test-matrix lint format examples examples-check backport clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with all requirements

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

test: lint examples-check ## run all checks, the example's suite in each launch mode, and what names change elsewhere
	$(BIN)/python -m pytest --verbose --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder -m "not matrix"

test-fast: $(READY) ## run the tests that compile nothing
	$(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder -m "not build"

test-matrix: lint examples-check ## run all suites, conformance, a CUDA build of torch (540 MB once), clang, other libraries
	$(BIN)/python -m pytest --verbose --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder

lint: $(READY) ## check format, style, types, length of lines and template files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/torch-backend lint-template
	cd $(EXAMPLE) && $(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	$(BIN)/python -m torch_backend format-cpp --check $(EXAMPLE)

format: $(READY) ## format the sources, including the example
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cd $(EXAMPLE) && $(BIN)/ruff format . && $(BIN)/ruff check --fix .
	$(BIN)/python -m torch_backend format-cpp $(EXAMPLE)

examples: $(READY) ## render examples/ from template/; writes only changed files
	$(BIN)/torch-backend render-example

examples-check: $(READY) ## fail if examples/ is not what template/ renders
	$(BIN)/torch-backend check-example

backport: $(READY) ## carry edits in examples/ back into template/
	$(BIN)/torch-backend backport

clean: ## remove build outputs
	rm -rf build .mypy_cache .pytest_cache .ruff_cache
	rm -rf $(EXAMPLE)/build $(EXAMPLE)/.mypy_cache $(EXAMPLE)/.pytest_cache $(EXAMPLE)/.ruff_cache
	find generator tests $(EXAMPLE) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf $(VENV)
