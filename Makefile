# Two commands: `make demo` and `make test`. Each sets up everything it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEV := pytest pytest-xdist pytest-timeout hypothesis schemathesis import-linter ruff mypy matplotlib

.PHONY: demo test check docs pages tables fuzz kills release-check clean

demo: $(VENV)/.installed  ## compare GCN with and without Dr on two graphs, no download; ends in a report
	$(BIN)/drgcn demo

test: $(VENV)/.installed-dev check  ## lint, types, import arrows, tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-docs  ## the documentation site in docs/_build/html: gallery, notebooks and code of pages are run, warnings are errors
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going docs docs/_build/html
	$(BIN)/python -m pytest -q -m slow tests/test_site.py tests/test_docs.py::test_code_on_pages_runs tests/studies/report/test_page_in_browser.py

pages: $(VENV)/.installed-docs  ## run the commands of README and every page, cut short by options; some with DRGCN_DATA alone
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow tests/test_page_commands.py

FUZZ_MINUTES ?= 1
FUZZ_RECORD ?= benchmarks/results/fuzz.json
fuzz: $(VENV)/.installed-dev  ## malformed input for every reader, verb and request, FUZZ_MINUTES=1 on two processes; exit code 1 after a defect
	$(BIN)/python -W ignore -m tests.fuzz $(FUZZ_MINUTES) --record $(FUZZ_RECORD)

KILLS ?= 60
KILLS_WORKERS ?= 1
KILLS_RECORD ?= benchmarks/results/kills.json
kills: $(VENV)/.installed-dev  ## kill -9 at steps and random instants of six verbs, KILLS=60 times, KILLS_WORKERS=1 at once, and go on; exit code 1 after a defect
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz.kills $(KILLS) --workers $(KILLS_WORKERS) --record $(KILLS_RECORD)

tables: $(VENV)/.installed-dev  ## remake the tables and the picture of the README from results/
	$(BIN)/python docs/make_tables.py
	$(BIN)/python docs/make_readme.py
	$(BIN)/python docs/make_recommend_tables.py
	$(BIN)/python docs/make_baselines.py
	$(BIN)/python docs/make_layers.py
	$(BIN)/python docs/make_gates.py
	$(BIN)/python docs/make_security.py
	$(BIN)/python -m drgcn.studies.advice.evidence results

RELEASE ?=
release-check: $(VENV)/.installed-dev  ## build, check and install the package with every extra alone; everything but the upload
	$(BIN)/python tests/check_release.py $(RELEASE)

# Torch by itself first: with the exact version asked for, pip takes a CPU build where one is
# configured instead of resolving a range to the newest CUDA build.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[tune,cluster,recommend,serve,ials]' $(DEV)
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf docs/_build docs/gallery $(VENV) demo-output runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
