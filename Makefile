# One command per intention. `make demo` and `make test` need nothing but Python 3.11 or newer and make.
#
#   make demo     install into .venv and run the quickstart agent
#   make demo-llm the same agent on a small language model that runs here: 0.6 GB in .venv-llm and .models
#   make test     run the tests            ARGS="tests/core -x" passes through, SERVICES=required skips none
#   make check    format, lint, types, layers
#   make format   write the code as the formatter wants it, and apply the safe fixes
#   make docs     check that the generated reference is fresh
#   make bench    measure
#   make soak     the long tests
#   make clean    remove what the commands above made
#
# PYTHON=python3.12 chooses the interpreter that .venv is made from; ARGS also reaches bench and soak.

PYTHON ?= python3
VENV ?= .venv
VENV_LLM ?= .venv-llm

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
PIP_LLM := $(subst $(BIN)/,$(VENV_LLM)/bin/,$(PIP))
DEMO := examples/quickstart/loom.yaml
GENERATOR := $(wildcard scripts/generated.py scripts/generated/__main__.py)
REQUIRED := $(if $(filter required,$(SERVICES)),--require-services)

.DEFAULT_GOAL := help
.PHONY: help demo demo-llm test check format docs bench soak clean

help:
	@sed -n 's/^#   //p' Makefile

# ── The environment ─────────────────────────────────────────────────────────────────────────────
# A stamp for each step: the second run installs nothing until a file that decides what is installed changes.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Loom-IA needs Python 3.11 or newer, but \`$(PYTHON) -V\` says: $$($(PYTHON) -V 2>&1 | head -n 1). Install one, then: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@# A half-made environment would pass for a whole one the next time.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e '.[all]'
	@touch $@

$(VENV)/.test-tools: $(VENV)/.installed requirements/test.txt
	$(PIP) -r requirements/test.txt
	@touch $@

$(VENV)/.check-tools: $(VENV)/.test-tools requirements/check.txt
	$(PIP) -r requirements/check.txt
	@touch $@

# Apart from the rest: nothing else needs a language model.
$(VENV_LLM)/.installed: $(VENV)/.made requirements/llm.txt constraints.txt
	@$(VENV_LLM)/bin/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m venv $(VENV_LLM) || { rm -rf $(VENV_LLM); exit 1; }
	$(PIP_LLM) -r requirements/llm.txt
	@touch $@

# ── The intentions ──────────────────────────────────────────────────────────────────────────────

demo: $(VENV)/.installed
	@ask="Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"; run=demo-$$(date +%s)-$$$$; \
	echo "\$$ $(BIN)/loom --config $(DEMO) run devis \"$$ask\""; \
	$(BIN)/loom --config $(DEMO) run devis "$$ask" --run-id $$run && echo && \
	echo "\$$ $(BIN)/loom --config $(DEMO) inspect $$run" && \
	$(BIN)/loom --config $(DEMO) inspect $$run

demo-llm: $(VENV)/.installed $(VENV_LLM)/.installed
	@$(BIN)/python -m scripts.local_llm demo --python $(VENV_LLM)/bin/python

test: $(VENV)/.test-tools
	$(BIN)/python -m pytest $(REQUIRED) $(or $(ARGS),-n auto)

check: $(VENV)/.check-tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(if $(GENERATOR),$(BIN)/python -m scripts.generated --check)

format: $(VENV)/.check-tools
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(VENV)/.installed
	$(if $(GENERATOR),$(BIN)/python -m scripts.generated --check,@echo "No reference page is generated yet.")

bench: $(VENV)/.installed
	$(BIN)/python -m bench $(ARGS)

soak: $(VENV)/.test-tools
	$(BIN)/python -m pytest $(REQUIRED) -m slow --timeout 0 $(ARGS)

clean:
	rm -rf $(VENV) $(VENV_LLM) .models build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
