# make train: set everything up, then do the main job.   make test: the same set-up, then every test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Files in the order of tests/conftest.py, each in one process, for its tests share what they set up.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations=10

# More options of `egomap train` for make train, e.g. TRAIN_FLAGS="--size 3 --budget 4096".
TRAIN_FLAGS ?=

.PHONY: setup train test test-fast test-isa check-wheel lint format bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml tools/setup_env.py
	$(PYTHON) tools/setup_env.py $(VENV)
	@touch $(STAMP)

train: setup
	$(BIN)/egomap train --preset quick --run runs/quick --auto-resume $(TRAIN_FLAGS)

test: setup
	$(PYTEST)

# The inner loop, a minute: without trainings and without most of what needs engines or processes.
test-fast: setup
	$(PYTEST) -m "not slow"

# The tests that compare floats, as older processors would compute them.
test-isa: setup
	$(BIN)/python tools/test_isa.py

# A fresh clone, and the wheel without a checkout; in a temporary folder.
check-wheel:
	$(PYTHON) tools/check_wheel.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/egomap bench

docs: setup
	$(BIN)/python -m pip install -q -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python tools/check_site.py site

clean:
	rm -rf $(VENV) build site .pytest_cache .mypy_cache .ruff_cache
