# Every command makes its own environment in .venv first (once, and again only when pyproject.toml changes).

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= python3 python3.11 python3.12 python3.13 python
NOTEBOOKS := $(basename $(notdir $(wildcard notebooks/0*.ipynb)))
# What nbstripout removes beside outputs and counts. Tags stay: papermill needs them.
STRIP := metadata.papermill cell.metadata.papermill metadata.language_info.version

# A `python3` kernel of the user's own must not take the place of the one in .venv.
export JUPYTER_PATH := $(CURDIR)/$(VENV)/share/jupyter

.PHONY: help run test report reproduce lab strip clean $(NOTEBOOKS)

help: ## this list
	@echo 'make COMMAND [ARGS="..."]'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1	\2/p' Makefile

run: 01_perturbation ## notebook 01 on the embedded model; ARGS="-p n 40" sets parameters

report: 07_report ## both papers' tables and figures over all finished runs, and a verdict per published number

reproduce: $(NOTEBOOKS) ## every notebook, in order

$(NOTEBOOKS): %: $(STAMP)
	$(BIN)/python -m vfkit.notebook --run notebooks/$@.ipynb $(ARGS)

test: $(STAMP) ## lint, check types and that notebooks are stripped, run the tests; ARGS="-k flips" passes arguments to pytest
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	@$(BIN)/python -m nbstripout --verify --extra-keys "$(STRIP)" notebooks/*.ipynb || \
	  { echo 'Notebooks hold outputs; remove them: make strip' >&2; exit 1; }
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(ARGS)

lab: $(STAMP) ## JupyterLab, with the notebooks and what they wrote
	$(BIN)/python -m jupyterlab $(ARGS)

strip: $(STAMP) ## remove outputs from the notebooks, as git does on commit
	$(BIN)/python -m nbstripout --extra-keys "$(STRIP)" notebooks/*.ipynb

clean: ## remove the environment and caches; outputs/ stays
	@git config --local --remove-section filter.nbstripout 2>/dev/null || true
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find vfkit tests -name __pycache__ -exec rm -rf {} +

$(STAMP): pyproject.toml
	@python=; for p in $(PYTHON); do \
	  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$p; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'vfkit needs Python 3.11 or newer, looked for: $(PYTHON). Name yours: make PYTHON=/path/to/python3.11' >&2; exit 1; \
	fi; \
	echo "Making the environment in $(VENV): once, a few minutes, several GB with PyTorch"; \
	$$python -m venv $(VENV) || { echo 'Python has no venv module (Debian, Ubuntu: apt install python3-venv)' >&2; exit 1; }
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[dev]'
	@if [ -e .git ] && git rev-parse --git-dir >/dev/null 2>&1; then \
	  git config filter.nbstripout.clean '$(BIN)/python -m nbstripout' && \
	  git config filter.nbstripout.extrakeys '$(STRIP)' && \
	  git config filter.nbstripout.required false || echo 'The nbstripout git filter could not be set up.' >&2; \
	fi
	@touch $(STAMP)
