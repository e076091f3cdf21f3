# Set-up, the main job and the checks. `make train` and `make test` do all they need.

VENV := .venv
PYTHON := $(VENV)/bin/python
MPIRUN := $(VENV)/bin/mpirun
STAMP := $(VENV)/.installed
NATIVE := CMakeLists.txt $(wildcard accel/*.cpp accel/*/*.cpp accel/*/*.hpp accel/include/accel/*.hpp)

.PHONY: train test check lint setup bench clean

setup: $(STAMP)

$(VENV)/bin/python:
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip

# The build tools are in the environment itself, so that the editable install needs no isolation.
$(STAMP): pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(PYTHON) -m pip install --quiet "scikit-build-core>=0.10" "pybind11>=2.13" "cmake>=3.26" "ninja>=1.11"
	$(PYTHON) -m pip install --quiet --no-build-isolation --editable ".[mpi,dev]"
	touch $@

# The main job, short: 1 jet, 2 ranks, then scores on held-out starts and two figures.
train: $(STAMP)
	$(MPIRUN) -n 2 $(PYTHON) -m flowrl.train --out out/film.h5 --overwrite
	$(PYTHON) -m flowrl.evaluate out/film.h5
	$(PYTHON) -m flowrl.plot curves out/film.h5 -o out/curves.png
	$(PYTHON) -m flowrl.plot film out/film.h5 -o out/film.png
	@echo "figures: out/curves.png out/film.png"

test: $(STAMP)
	$(PYTHON) -m pytest

# Style, types, who may import whom.
lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy flowrl shkadov accel
	$(VENV)/bin/lint-imports

check: lint test

bench: $(STAMP)
	$(PYTHON) -m flowrl.bench film
	$(PYTHON) -m flowrl.bench learner

clean:
	rm -rf $(VENV) build out
