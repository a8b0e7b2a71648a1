"""Operating the service from outside: its scheduled jobs. Answered by workers, like inspections."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field

from jiyi.protocol.queries import Query

JobName = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,63}$")]


class ScheduleQuery(Query):
    """All jobs, their last runs and their next ones. They are the whole service's, whatever the group."""


class RunJobQuery(Query):
    """Run a job now, beside its schedule; or tell what it would do. ``whole_service``: not only for the group."""

    job: JobName
    dry_run: bool = False
    whole_service: bool = True


class TickQuery(Query):
    """How far is the run that was begun with a :class:`RunJobQuery`?"""

    job: JobName
    slot: AwareDatetime


class Tick(BaseModel):
    """A run of a job. ``waiting``: no worker has begun it yet."""

    job: str
    slot: datetime
    state: str = "waiting"
    seconds: float | None = None
    attempts: int = 0
    summary: dict[str, Any] = {}
    error: str | None = None
