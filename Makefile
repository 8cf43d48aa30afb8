# All of this needs python3 (with venv), git and make; everything else is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WEFT   := $(VENV)/weft
STAMP  := $(VENV)/installed
BENCH  ?=

.PHONY: demo install test quick lint types layers compiled pytest format chaos mutants bench screenshots shape reference clean

# A small project, a plan in which much goes wrong, and weft on it; under a minute. The second scene,
# in which an agent writes the plan: make demo SCENE=goal
SCENE  ?= trouble
demo: $(WEFT)
	$(BIN)/weft demo --scene $(SCENE)

$(WEFT): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server,postgres]'
	touch $@

install: $(STAMP)

$(STAMP): $(WEFT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	touch $@

# Fresh tests are compiled by a single process while mypy works, not by each of the four that run them.
test: install
	$(MAKE) --jobs 2 lint types layers compiled
	$(MAKE) pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports --no-cache

# Thousands of small durable writes: in memory, where there is room for them, they take no time.
SPARE := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "TMPDIR=/dev/shm"}')

# They start weft a thousand times: what is compiled once need not be read again each time.
unexport PYTHONDONTWRITEBYTECODE

compiled: install
	$(BIN)/pytest --collect-only -q >/dev/null

# Half of their time they wait for something: four at once keep two cores busy.
pytest: install
	$(SPARE) $(BIN)/pytest --numprocesses 4 --dist worksteal --durations 20 --shares

# Under a minute: the pure modules, the store on SQLite, one whole run.
PURE  := config paths stages
QUICK := tests/admission tests/agents tests/plan tests/planning/test_forecast.py tests/redaction tests/store tests/gate/test_next_step.py tests/runs/test_plan_file.py \
         tests/test_demo.py $(PURE:%=tests/test_%.py)

quick: install
	$(SPARE) $(BIN)/pytest --numprocesses 2 $(QUICK) -m "not chaos" -k "not postgres and not storm"

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The same adversarial tests, longer, and more examples.
chaos: install
	WEFT_CHAOS=1 $(BIN)/pytest --timeout 1800 -m "chaos or hypothesis"

# Each change of tests/mutants, and whether its test catches it.
mutants: install
	WEFT_CHAOS=1 $(SPARE) $(BIN)/pytest --numprocesses 2 tests/test_mutants.py

# One line per figure: name value unit. BENCH=admission runs the figures whose names start so.
bench: install
	$(BIN)/python -m bench $(BENCH)

# Every view of the page at 1400 and 390 pixels, light and dark, in SHOTS.
SHOTS ?= screenshots

screenshots: install
	PYTHONPATH=tests:. $(BIN)/python -m browser.screenshots $(SHOTS)

# How large the code is, and how plain its words are.
shape: install
	$(BIN)/python tests/shape.py

# docs/configuration.md and the JSON Schemas, from the sources of the settings.
reference: install
	PYTHONPATH=tests $(BIN)/python tests/settings_reference.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
