# Everything the project needs on a machine, these targets install into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2
CLIS   := .tools/clis
BWRAP  := .tools/bubblewrap

.PHONY: demo test test-full browser lint docs bench bench-quick clean

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

# The documentation site, in site/. Broken links and anchors are errors.
docs: $(VENV)/developer
	$(BIN)/zensical build --clean --strict

# The real agent CLIs that tests run against the fake provider.
$(CLIS)/ready: tests/clis.txt
	@command -v npm >/dev/null || { echo "make test needs npm (Node.js 20 or later): it installs the agent CLIs"; exit 1; }
	@echo "installing the agent CLIs of the tests into $(CLIS), once"
	@mkdir -p $(CLIS)
	@npm install --prefix $(CLIS) --no-save --no-package-lock --no-audit --no-fund --loglevel=error $$(cat tests/clis.txt)
	@touch $@

# The sandbox that tests run agents in: the system's, else Debian's package, unpacked without root.
$(BWRAP)/ready:
	@mkdir -p $(BWRAP)
	@command -v bwrap >/dev/null || (cd $(BWRAP) && apt-get -q download bubblewrap && dpkg -x bubblewrap_*.deb .) || \
		echo "bubblewrap is not installed and cannot be downloaded: the tests of the sandbox are skipped"
	@touch $@

# The browser that tests open pages in: one that this machine has, else Debian's package, which only root can install.
browser: $(VENV)/developer
	@$(BIN)/python tests/browser.py 2>/dev/null || test "$$(id -u)" != 0 || { echo "installing Chromium, once"; \
		apt-get -qq update; apt-get -qq install --no-install-recommends chromium >/dev/null; } || true
	@$(BIN)/python tests/browser.py

test: lint $(CLIS)/ready $(BWRAP)/ready browser
	$(BIN)/python -m pytest -n $(WORKERS) -m "not heavy"

# Everything that `make test` does, with the heavy tests and many more examples of hostile input.
test-full: lint $(CLIS)/ready $(BWRAP)/ready browser
	ABREAST_FUZZ=30 $(BIN)/python -m pytest -n $(WORKERS)

$(VENV)/peers/ready: benchmarks/peers.txt $(VENV)/developer
	@$(BIN)/python -m venv $(VENV)/peers
	@$(VENV)/peers/bin/python -m pip --disable-pip-version-check --quiet install --requirement benchmarks/peers.txt
	@touch $@

bench: $(VENV)/developer $(VENV)/peers/ready
	$(BIN)/python -m benchmarks

# The short benchmarks, compared with benchmarks/baseline.json: they report what has become slower and never fail.
bench-quick: $(VENV)/developer
	$(BIN)/python -m benchmarks --quick

clean:
	rm -rf $(VENV) .cache .tools demo site
