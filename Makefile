# Every target sets up what it needs: a fresh machine has Python 3.11 or newer, make and gcc, and no packages.

PYTHON ?= python3
export LOSSGAP_CACHE ?= .cache
BIN := .venv/bin
READY := .venv/.ready
COMPLETE := .venv/.complete
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup demo test test-all check bench race clean

setup: $(COMPLETE)  ## everything, with every extra

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) --requirement requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

# PyTorch first and by its exact version: asked for in any other way, it may come with gigabytes of CUDA.
$(COMPLETE): $(READY) requirements-extras.txt
	$(PIP) --constraint requirements.txt $$(grep ^torch== requirements-extras.txt)
	$(PIP) --requirement requirements.txt --requirement requirements-extras.txt
	touch $@

demo: $(READY)  ## train four methods on the paper's synthetic clients and show what each client gets
	$(BIN)/lossgap demo

test: check  ## what continuous integration runs
	$(BIN)/python -m pytest

test-all: check  ## the slow proofs as well
	$(BIN)/python -m pytest -m ""

check: $(COMPLETE)  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

bench: $(COMPLETE)  ## time the hot paths against the machine's bare products
	$(BIN)/python -m pytest benchmarks -n 0 --benchmark-enable --benchmark-only -m ""

race: $(READY)  ## time lossgap against peer frameworks, each in an environment of its own
	$(BIN)/python benchmarks/race.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
