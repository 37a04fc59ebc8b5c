# Everything the project needs on a machine, these targets install into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2

.PHONY: demo test lint bench clean

$(VENV)/user: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "abreast needs Python 3.11 or later, this is " + sys.version)'
	@echo "installing into $(VENV), once"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/developer: $(VENV)/user
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/user
	@$(BIN)/abreast demo
	@echo '  to use it here: source $(BIN)/activate'

lint: $(VENV)/developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(WORKERS)

$(VENV)/peers/ready: benchmarks/peers.txt $(VENV)/developer
	@$(BIN)/python -m venv $(VENV)/peers
	@$(VENV)/peers/bin/python -m pip --disable-pip-version-check --quiet install --requirement benchmarks/peers.txt
	@touch $@

bench: $(VENV)/developer $(VENV)/peers/ready
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo
