# Everything here works from a bare clone on a machine with Python 3.11+ and make.
# A distribution's Python was compiled with all optimisations. One that pyenv compiled was not, by default, and the tests
# take a third longer with it. Another one: make test PYTHON=python3.13
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo /usr/bin/python3 || echo python3)
BIN := .venv/bin

.PHONY: demo test test-lowest mutants test-all check bench crash chaos fuzz stranger format docs screenshots

.venv/ready: pyproject.toml clients/python/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable clients/python
	touch $@

demo: .venv/ready
	$(BIN)/headway demo

# Four tests run at a time, which keeps two cores busy: many tests wait. make test JOBS=1 for one, JOBS=8 for eight.
JOBS ?= 4
PYTEST := $(BIN)/python -m pytest --processes $(JOBS) --durations 10

# the many processes that tests start need not compile the same modules again
export PYTHONDONTWRITEBYTECODE :=

# A real browser, for the tests of the dashboard: Debian's, where it is missing and the user may install it. The one
# without windows takes a third less CPU. Where there is none they do not run, which make check does not accept.
.venv/browser: .venv/ready
	command -v chromium-headless-shell >/dev/null \
		|| { apt-get update -qq && apt-get install -y -qq chromium-headless-shell; } >/dev/null 2>&1 \
		|| command -v chromium >/dev/null || command -v google-chrome >/dev/null \
		|| echo "there is no Chromium, and it cannot be installed here: the tests in a browser do not run"
	touch $@

# Node.js, for the tests of the TypeScript client: Debian's, where it is missing and the user may install it, and the
# client's packages; the tests compile it. Where there is none they do not run, which make check does not accept.
.venv/node: .venv/ready clients/typescript/package-lock.json
	command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq nodejs npm; } >/dev/null 2>&1 || true
	cd clients/typescript && npm ci --silent \
		|| echo "there is no Node.js, or its packages cannot be installed here: the TypeScript client is not tested"
	touch $@

# What failed beside the others runs once more, alone. What fails again has failed; what passes then depends on how busy
# the machine is, which is a fault too: it is named, to be looked for.
test: .venv/ready .venv/browser .venv/node
	$(PYTEST) $(BROWSER) $(NODE) || { [ $$? -eq 1 ] && echo "once more, alone: whatever passes now depends on how busy the machine is" \
		&& $(BIN)/python -m pytest --verbose --last-failed --last-failed-no-failures none; }

# Each dependency in the lowest version that pyproject.toml admits.
.venv-lowest/ready: pyproject.toml clients/python/pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --upgrade --resolution lowest-direct \
		--editable '.[dev]' --editable clients/python
	.venv-lowest/bin/python tools/lowest_versions.py
	touch $@

# Everything, at those versions.
test-lowest: .venv-lowest/ready .venv/browser .venv/node
	.venv-lowest/bin/python -m pytest --processes $(JOBS)

# Breaks the lines that carry a promise, one at a time, and runs the tests that should notice; goes on where it was
# interrupted. make mutants ONLY=fence for some of them
mutants: .venv/ready .venv/node
	$(BIN)/python tools/mutants.py --jobs 2 $(if $(ONLY),--only $(ONLY))

# everything at full size: a million rows, every time zone, hundreds of kills, random walks by a new seed, which is
# printed; make test-all SEED=… repeats them
test-all: .venv/ready .venv/browser .venv/node
	$(PYTEST) --full $(if $(SEED),--seed $(SEED)) --crash-kills 200 --crash-jobs 20000

check: .venv/ready .venv/node
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	clients/typescript/node_modules/.bin/tsc --noEmit -p clients/typescript
	$(MAKE) docs
	$(MAKE) test BROWSER=--need-browser NODE=--need-node

# the pages of docs/ as a searchable site in build/site; fails on a broken link, and on anything loaded from elsewhere
docs: .venv/ready
	$(BIN)/python tools/docs_site.py

format: .venv/ready
	$(BIN)/python tools/async_twins.py
	$(BIN)/python tools/async_client.py
	$(BIN)/python tools/typescript_wire.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# docs/images, from headway demo --web; needs Chromium
screenshots: .venv/ready .venv/browser
	$(BIN)/python tools/screenshots.py

# some minutes: 300 examples for each endpoint of a real server, made from its own OpenAPI document
fuzz: .venv/ready
	$(BIN)/python -m tests.api.document.fuzz

crash: .venv/ready
	$(BIN)/python -m pytest tests/crash --crash-kills 200 --crash-jobs 20000

# some minutes; root may do all of it: a full disk is mounted, and PgBouncer installed where apt has it
chaos: .venv/ready
	$(BIN)/python -m tests.crash.chaos

bench: .venv/ready
	$(BIN)/python -m bench

# four minutes for each store: one tenant does its worst while 499 others work; prints the table and fails where the
# others wait too long. STRANGER=--write puts it into the docs, STRANGER="--tenants 50 --seconds 15" is quicker
stranger: .venv/ready
	$(BIN)/python -m bench.stranger $(STRANGER)
