"""Cases of the service's operation."""

from __future__ import annotations

from typing import Any

from jiyi.protocol.operations import RunJob
from models.operations import actions
from tests.integration.actions.cases import Case

#: A job that does no harm, however often it is run.
JOB = "snapshot"


def nothing(_group: str, _made: Any) -> None:
    """That it runs is what tests of the jobs show; here counts what is on record."""


CASES = (Case(action=actions.run_job, prepare=lambda _group: None, request=lambda _made: RunJob(job=JOB), effect=nothing),)
