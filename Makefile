# make demo    a translator from nothing: environment, corpus, training, scores, translations (PAIR=en-de or en-zh;
#              THREADS=1 if others work on the machine: two threads then wait for each other)
# make install   the environment .venv alone, with clearhead in it and all that its commands need
# make test    environment, lint, types, floors and every test
# make handbook  the handbook of docs/transformer as a site in build/handbook, its numbers checked first
# The other targets: lint, format, lock, bench, clean. Variables: PYTHON (interpreter to build .venv on), TORCH (which
# build of torch: "torch==2.13.0 --index-url URL", with the URL that pytorch.org gives for your machine).

PYTHON ?= python3
TORCH ?= torch==2.13.0
PAIR ?= en-de
THREADS ?= 0
export PYTHON TORCH

BIN := .venv/bin
# In the order of pyproject.toml's testpaths; the first one holds the doctests.
TESTS := $(wildcard src/clearhead $(addprefix tests/,unit laws golden docs shape system))

.PHONY: demo install test handbook lint format lock bench clean

demo: .venv/runtime.stamp
	$(BIN)/python -m clearhead.recipes.demo --pair $(PAIR) --threads $(THREADS)

install: .venv/runtime.stamp

# pytest comes last, so that its summary closes the output. A process a core, each with one thread: two threads in each
# of two processes on two cores would wait for each other.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup $(TESTS)

handbook: .venv/dev.stamp
	$(BIN)/python docs/transformer/site/build.py build/handbook

lint: .venv/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.stamp
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# A change of the native library's sources compiles it anew.
.venv/%.stamp: requirements/%.txt requirements/install.sh pyproject.toml setup.py $(wildcard src/clearhead/engine/native/*)
	requirements/install.sh $*

# Needs a network; changes requirements/*.txt, nothing else.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv==0.13.9
	.venv-lock/bin/python requirements/lock.py
	rm -rf .venv-lock

bench:
	@echo "Benchmarks print ratios to a peer, from alternated runs; benchmarks/results/ holds what they gave. The peers:"
	@echo "  $(BIN)/python -m pip install --editable '.[bench]'"
	@echo "  $(BIN)/python -m pip install --no-deps joeynmt==2.3.0"
	@echo "Then one of:"
	@for file in $$(grep -l __main__ benchmarks/*.py); do \
	  printf '  %s %-30s %s\n' "$(BIN)/python" "$$file" "$$(sed -n '1s/^"""//p' "$$file" | sed 's/"""$$//')"; done

# Leaves runs/ and data/ alone: they may have cost hours.
clean:
	rm -rf .venv .venv.lock .venv-lock build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	rm -f src/clearhead/engine/_native.so
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
