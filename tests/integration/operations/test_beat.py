"""A real beat, and a second one beside it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from engine.operations.jobs import JOBS
from jiyi import Client
from tests.integration.memory.test_inbox import rows
from workers import ephemeral
from workers.embedded.stack import Stack
from workers.migrate import CHECKOUT

PATIENCE_SECONDS = 180.0
TICKS = 3


def test_two_beats_run_every_slot_once(client: Client, tmp_path: Path) -> None:
    began = datetime.now(UTC)
    with ephemeral.processes(tmp_path, ["beat"]):  # the service has one already
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            ticks = rows(
                "SELECT * FROM job_ticks WHERE job = 'reconcile' AND started_at > :began AND state <> 'running' ORDER BY slot", began=began
            )
            if len(ticks) >= TICKS and "Scheduler: Sending" in (tmp_path / "beat.log").read_text():
                break
            assert time.monotonic() < deadline, ticks
            time.sleep(0.2)
    assert {(tick["state"], tick["attempts"]) for tick in ticks} == {("done", 1)}
    apart = [later["slot"] - earlier["slot"] for earlier, later in pairwise(ticks)]
    assert min(apart) >= timedelta(seconds=2)


def test_every_job_has_a_function_in_a_module_that_beat_imports(database: Stack) -> None:
    app = import_module("workers.app")
    paths = [path for path in (CHECKOUT / "tasks").rglob("*.py") if "\n@job(" in path.read_text(encoding="utf-8")]
    assert {".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in paths} == set(app.JOB_MODULES)
    functions = import_module("tasks.framework.jobs").FUNCTIONS
    assert functions.keys() == JOBS.keys()
    assert all("Safe to repeat because" in (function.__doc__ or "") for function in functions.values())
