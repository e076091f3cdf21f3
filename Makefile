# Set-up, the main job and the checks. `make train` and `make test` do all they need.

VENV := .venv
PYTHON := $(VENV)/bin/python
MPIRUN := $(VENV)/bin/mpirun
RUN := $(VENV)/.run-installed
DEV := $(VENV)/.dev-installed
NATIVE := CMakeLists.txt $(wildcard accel/*.cpp $(foreach kind,CMakeLists.txt *.cpp *.hpp *.cu *.cuh,accel/*/$(kind)) \
          accel/include/accel/*.hpp accel/include/accel/*/*.hpp)
BUILD := "scikit-build-core>=0.11" "pybind11>=2.13" "cmake>=3.26" "ninja>=1.11"

# The wheels of the extra [sycl]: the build looks for them, so they come first.
SYCL = $(shell $(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))\
	['project']['optional-dependencies']['sycl'])")

.PHONY: train test check lint bench clean

$(PYTHON):
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --upgrade pip

# The build tools are in the environment itself, so that the editable install needs no isolation.
$(RUN): pyproject.toml $(NATIVE) | $(PYTHON)
	@echo "setting up $(VENV): about half a gigabyte, once"
	$(PYTHON) -m pip install --quiet $(BUILD)
	$(PYTHON) -m pip install --quiet --no-build-isolation --editable ".[mpi]"
	touch $@

$(DEV): $(RUN)
	@echo "adding what the tests need to $(VENV): about three gigabytes more, once"
	-$(PYTHON) -m pip install --quiet $(SYCL)
	$(PYTHON) -m pip install --quiet --no-build-isolation --editable ".[mpi,dev]"
	touch $@

# The main job: one jet on 2 ranks, then scores on held-out starts and two figures.
train: $(RUN)
	$(MPIRUN) -n 2 $(PYTHON) -m flowrl.train --out out/film.h5 --overwrite
	$(PYTHON) -m flowrl.plot curves out/film.h5 -o out/curves.png
	$(PYTHON) -m flowrl.plot film out/film.h5 -o out/film.png
	@echo "results: out/film.h5, figures: out/curves.png out/film.png"

test: $(DEV)
	$(PYTHON) -m pytest

# Style, types, who may import whom.
lint: $(DEV)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --no-incremental flowrl shkadov accel
	$(VENV)/bin/lint-imports

check: lint test

bench: $(DEV)
	$(PYTHON) -m flowrl.bench film
	$(PYTHON) -m flowrl.bench learner
	$(PYTHON) -m flowrl.bench replay

clean:
	rm -rf $(VENV) build out
