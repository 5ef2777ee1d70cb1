# Two commands do everything on a machine with Python 3.11 or newer: `make profile` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINES := .venv-engines
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PIP_NO_INPUT := 1

.PHONY: profile test check slow engines ray lock clean
.DEFAULT_GOAL := profile

## profile: run the main job on the embedded engine with its bundled model; above its recap stands where the report is
profile: $(VENV)/run.stamp
	$(BIN)/phasewise profile

## test: lint, types, import layers and the fast tests, on all cores but for those that hold times against the truth
test: check
	$(BIN)/python -m pytest -m "not slow and not alone" -rs -n auto
	$(BIN)/python -m pytest -m "not slow and alone" -rs

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

## slow: the tests that need minutes, a real engine or a browser (what .ci/run adds), in the same two parts
slow: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m "slow and not alone" -rs -n auto
	$(BIN)/python -m pytest -m "slow and alone" -rs

## engines: the vLLM CPU engine, transformers serve and the bundled model in their format, for the slow tests (2.4 GB)
engines: $(ENGINES)/engines.stamp

$(ENGINES)/engines.stamp: requirements/vllm.txt tests/engines/hf_folder.py $(VENV)/run.stamp
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -r requirements/vllm.txt
	$(ENGINES)/bin/python tests/engines/hf_folder.py \
	  "$$($(BIN)/python -c 'from phasewise.engines.embedded import bundled_model; print(bundled_model())')" \
	  $(ENGINES)/smollm2
	@touch $@

## ray: Ray beside the rest, for the slow tests of load from many machines (90 MB to download)
ray: $(VENV)/ray.stamp

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "phasewise needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run.stamp: $(VENV)/python.stamp requirements/run.txt requirements/model.txt pyproject.toml
	$(PIP) install --require-hashes -r requirements/run.txt
	$(PIP) install --require-hashes --no-deps -r requirements/model.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.txt
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/ray.stamp: $(VENV)/run.stamp requirements/ray.txt
	$(PIP) install --require-hashes -r requirements/ray.txt
	@touch $@

## lock: pin every dependency again (needs uv)
lock:
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  pyproject.toml requirements/build.in --extra embedded --extra nvidia -o requirements/run.txt
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  --constraint requirements/run.txt --group test --group check -o requirements/dev.txt
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  --constraint requirements/run.txt --constraint requirements/dev.txt \
	  pyproject.toml --extra ray -o requirements/ray.txt

clean:
	rm -rf $(VENV) $(ENGINES) .mypy_cache .ruff_cache .pytest_cache .hypothesis
