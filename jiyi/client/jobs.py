"""``client.jobs``: the service's scheduled jobs."""

from __future__ import annotations

from jiyi.client.calls import Calls, checked, poll
from jiyi.protocol.operations import RunJobQuery, Tick, TickQuery

#: What a job that is run now may take, in seconds.
JOB_SECONDS = 600.0


class Jobs:
    """Scheduled jobs. They are the whole service's, whatever the group."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def run(self, job: str, *, dry_run: bool = False, whole_service: bool = True, timeout: float = JOB_SECONDS) -> Tick:
        """Run a scheduled job now and wait for its end; or tell what it would do.

        Raises:
            NotFound: there is no such job.
            NoAnswer: it has not ended within ``timeout`` seconds, but goes on.
        """
        group = self._calls.group
        query = checked(RunJobQuery, group_id=group, job=job, dry_run=dry_run, whole_service=whole_service)
        begun = Tick.model_validate(self._calls.inspect("run_job", query, timeout))
        if begun.state not in ("waiting", "running"):
            return begun
        slot = checked(TickQuery, group_id=group, job=job, slot=begun.slot)
        return poll(
            lambda: Tick.model_validate(self._calls.inspect("tick", slot) or begun),
            lambda tick: tick.state not in ("waiting", "running"),
            timeout,
            lambda _: f"{job} has not ended within {timeout:g} s; it goes on: see `jiyi schedule`",
        )
