# Everything here works from a bare clone on a machine with Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench crash format

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/ready
	$(BIN)/headway demo

# JOBS=4 runs four tests at a time
test: .venv/ready
	$(BIN)/python -m pytest $(if $(JOBS),--numprocesses $(JOBS) --dist worksteal)

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crash: .venv/ready
	$(BIN)/python -m pytest tests/crash --crash-kills 200 --crash-jobs 20000

bench: .venv/ready
	$(BIN)/python -m bench
