"""Cases of the service's operation."""

from __future__ import annotations

from typing import get_args

from jiyi.protocol.operations import WorkerMode
from models.operations import actions, worker_actions, worker_liveness
from tests.integration.actions.cases import MADE, case, nothing


def _worker(group: str) -> str:
    """One that reads nothing, and follows nobody."""
    name = f"{group}@elsewhere"
    worker_liveness.record_heartbeat(f"elsewhere:{group}", name, [])
    return name


CASES = (
    case(actions.run_job, nothing, {"job": "snapshot"}),  # does no harm, however often it is run
    case(actions.forget_llm, nothing, {}),
    *(
        case(worker_actions.set_worker_mode, _worker, {"worker": MADE, "mode": mode}, mode)
        for mode in get_args(WorkerMode)
    ),
)
