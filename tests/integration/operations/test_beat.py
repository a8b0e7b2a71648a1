"""A real beat, and a second one beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from engine.operations import JOBS
from jiyi import Client
from tests.integration.memory.test_inbox import rows
from tests.integration.waiting import until
from workers import ephemeral
from workers.embedded.stack import Stack
from workers.migrate import CHECKOUT

TICKS = 3


def test_two_beats_run_every_slot_once(client: Client, tmp_path: Path) -> None:
    finished = (
        "SELECT * FROM job_ticks WHERE job = 'reconcile' AND started_at > :began AND state <> 'running' ORDER"
        " BY slot"
    )
    began = datetime.now(UTC)
    with ephemeral.processes(tmp_path, ["beat"]):  # the service has one already
        until(
            lambda: (
                len(rows(finished, began=began)) >= TICKS
                and "Scheduler: Sending" in (tmp_path / "beat.log").read_text()
            ),
            180,
        )
    ticks = rows(finished, began=began)
    assert {(tick["state"], tick["attempts"]) for tick in ticks} == {("done", 1)}
    assert min(later["slot"] - earlier["slot"] for earlier, later in pairwise(ticks)) >= timedelta(seconds=2)


def test_every_job_has_a_function_in_a_module_that_beat_imports(database: Stack) -> None:
    paths = [
        path for path in (CHECKOUT / "tasks").rglob("*.py") if "\n@job(" in path.read_text(encoding="utf-8")
    ]
    imported = {module.__name__ for module in import_module("tasks.jobs").JOB_TASKS}
    assert {".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in paths} == imported
    functions = import_module("tasks.framework.jobs").FUNCTIONS
    assert functions.keys() == JOBS.keys()
    assert all("Safe to repeat because" in (function.__doc__ or "") for function in functions.values())
