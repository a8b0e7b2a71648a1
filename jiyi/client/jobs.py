"""``client.jobs``: the service's scheduled jobs."""

from __future__ import annotations

from pydantic import RootModel

from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import Steps, polled, verb
from jiyi.protocol.operations import JobsRequest, JobState, RunJob, Tick, TickRequest

#: What a job that is run now may take, in seconds.
JOB_SECONDS = 600.0
States = list[JobState]


class Known(RootModel[Tick | None]):
    """A run, unless there is none of that time."""


class Jobs(Namespace[W]):
    """Scheduled jobs. They are the whole service's, whatever the group."""

    @verb
    def list(self) -> Steps[States]:
        """Every job with its last run and its next one."""
        return self._ask("jobs.list", JobsRequest(), States)

    @verb
    def run(self, job: str, *, dry_run: bool = False, whole_service: bool = True, timeout: float = JOB_SECONDS) -> Steps[Tick]:
        """Run a scheduled job now and wait for its end; or (``dry_run``) tell what it would do.

        Raises:
            NotFound: there is no such job.
            NoAnswer: it has not ended within ``timeout`` seconds, but goes on.
        """
        request = checked(RunJob, job=job, whole_service=whole_service)
        if dry_run:
            return (yield from self._ask("jobs.preview", request, Tick, timeout))
        begun = yield from self._act("jobs.run", request, Tick)
        slot = checked(TickRequest, job=job, slot=begun.slot)

        def look() -> Steps[Tick]:
            return (yield from self._ask("jobs.tick", slot, Known)).root or begun

        late = f"{job} has not ended within {timeout:g} s; it goes on: see `jiyi schedule`"
        return (yield from polled(look, lambda tick: tick.ended, timeout, lambda _: late))
