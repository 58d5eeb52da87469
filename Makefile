# Every target depends on the installed environment, so that a fresh clone needs only one command.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Short tracebacks, so that the message is visible where CI shows only the end of the output.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --tb=short
# Number of test processes; each test file runs in one of them. Most long tests wait for sessions to expire. 0: no workers.
WORKERS ?= 2
# Markers of tests that start JVMs, markers of all tests that need more than Python and a moment, and the files with them:
# files that are not run need not be collected.
JVM := spark or broker or e2e
COSTLY := $(JVM) or slow or tools or processes or recordings or generated or waits
TEST_FILES = $(sort $(shell grep -r$(2)E --include='test_*.py' '$(3)\.($(subst $() or ,|,$(1)))\b' tests))
JVM_FILES = $(call TEST_FILES,$(JVM),l,mark)
COMPONENT_FILES = $(call TEST_FILES,$(COSTLY),l,mark)
UNIT_FILES = $(call TEST_FILES,$(COSTLY),L,^pytestmark = .*)
# The folders of three of the four parts of `make unit`; the fourth has the rest. They take about as long as each other.
UNIT_RULES := detect engine
UNIT_INPUTS := wire groups activity observed recordings brokers following diagnosis devtools
UNIT_PAGES := $(addprefix exporters/,terminal api web page metrics reporters)
UNIT_TESTS = $(addprefix tests/,$(addsuffix /%,$(1)))
# Not empty if a recent Go is installed: tools built with it need not wait for the environment.
GO := $(shell .ci/go-tools --has-go && echo yes)
# Without bytecode files pytest would rewrite the assertions of every file again in every process.
unexport PYTHONDONTWRITEBYTECODE
DURATION ?=
CURE_AFTER ?=
STORY ?=
YES ?=
GRAFANA ?=
GROUP ?= payments-enricher
ONLY ?=
PLAY ?=
MINUTES ?= 30
# Changes every day, with a gap large enough for the seeds of one night.
SEED ?= $(shell echo $$(($$(date +%s) / 86400 * 1000000)))

.DEFAULT_GOAL := help
.PHONY: help pictures setup demo test test-all accuracy faults fuzz charts lint format type unit unit-rules unit-inputs unit-pages unit-others component-test jvm-test spark-test broker-test e2e bench docs lock audit release clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the console script .venv/bin/rebalance-monitor

$(STAMP): requirements/dev.txt pyproject.toml .ci/prerequisites
	@.ci/prerequisites "$(PYTHON)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

.PHONY: jdk tools
jdk: # Prerequisites of targets that start a JVM
	@.ci/prerequisites "$(PYTHON)" jdk

tools: # Programs that tests start: a JVM, Prometheus, Alertmanager, Chromium, openssl
	@.ci/prerequisites "$(PYTHON)" tests

demo: setup jdk ## Start a real Kafka, the monitor and a sick consumer; DURATION=60 ends by itself; CURE_AFTER=3600: stays sick so long; STORY=a to e plays an incident; YES=1 installs what shows notifications
	$(BIN)/rebalance-monitor demo $(if $(DURATION),--duration $(DURATION)) $(if $(CURE_AFTER),--cure-after $(CURE_AFTER)) $(if $(STORY),--story $(STORY)) $(if $(YES),--yes)

# Tests that start JVMs mostly wait: for sessions to expire, rounds of probes, pages. CPU-bound tests run in parallel with
# them at a lower priority; they have longer time-outs because they may get little processor time for minutes.
test: tools ## Everything CI runs: lint, types, unit, Spark, real broker and end-to-end tests
	@$(MAKE) --no-print-directory --jobs=2 setup $(if $(GO),chart-tools)
	@$(BIN)/python .ci/beside.py "$(MAKE) jvm-test" "$(MAKE) lint" "$(MAKE) type" "$(MAKE) unit" "$(MAKE) component-test"

test-all: WORKERS = 0
test-all: tools lint type ## The same plus the slow matrices; writes docs/accuracy.md
	ACCURACY_REPORT=1 $(PYTEST) --hypothesis-profile=random
	$(MAKE) accuracy

accuracy: setup ## Judge every recording anew (about a minute); writes docs/accuracy.md and what docs/without-the-log.md and README repeat. PLAY="zombie:played:9 ...": play new ones first
	$(if $(PLAY),$(BIN)/python -m rebalance_devtools.stories.record tests/golden/families $(PLAY))
	PYTHONPATH="tests:$$PYTHONPATH" $(BIN)/python -m accuracy.report docs/accuracy.md
	PYTHONPATH="tests:$$PYTHONPATH" $(BIN)/python -m accuracy.without_log docs/accuracy.md docs/without-the-log.md README.md

faults fuzz: WORKERS = 0
faults: setup tools ## Every fault with all its rounds, more than three hours; writes docs/reliability.md. ONLY=broker: of such names
	FAULTS_REPORT=1 $(PYTEST) -m faults $(if $(ONLY),-k "$(ONLY)")

fuzz: setup ## Made-up client metrics and rows, each for MINUTES=30 of processor time, beginning with SEED, by default one of the day
	FAULTS_REPORT=1 FUZZ_MINUTES=$(MINUTES) FUZZ_SEED=$(SEED) $(PYTEST) tests/fuzz -k nonsense

