# cepbook: `make lab` opens the workbench, `make test` runs every test. `make help` lists the rest.

# The first Python on PATH that is new enough; `make lab PYTHON=/path/to/python3` overrides the search.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV_PYTHON := .venv/bin/python
ifeq ($(OS),Windows_NT)
# Where make comes with a shell, as in Git for Windows.
SHELL := bash
VENV_PYTHON := .venv/Scripts/python.exe
endif
FIRST := notebooks/01_first_stream.ipynb

# Without the catalogue of extensions JupyterLab makes no request to the outside.
LAB_FLAGS := --LabApp.extension_manager=readonly
# Jupyter refuses to run as root (as in a container) unless told.
ifeq ($(shell id -u),0)
LAB_FLAGS += --allow-root
endif

.DEFAULT_GOAL := help
.PHONY: help lab test quick mutants fuzz demo refresh docs pictures package api systems playground pyodide clean env-lab env-test need-python

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

# Spark's packages follow in the background: what waits for them is cepbook/spark/package_setup.py.
lab: env-lab  ## open JupyterLab at a copy of the first notebook (more options: LAB_ARGS="--no-browser --port 8900")
	@nohup $(PYTHON) tools/bootstrap.py spark >.venv/cepbook-spark.log 2>&1 & \
		copy=$$($(VENV_PYTHON) tools/scratch.py $(FIRST)) && echo "cepbook: opening JupyterLab at $$copy; Ctrl-C stops it" && \
		layout=$$(mktemp -d) && trap 'rm -rf "$$layout"' EXIT && \
		$(VENV_PYTHON) -m jupyterlab $(LAB_FLAGS) --LabApp.workspaces_dir=$$layout --LabApp.default_url=/lab/tree/$$copy $(LAB_ARGS)

test: env-test  ## run all checks and tests (some of them: STAGES="lint types unit notebooks spark browser")
	@$(VENV_PYTHON) tools/check.py $(STAGES)

quick: env-test  ## run the corpus and the unit tests without long ones
	@$(VENV_PYTHON) tools/check.py quick

mutants: env-test  ## change the engine at 1,000 places and run the tests of `make quick` (more options: MUTANTS="--minutes 60 --processes 2")
	@$(VENV_PYTHON) tools/mutants.py $(MUTANTS)

fuzz: env-test  ## feed the reader and the binder random texts for ten minutes, guided by coverage (more options: FUZZ="--seconds 60"); needs Linux
	@$(VENV_PYTHON) -m pip install --quiet --group fuzz
	@$(VENV_PYTHON) tools/fuzz.py $(FUZZ)

demo: env-lab  ## run the first notebook without a browser and print its result
	@$(VENV_PYTHON) tools/demo.py $(FIRST)

refresh: env-test  ## execute the notebooks and store their outputs, which `make test` compares
	@CEPBOOK_PROGRESS=off $(VENV_PYTHON) -m nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.store_widget_state=False --ExecutePreprocessor.record_timing=False \
		notebooks/*.ipynb

docs: env-test  ## build the documentation site into build/site
	@$(VENV_PYTHON) tools/site.py

pictures: env-test  ## take the pictures of the documents from JupyterLab, in both themes
	@$(VENV_PYTHON) tools/pictures.py

package: env-test  ## build the wheel and the source archive into build/dist, and try the wheel in a new environment
	@$(VENV_PYTHON) tools/package.py

api: env-test  ## name what breaks code of users since the last tag, or since another commit (AGAINST=main)
	@$(VENV_PYTHON) tools/public_api.py $(AGAINST)

systems: env-test  ## check the types as on Windows and macOS
	@$(VENV_PYTHON) -m mypy --strict cepbook --platform win32
	@$(VENV_PYTHON) -m mypy --strict cepbook --platform darwin

playground: env-test  ## build the page that runs EPL in the browser into build/playground; needs node and npm
	@$(VENV_PYTHON) tools/playground.py $(if $(PORT),--serve $(PORT))

pyodide: env-test  ## run the whole corpus under Pyodide, as the playground does; needs node and npm
	@$(VENV_PYTHON) tools/playground.py --corpus 0

clean:  ## remove .venv and all caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# tools/bootstrap.py does nothing when .venv is up to date with pyproject.toml.
env-lab env-test: env-%: need-python
	@$(PYTHON) tools/bootstrap.py $*

need-python:
	@test -n "$(PYTHON)" || { echo "cepbook: no Python 3.11 or newer on PATH; install one, or say make lab PYTHON=/path/to/python3"; exit 1; }
