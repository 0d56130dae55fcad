# Every target sets up its own virtual environment; Python >= 3.11 and make are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
PIP := -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint types unit docs test-oldest benchmark clean

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' Makefile | expand -t 20

demo: $(VENV)/.demo ## fit a table, show the limits of evaluations, kill a fit and resume it
	$(BIN)/python examples/demo.py

test: lint types unit ## linter, type checker, tests

lint: $(VENV)/.dev ## ruff and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=. $(BIN)/lint-imports --no-cache

types: $(VENV)/.dev ## mypy
	$(BIN)/mypy

unit: $(VENV)/.dev ## tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

docs: $(VENV)/.docs ## the documentation as a site in build/docs; warnings are errors
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -d build/doctrees docs build/docs

test-oldest: $(OLDEST)/.ready ## tests of what depends on other packages, with the lowest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest tests/test_imports.py tests/test_docs.py tests/cli tests/components tests/data \
		tests/evaluation tests/fitting tests/metadata tests/metafeatures tests/numerics tests/space tests/store

benchmark: $(VENV)/.dev ## overhead of a search, in ratios
	$(BIN)/python benchmarks/overhead.py

clean: ## remove environments and what was built
	rm -rf $(VENV) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Headstart needs Python >= 3.11; found $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -e '.[docs]'
	@touch $@

# Without torch: of its releases only the one in constraints.txt is sure to be had without gigabytes of CUDA packages.
$(OLDEST)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python $(PIP) uv
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct \
		-e '.[configspace,excel,postgres,report,transport,xgboost]'
	$(OLDEST)/bin/python $(PIP) hypothesis polars pytest
	@touch $@