TOOLS = $(or $(REBALANCE_MONITOR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rebalance-monitor)/tools
charts: setup ## Chart, compose file, units and receivers with helm, kubeconform, Docker Compose and Alertmanager, built from pinned Go modules
	.ci/go-tools "$(TOOLS)" "$(abspath $(BIN))/python"
	$(PYTEST) tests/deploy/test_chart.py tests/deploy/test_compose.py tests/deploy/test_units.py tests/prometheus/test_receivers.py

lint: setup ## Format check, lint, the architecture's import contracts, the age of docs/accuracy.md, what others repeat of it
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python tests/accuracy/freshness.py

format: setup ## Rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

type: setup ## mypy --strict
	$(BIN)/mypy

UNIT_RUNS := unit-rules unit-inputs unit-pages unit-others
unit: setup ## Tests of the code alone (seconds): nothing but Python is needed
	@$(MAKE) --no-print-directory --jobs=4 --output-sync --keep-going $(UNIT_RUNS)

# Each run collects only its own part: xdist workers would each collect all, and their reports of thousands of tests take as
# long as half of the tests. Tests of servers and clients wait for each other's threads, so there are more runs than cores.
unit-rules: UNIT_PART = $(filter $(call UNIT_TESTS,$(UNIT_RULES)),$(UNIT_FILES))
unit-inputs: UNIT_PART = $(filter $(call UNIT_TESTS,$(UNIT_INPUTS)),$(UNIT_FILES))
unit-pages: UNIT_PART = $(filter $(call UNIT_TESTS,$(UNIT_PAGES)),$(UNIT_FILES))
unit-others: UNIT_PART = $(filter-out $(call UNIT_TESTS,$(UNIT_RULES) $(UNIT_INPUTS) $(UNIT_PAGES)),$(UNIT_FILES))
$(UNIT_RUNS): setup
	$(BIN)/python -m pytest -q -m "not ($(COSTLY))" --timeout=1800 --randomly-dont-reset-seed $(UNIT_PART)

# Without these tools the tests of the chart are skipped with a message. Without Go, pip of the environment installs one.
.PHONY: chart-tools
chart-tools: $(if $(GO),,setup)
	@.ci/go-tools "$(TOOLS)" "$(abspath $(BIN))/python" chart || echo "helm and kubeconform could not be built: the chart is not checked" >&2

component-test: setup tools chart-tools ## Recordings, generated input, other processes, Prometheus, Chromium: all the rest without a JVM
	$(PYTEST) -m "($(COSTLY)) and not ($(JVM) or slow)" --timeout=1800 --durations=10 $(COMPONENT_FILES)

# These tests wait most of the time: three at once take two thirds of the time of two, on two cores. Four take as long.
jvm-test: WORKERS = 3
jvm-test: setup tools ## Spark, real broker and end-to-end tests
	$(PYTEST) -m "($(JVM)) and not slow" --durations=25 $(JVM_FILES)

spark-test: setup tools ## Tests with a local Spark session
	$(PYTEST) -m "spark and not broker and not e2e and not slow"

broker-test: setup tools ## Tests against a real embedded broker
	$(PYTEST) -m "broker and not e2e and not slow"

e2e: setup tools ## The whole chain as separate processes
	$(PYTEST) -m "e2e and not slow"

bench: setup jdk ## Measure; prints the tables of docs/benchmarks.md
	$(BIN)/rebalance-monitor bench

docs: setup ## Write what is generated from the code: schemas, API, data flow, diagnoses, metrics, settings, words of the page, dashboards, examples in runbooks
	$(BIN)/python -m rebalance_contract.schemas docs/schemas
	$(BIN)/python -m rebalance_contract.openapi docs/openapi.json
	$(BIN)/python -m rebalance_devtools.docs.flow docs/data-flow.md
	$(BIN)/python -m rebalance_devtools.docs.diagnoses docs/diagnoses.md streaming/rebalance_contract/diagnoses.json
	$(BIN)/python -m rebalance_devtools.docs.messages docs/messages.md
	$(BIN)/python -m rebalance_devtools.docs.metrics docs/metrics.md
	$(BIN)/python -m rebalance_devtools.docs.settings docs/configuration.md
	$(BIN)/python -m rebalance_exporters.page.sets exporters/rebalance_exporters/page/static/sets.js
	$(BIN)/python -m rebalance_exporters.page.colours exporters/rebalance_exporters/page/static/colours.css
	$(BIN)/python -m grafana.generate grafana/dashboards
	PYTHONPATH="tests:$$PYTHONPATH" $(BIN)/python -m prometheus.examples

pictures: setup tools ## Take the pictures of page and report that README and docs show; GRAFANA=URL: say how those of the dashboards are made; with OF=demo, calm or storm: take these
ifdef GRAFANA
	@PYTHONPATH="tests:$$PYTHONPATH" $(BIN)/python -m dashboard_pictures $(GRAFANA) $(OF) $(if $(AT),--at $(AT)) $(if $(SOURCE),--source $(SOURCE)) $(if $(INTO),--into $(INTO))
else
	PYTHONPATH="tests:$$PYTHONPATH" $(BIN)/python -m exporters.page.pictures
endif

UV := uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-find-links
lock: setup ## Resolve requirements/*.txt again (needs uv on PATH)
	$(UV) --extra dev pyproject.toml -o requirements/dev.txt
	$(UV) --extra demo pyproject.toml -o requirements/runtime.txt
	$(UV) requirements/release.in -o requirements/release.txt
	$(UV) requirements/go.in -o requirements/go.txt
	$(UV) requirements/audit.in -o requirements/audit.txt

audit: ## Hold the libraries of a production install against the package index's list of vulnerabilities
	.ci/audit "$(PYTHON)"

release: ## Build wheel, sdist and SBOM into dist/, and try them in a clean environment
	.ci/release "$(PYTHON)"

clean: ## Remove the environment and caches of this checkout (not the user's jar cache)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
