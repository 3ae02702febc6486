# `make help` lists what there is. Needs Python 3.11 or newer with venv, and nothing else.
#
#   PYTHON=python3.12      the Python that .venv is made from
#   INSTALLER=pip          install with pip instead of uv
#   TORCH_BACKEND=auto     the build of torch that uv chooses: the default is cpu

PYTHON ?= python3
TORCH_BACKEND ?= cpu
INSTALLER ?= uv
BIN := .venv/bin
DEMO = $(BIN)/qkv train python-docs --minutes 1
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# without compiled files the first `import torch` takes seconds longer
export UV_COMPILE_BYTECODE := 1
# certificates as the system has them, as pip does it: behind a company's proxy there are more than uv brings
export UV_SYSTEM_CERTS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-slow bench check docs lint format dev constraints clean web
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

demo: .venv/.qkv ## set up .venv, then train a small language model for about a minute
	@$(DEMO)

test: .venv/.dev ## the default tests, about 30 minutes on two cores
	@$(PYTEST) -m "not slow" $(ARGS)

test-slow: .venv/.dev ## the long tests only
	@$(PYTEST) -m slow $(ARGS)

# TEXT=... Tiny Shakespeare's input.txt; NANOGPT=... and MINGPT=... checkouts of those projects
bench: .venv/.bench ## compare qkv with other projects, in turns; needs TEXT=input.txt, takes NANOGPT= and MINGPT=
	@test -n "$(TEXT)" || { echo "Say where Tiny Shakespeare is: make bench TEXT=input.txt NANOGPT=path MINGPT=path" >&2; exit 2; }
	@$(BIN)/python bench/peers.py --text $(TEXT) $(if $(NANOGPT),--nanogpt $(NANOGPT)) $(if $(MINGPT),--mingpt $(MINGPT)) $(ARGS)

check: lint test ## what CI runs: lint, then test

docs: .venv/.dev ## the documentation as a site in site/; a warning or a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: .venv/.dev ## style, format, types and import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: .venv/.dev ## put the code into the house's format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

web: web/node_modules/.package-lock.json ## build web/ into the package's page.html; needs Node 20.19 or newer
	@cd web && npm run --silent check && npm test --silent && npm run --silent build

# not `npm ci`: it refuses a lock file without the compiled parts of other systems (docs/decisions/0017-the-page.md)
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@command -v npm >/dev/null || { echo "There is no npm here. Install Node 20.19 or newer." >&2; exit 1; }
	@cd web && npm install --no-save --silent
	@touch $@

dev: .venv/.dev ## set up .venv for development and do nothing else
	@:

clean: ## remove .venv and every cache; runs/ stays
	rm -rf .venv dist build site .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- installing -----------------------------------------------------------------------------------------------------
# One stamp per set of packages, so that a second call installs nothing.

.venv/.qkv: WHAT = .
.venv/.qkv: pyproject.toml constraints.txt | .venv/.python
	@echo "Installing qkv into .venv: once, about 1 GB"
	@$(install)
	@touch $@

.venv/.dev: WHAT = .[all]
.venv/.dev: GROUPS = --group dev
.venv/.dev: pyproject.toml constraints.txt | .venv/.python
	@echo "Installing qkv and the tools of its developers into .venv: once, about 1.6 GB"
	@$(install)
	@touch .venv/.qkv $@

.venv/.bench: WHAT = .[all]
.venv/.bench: GROUPS = --group dev --group bench
.venv/.bench: pyproject.toml constraints.txt | .venv/.python
	@echo "Installing qkv, its tools and the projects it is compared with into .venv: once, about 1.8 GB"
	@$(install)
	@touch .venv/.qkv .venv/.dev $@

.venv/.python:
	@command -v $(PYTHON) >/dev/null || { echo "There is no '$(PYTHON)' here. Install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "qkv needs Python 3.11 or newer; '$(PYTHON)' is `$(PYTHON) -V 2>&1`. Name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "'$(PYTHON)' has no venv. On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
	@if [ "$(INSTALLER)" = uv ] && ! $(BIN)/python -m pip install -q -c constraints.txt uv >.venv/uv.log 2>&1; then \
		echo "uv could not be had (.venv/uv.log says why); pip does its work, more slowly"; \
	fi
	@touch $@

# uv finds packages where pip finds them: pip's own wheel folder and index, when they are set. A wheel folder that holds
# torch for this Python is enough; everywhere else uv asks for the CPU build. pip has no such switch: without a wheel
# folder it takes the build its index offers. The pip that comes with an older Python does not know --group: it is
# brought up to date first.
define install
set -e; py=$(BIN)/python; [ -t 2 ] && quiet= || quiet=-q; \
setting() { $$py -m pip config get global.$$1 2>/dev/null | tr -s ' \n' ',' | sed 's/^,*//; s/,*$$//'; }; \
if [ "$(INSTALLER)" = uv ] && [ -x $(BIN)/uv ]; then \
	: "$${UV_FIND_LINKS:=$${PIP_FIND_LINKS:-`setting find-links`}}"; export UV_FIND_LINKS; \
	: "$${UV_DEFAULT_INDEX:=$${PIP_INDEX_URL:-`setting index-url`}}"; [ -z "$$UV_DEFAULT_INDEX" ] || export UV_DEFAULT_INDEX; \
	tag=`$$py -c 'import sys; print("cp%d%d" % sys.version_info[:2])'`; backend=--torch-backend=$(TORCH_BACKEND); \
	case "$$UV_FIND_LINKS" in \
		'') ;; \
		*://*) backend= ;; \
		*) ! ls "$${UV_FIND_LINKS%%,*}"/torch-*$$tag-*.whl >/dev/null 2>&1 || backend= ;; \
	esac; \
	if $(BIN)/uv pip install $$quiet --python $$py $$backend -c constraints.txt -b constraints.txt -e '$(WHAT)' $(GROUPS); then exit 0; fi; \
	echo "uv could not install it; pip tries, more slowly"; \
fi; \
[ -z "$(GROUPS)" ] || $$py -m pip install -q -c constraints.txt pip; \
$$py -m pip install $$quiet --use-pep517 -c constraints.txt -e '$(WHAT)' $(GROUPS)
endef

# One version of torch everywhere, so that numbers can be compared. uv, pip and the build tools are pinned too.
TORCH := torch==2.13.0

constraints: .venv/.python ## remake constraints.txt from pyproject.toml
	@printf '%s\n' '$(TORCH)' >.venv/torch.in
	@printf '%s\n' uv pip hatchling editables setuptools-scm >.venv/tools.in
	@UV_FIND_LINKS="$${UV_FIND_LINKS:-$${PIP_FIND_LINKS:-`$(BIN)/python -m pip config get global.find-links 2>/dev/null`}}"; export UV_FIND_LINKS; \
	[ -n "$$UV_FIND_LINKS" ] || backend=--torch-backend=$(TORCH_BACKEND); \
	$(BIN)/uv pip compile -q --upgrade pyproject.toml .venv/tools.in -c .venv/torch.in --all-extras --group dev --group bench --python-version 3.11 $$backend \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links -o .venv/constraints.txt
	@sed 's/^\(torch==[0-9.]*\)+cpu$$/\1/' .venv/constraints.txt >constraints.txt
	@! grep -nE '^(nvidia|cuda|triton|torchvision|torchaudio)|://' constraints.txt
