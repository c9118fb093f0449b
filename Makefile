# make run      the whole workflow on the embedded sample (CONFIG=my.yaml: on your own)
# make test     style, types, lint, and everything that can be tested here
# make check    the fast inner loop: style, types, lint, unit tests
# make bench    the benchmarks; make clean: remove what was built (never runs/)

PY ?= python3
CONFIG ?= config/sample.yaml
TARGET ?= all

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q
# A worker a core, but not so many that their libraries fill the memory. A file stays with its worker and its fixtures,
# but where a few files take most of the time.
WORKERS := --numprocesses=logical --maxprocesses=4 --dist=
UNIT := not slow and not distributed and not workflow and not cluster
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := run
.PHONY: run test check style bench clean install system suite-workflow suite-cluster

run: install
	$(BIN)/snakemake $(TARGET) --profile workflow/profiles/local --configfile $(CONFIG)

install: $(VENV)/.built

# Exact versions, for the package and for its development.
$(VENV)/.installed: requirements.lock
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Bloomery needs Python 3.11 or newer: make PY=python3.11")'
	@echo "install: $$(grep -c == requirements.lock) packages into $(VENV) (some minutes, once)"
	$(PY) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -r requirements.lock \
	  | { grep --line-buffered -E '^ *(Collecting|Downloading|Building|Installing)' || true; } | cut -c1-100
	@touch $@

# The package itself, editable, with its C++ kernels.
$(VENV)/.built: $(VENV)/.installed pyproject.toml setup.py $(shell find csrc -name '*.cpp' -o -name '*.hpp')
	@echo "install: build csrc/ and install bloomery"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Programs that tests start; installed where that is allowed, else their tests say why they were left out.
system:
	@missing=; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v slurmctld >/dev/null || missing="$$missing slurmctld slurmd slurm-client"; \
	command -v chromium >/dev/null || missing="$$missing chromium fonts-noto-core fonts-wqy-microhei"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "system: install$$missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

# $(call suite,name,marker expression,options)
define suite
	@start=$$(date +%s); echo "suite $(1)"; $(PYTEST) $(3) -m "$(2)"; echo "suite $(1): $$(( $$(date +%s) - start )) s"
endef

test: style system
	$(call suite,unit,$(UNIT),$(WORKERS)loadfile)
	$(call suite,slow,slow and not distributed and not workflow,$(WORKERS)loadfile)
	$(call suite,distributed,distributed and not workflow,$(WORKERS)worksteal)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target suite-workflow suite-cluster

# Side by side: most of the time of the cluster's tests is waiting for its daemons.
suite-workflow: install
	$(call suite,workflow,workflow)

suite-cluster: install
	$(call suite,cluster,cluster)

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

check: style
	$(call suite,unit,$(UNIT),$(WORKERS)loadfile)

# Each program prints one JSON; those that need real text read the *.jsonl.zst of the folder BLOOMERY_CORPUS.
# On a GPU: bench/gpu/run.py (it says what it needs; no workflow package).
# The peer of corpus_* is datatrove as it comes with `.venv/bin/python -m pip install spacy orjson`; each says what it had.
bench: install
	@mkdir -p bench/results
	@for name in startup status sync workflow blend bpe_train training_overhead training_speed training_layouts; do \
	  echo "bench $$name"; $(BIN)/python bench/$$name.py > bench/results/$$name.json; \
	done
	@echo "bench index (25 GB of space)"; folder=$$(mktemp -d -p .); trap 'rm -rf "$$folder"' EXIT; \
	  $(BIN)/python bench/index.py "$$folder" > bench/results/index.json
	@if [ -z "$${BLOOMERY_CORPUS:-}" ]; then echo "bench tokenizer_count, encode, text_kernel, corpus_*: left out, set BLOOMERY_CORPUS"; else \
	  for name in filters langid minhash exact ingest memory; do \
	    echo "bench corpus_$$name"; $(BIN)/python bench/corpus_$$name.py > bench/results/corpus_$$name.json; \
	  done; \
	  for name in tokenizer_count encode; do \
	    echo "bench $$name"; $(BIN)/python bench/$$name.py > bench/results/$$name.json; \
	  done; \
	  for name in corpus tokens; do $(BIN)/python bench/$${name}_scale.py > docs/$$name-scale.md; done; \
	  echo "bench text_kernel"; $(BIN)/python bench/text_kernel.py "$$BLOOMERY_CORPUS"/*.jsonl.zst > bench/results/text_kernel.json; \
	fi

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bloomery data_prep training export monitoring planner tests bench -name __pycache__ -prune -exec rm -rf {} +
	find data_prep -name '*.so' -delete
