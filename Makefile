# Python >= 3.11 and make are all it takes. RAG_HOME moves all data.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RAG := $(BIN)/rag
RAG_HOME ?= $(CURDIR)/.rag
export RAG_HOME
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# two processes take one test file after the other, the long ones first; each has a database of its own
BESIDE := --numprocesses 2 --dist loadfile --no-loadscope-reorder

DEMO_QUESTION := What does HLY-4031 mean?

.PHONY: demo serve test bench lint setup setup-dev models lock clean

demo: setup models ## ingest the fixtures, ask one question, print the cited answer
	@for tenant in halyard brightwater paylane; do \
	  $(RAG) tenant create $$tenant --if-missing && $(RAG) ingest fixtures/corpus/$$tenant --tenant $$tenant || exit 1; \
	done
	@echo && echo "> $(DEMO_QUESTION)" && $(RAG) ask "$(DEMO_QUESTION)" --tenant halyard

serve: setup models ## serve the HTTP API on 127.0.0.1:8080
	$(RAG) serve

test: lint models ## lint, types, contracts, every test, and the regression suite with its gate
	$(BIN)/python -m pytest $(BESIDE) -m "not quiet"
	$(BIN)/python -m pytest $(BESIDE) -m quiet
	$(BIN)/python -m rag.eval --suite fixtures/golden.json --against local

bench: setup models ## speed and memory of each part, in a throwaway RAG_HOME
	$(BIN)/python -m eval bench

lint: setup-dev ## only the checks that read code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

models: setup
	@$(RAG) models list >/dev/null 2>&1 || $(RAG) models pull

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python >= 3.11 is needed, this is %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python requirements.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock
	@touch $@

lock: ## write both lock files anew from pyproject.toml
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip install --quiet uv
	for extra in "" "--extra dev"; do \
	  $(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --upgrade \
	    --python-version 3.11 $$extra --group build pyproject.toml -o requirements$${extra:+-dev}.lock; \
	done
	rm -r $(VENV)-lock

clean: ## remove the environment and the local data
	rm -rf $(VENV) $(RAG_HOME)
