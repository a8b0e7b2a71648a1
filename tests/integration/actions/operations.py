"""Cases of the service's operation."""

from __future__ import annotations

from jiyi.protocol.operations import RunJob
from models.operations import actions
from tests.integration.actions.cases import Case

#: A job that does no harm, however often it is run.
JOB = "snapshot"


CASES = (Case(action=actions.run_job, prepare=lambda _group: None, request=lambda _made: RunJob(job=JOB)),)
