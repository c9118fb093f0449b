# make run      run the whole workflow on the embedded sample; `make run CONFIG=my.yaml` uses your configuration
# make test     check style, types and lint, and run every test that this machine can run
# make check    check style, types and lint, and run the unit tests (fast, for daily work)
# make bench    run the benchmarks
# make docs     build the documents as a searchable site, .site/index.html
# make clean    remove everything that was built, but never runs/

PY ?= python3
CONFIG ?= config/sample.yaml
TARGET ?= all

VENV := .venv
BIN := $(VENV)/bin
SUITES := $(BIN)/python tests/support/suites.py
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := run
.PHONY: run test check style bench docs clean install system

run: install
	$(BIN)/snakemake $(TARGET) --profile workflow/profiles/local --configfile $(CONFIG)

install: $(VENV)/.built

# Packages in exact versions, to run Bloomery and to develop it.
$(VENV)/.installed: requirements.lock
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Bloomery needs Python 3.11 or newer: make PY=python3.11")'
	@echo "install: $$(grep -c == requirements.lock) packages into $(VENV) (once; takes some minutes)"
	$(PY) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -r requirements.lock \
	  | { grep --line-buffered -E '^ *(Collecting|Downloading|Building|Installing)' || true; } | cut -c1-100
	@touch $@

# The package itself, editable, with its C++ kernels.
$(VENV)/.built: $(VENV)/.installed pyproject.toml setup.py $(shell find csrc -name '*.cpp' -o -name '*.hpp')
	@echo "install: building csrc/ and installing bloomery"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Install the programs that tests start, if they are missing. This needs root. A test whose program is missing is
# skipped and states the reason.
system:
	@missing=; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v slurmctld >/dev/null || missing="$$missing slurmctld slurmd slurm-client"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v slurmdbd >/dev/null || missing="$$missing slurmdbd"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v mariadbd >/dev/null || missing="$$missing mariadb-server-core mariadb-client-core"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || missing="$$missing iproute2"; \
	command -v chromium >/dev/null || missing="$$missing chromium fonts-noto-core fonts-wqy-microhei"; \
	if [ -z "$$missing" ]; then \
	  echo "system: nothing is missing"; \
	elif [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "system: missing, and not installed because that needs root and apt-get:$$missing"; \
	  echo "system: tests that need them are skipped; to install them as root: apt-get install$$missing"; \
	else \
	  echo "system: installing missing programs:$$missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

# Three lanes at the same time: neither the tests of workflows nor those of the cluster keep two cores busy.
test: style system
	$(SUITES) cluster --beside workflow unit --beside slow distributed

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

check: style
	$(SUITES) unit

# Each program prints one JSON document. Programs that need real text read the files *.jsonl.zst in BLOOMERY_CORPUS.
# The programs segment_gap and chaos need SLURM (`make system`), and chaos needs root.
# On a GPU, run bench/gpu/run.py instead. Its docstring lists what it needs; it does not need the workflow's packages.
# The corpus_* programs compare with datatrove. To measure datatrove with its optional packages, first run
# `.venv/bin/python -m pip install spacy orjson`. Without them, datatrove is measured differently or skipped.
bench: install
	@mkdir -p bench/results
	@for name in startup status sync workflow blend bpe_train training_overhead save_comparison training_speed training_layouts dropout lamb init_estimate planned_sizes divergence crashes non_finite alerts segment_gap chaos fuzz; do \
	  echo "bench $$name"; $(BIN)/python bench/$$name.py > bench/results/$$name.json; \
	done
	@$(MAKE) --no-print-directory run CONFIG=config/sample.yaml
	@echo "bench last_good_result"; $(BIN)/python bench/last_good_result.py --run runs/sample --config config/sample.yaml > bench/results/last_good_result.json
	@echo "bench hostile_edits"; $(BIN)/python bench/hostile_edits.py --run runs/sample > bench/results/hostile_edits.json
	@echo "bench index (needs 25 GB of disk space)"; folder=$$(mktemp -d -p .); trap 'rm -rf "$$folder"' EXIT; \
	  $(BIN)/python bench/index.py "$$folder" > bench/results/index.json
	@echo "bench export (needs 46 GB of disk space)"; folder=$$(mktemp -d -p .); trap 'rm -rf "$$folder"' EXIT; \
	  $(BIN)/python bench/export.py "$$folder/export" > bench/results/export.json
	@if [ -z "$${BLOOMERY_CORPUS:-}" ]; then echo "bench tokenizer_count, encode, text_kernel, corpus_*: skipped; set BLOOMERY_CORPUS to a folder with *.jsonl.zst files"; else \
	  for name in filters langid minhash exact ingest memory; do \
	    echo "bench corpus_$$name"; $(BIN)/python bench/corpus_$$name.py > bench/results/corpus_$$name.json; \
	  done; \
	  for name in first_token tokenizer_count encode; do \
	    echo "bench $$name"; $(BIN)/python bench/$$name.py > bench/results/$$name.json; \
	  done; \
	  for name in corpus tokens; do $(BIN)/python bench/$${name}_scale.py > docs/$$name-scale.md; done; \
	  echo "bench text_kernel"; $(BIN)/python bench/text_kernel.py "$$BLOOMERY_CORPUS"/*.jsonl.zst > bench/results/text_kernel.json; \
	fi
	$(BIN)/python bench/benchmark_page.py > docs/benchmarks.md

# `--strict` fails on a link to a file or a heading that does not exist. The search needs a server.
docs: install
	$(BIN)/mkdocs build --strict --quiet
	@echo "docs: .site/index.html; to search: $(BIN)/python -m http.server -d .site"

clean:
	rm -rf $(VENV) .site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bloomery data_prep training export monitoring planner tests bench -name __pycache__ -prune -exec rm -rf {} +
	find data_prep -name '*.so' -delete
