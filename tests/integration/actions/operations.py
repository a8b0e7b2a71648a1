"""Cases of the service's operation."""

from __future__ import annotations

from typing import get_args

from jiyi.protocol.base import Request
from jiyi.protocol.operations import RunJob, SetWorkerMode, WorkerMode
from models.operations import actions, worker_actions, worker_liveness
from tests.integration.actions.cases import Case

#: A job that does no harm, however often it is run.
JOB = "snapshot"


def _worker(group: str) -> str:
    """One that reads nothing, and follows nobody."""
    name = f"{group}@elsewhere"
    worker_liveness.record_heartbeat(f"elsewhere:{group}", name, [])
    return name


def _of_worker(mode: WorkerMode) -> Case:
    return Case(
        action=worker_actions.set_worker_mode,
        name=mode,
        prepare=_worker,
        request=lambda name: SetWorkerMode(worker=name, mode=mode),
    )


CASES = (
    Case(action=actions.run_job, prepare=lambda _group: None, request=lambda _made: RunJob(job=JOB)),
    Case(action=actions.forget_llm, prepare=lambda _group: None, request=lambda _made: Request()),
    *map(_of_worker, get_args(WorkerMode)),
)
