# Two commands do everything, with only Python ≥ 3.11 and make on the machine:
#   make run    the whole service on the sample diary; ONCE=1 ends after the answers
#   make test   all tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Many processes are started, and each would compile all of the service from its source.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-long check translations bench lock clean

setup: $(STAMP)

# Two makes at once in one checkout must not install over each other: one locks, the other waits.
$(STAMP): pyproject.toml requirements.lock tools/install.py
	@$(PYTHON) tools/install.py $(VENV)

run: setup
	@$(BIN)/python -m workers.up --demo $(if $(ONCE),--once) $(if $(VERBOSE),--verbose)

# One layer after the other: unit tests want no service in their environment, integration tests have one for each core.
# The smoke tests kill and restart processes and mostly wait for them; meanwhile the browser tests look at the admin in
# Chromium, whose output comes when both are done.
test: setup
	@$(BIN)/python -m pytest tests/unit -n auto $(ARGS)
	@$(BIN)/python -m pytest tests/integration -n auto --dist loadgroup --no-loadscope-reorder $(ARGS)
	@said=$$(mktemp); $(BIN)/python -m pytest tests/browser -n 1 $(ARGS) >$$said 2>&1 & browser=$$!; \
	trap 'kill $$browser 2>/dev/null' INT TERM; \
	$(BIN)/python -m pytest tests/smoke -n 2 $(ARGS); smoke=$$?; \
	wait $$browser; browser=$$?; cat $$said; rm $$said; exit $$((smoke ? smoke : browser))

# The faults once more over RabbitMQ, where that is installed: minutes.
test-long: setup
	@$(BIN)/python -m pytest tests/smoke/test_faults.py --broker=amqp $(ARGS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m tools.translations --check

translations: setup
	@$(BIN)/python -m tools.translations

bench: setup
	@$(BIN)/python -m bench.ingest

lock:
	uv pip compile --universal --python-version 3.11 --extra service --extra local --extra embedded --extra dev --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) build *.egg-info
