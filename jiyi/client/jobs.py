"""``client.jobs``: the service's scheduled jobs."""

from __future__ import annotations

from pydantic import TypeAdapter

from jiyi.client.calls import Calls, checked
from jiyi.polling import poll
from jiyi.protocol.operations import JobsRequest, JobState, RunJob, Tick, TickRequest

#: What a job that is run now may take, in seconds.
JOB_SECONDS = 600.0
States = list[JobState]
_STATES = TypeAdapter(States)


class Jobs:
    """Scheduled jobs. They are the whole service's, whatever the group."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> States:
        """Every job with its last run and its next one."""
        return _STATES.validate_python(self._calls.ask("jobs.list", JobsRequest()))

    def run(self, job: str, *, dry_run: bool = False, whole_service: bool = True, timeout: float = JOB_SECONDS) -> Tick:
        """Run a scheduled job now and wait for its end; or (``dry_run``) tell what it would do.

        Raises:
            NotFound: there is no such job.
            NoAnswer: it has not ended within ``timeout`` seconds, but goes on.
        """
        request = checked(RunJob, job=job, whole_service=whole_service)
        if dry_run:
            return Tick.model_validate(self._calls.ask("jobs.preview", request, timeout))
        begun = Tick.model_validate(self._calls.act("jobs.run", request))
        slot = checked(TickRequest, job=job, slot=begun.slot)
        return poll(
            lambda: Tick.model_validate(self._calls.ask("jobs.tick", slot) or begun),
            lambda tick: tick.ended,
            timeout,
            lambda _: f"{job} has not ended within {timeout:g} s; it goes on: see `jiyi schedule`",
        )
