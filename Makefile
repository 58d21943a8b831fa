# Everything starts here: `make` lists what there is. Needed: make, Python 3.11, and Debian's apt-get and dpkg.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of Pythons, and each would compile all modules again. `make clean` removes what they keep.
unexport PYTHONDONTWRITEBYTECODE

# The Python to set up with: 3.11, which the locks were made for, or a newer one.
PYTHON ?= $(shell for python in python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; done; echo $$python)
# The environment's Python, to work with: `make setup` links .venv to its place in the cache.
PY := .venv/bin/python

# Three tests at a time, each file on one of three processes that have servers of their own: some compute and some wait,
# so that two cores are filled.
PYTEST := $(PY) -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder

BENCHES := $(patsubst bench/%.py,bench-%,$(wildcard bench/[a-z]*.py))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Fetch what the machine lacks into the cache: Python packages, Java, Delta's jars, MySQL
	@$(PYTHON) -m deploy.toolchain setup

.PHONY: setup-s3
setup-s3: ## Fetch the jars for a lake in S3, and print where all parts are
	@$(PYTHON) -m deploy.toolchain setup --s3
	@$(PYTHON) -m deploy.toolchain paths

.PHONY: setup-tests
setup-tests: ## Fetch what the tests need besides: the jars for a lake in S3, MySQL 5.6, Kafka, a schema registry, Debezium, Prometheus, Helm, a browser, the classes of Spark and Kafka in archives
	@$(PYTHON) -m deploy.toolchain setup --tests

.PHONY: demo
demo: setup ## Capture a busy MySQL into Delta and prove that they are equal (ROWS=n rows; KAFKA=1: into topics, too)
	@$(PY) -m deploy.demo $(if $(ROWS),--rows $(ROWS)) $(if $(KAFKA),--kafka)

# What another checkout has computed from the same sources.
.PHONY: taken
taken: setup
	@$(PY) -m deploy.toolchain.build_cache take

.PHONY: lint
lint: taken ## Check style, format and types
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check .
	@$(PY) -m mypy --no-error-summary

.PHONY: format
format: setup ## Format the sources and mend what can be mended
	@$(PY) -m ruff check --quiet --fix .
	@$(PY) -m ruff format --quiet .

# Once, before three processes of tests would each do it.
.PHONY: kernels
kernels: taken ## Compile the kernels that a first start would compile
	@$(PY) -m actors.service.warm_up

# Once, too, what three processes would do at the same time: compile all tests, and rewrite their asserts. If a test
# can't be imported, the tests say so.
.PHONY: compiled
compiled: kernels
	@-$(PY) -m pytest --collect-only -qq > /dev/null 2>&1

# Two at once: lint computes on one core, the others download, or compute on the other.
.PHONY: checked
checked: setup
	@$(MAKE) --jobs=2 lint setup-tests compiled
	@$(PY) -m deploy.toolchain.build_cache keep

.PHONY: test
test: checked ## Lint, then run every test but the long ones
	@$(PYTEST) -m "not full"

.PHONY: test-full
test-full: checked ## Lint, then run every test
	@$(PYTEST) --hypothesis-profile=further

.PHONY: conformance
conformance: setup-tests ## Hold commits to Delta against a pair that isn't the pinned one (PYSPARK=4.1.1 DELTA=4.3.0)
	@$(PY) -m deploy.toolchain.spark_pair $(PYSPARK) $(DELTA)

.PHONY: site
site: setup ## Build the docs as a site, in build/site; a broken link fails it
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --config-file deploy/site/mkdocs.yml

.PHONY: release
release: setup-tests ## Make what a release consists of, with checksums, in build/release; publish nothing
	@$(PY) -m deploy.release

.PHONY: bench
bench: $(BENCHES) ## Run every benchmark

bench-%: setup ## Run the benchmark bench/%.py
	@$(PY) -m bench.$*

.PHONY: clean
clean: ## Remove what tools left in the checkout; the cache stays
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
