"""Runs of scheduled jobs: a row a slot, so that of several beats one wins.

One that is ``running`` after ``due_by`` has died, and counts as failed. A slot is begun again a while after
it failed, or when it did not get through (``more`` in its summary). Ticks ahead of the database's clock were
made while it was wrong, and are deleted: they must not silence a job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Double,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    extract,
    func,
    select,
    text,
    true,
    values,
)
from sqlalchemy.dialects.postgresql import JSONB

from jiyi.protocol.operations import Tick
from models.db.connection import CLOCK_AHEAD, database_time
from models.db.rows import columns, fetch, fetch_one
from models.queue.tables import JobTick

#: Ticks that are kept of each job, whatever their age: about eight hours of a job that runs every 10 s.
KEPT_TICKS = 3_000
#: Seconds until a run that failed is tried again within its slot; a job that runs more often just has its
#: next slot.
RETRY_SECONDS = 300
#: A run whose worker died is begun again at once, so often; one that kills its worker each time then waits,
#: too.
TRIES_AT_ONCE = 3
#: Seconds; no run says that it lasts longer from now on without saying so again, unless the clock was wrong
#: when it did.
LONGEST_LEASE = 3_600
DIED = "it had not ended when its time was up: its worker died, or it hangs"
MAX_ERROR_CHARS = 1_000
#: Key of a summary: where to go on, of a run whose time was up.
MORE = "more"


@dataclass(frozen=True, slots=True)
class JobAttempt:
    job: str
    slot: datetime
    #: Which try of the slot this is: a run that was taken for dead must not end another's.
    attempt: int
    #: What the tries before it counted, if it is to go on with them.
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Mapping[str, Any]:
        return {"job": self.job, "slot": self.slot, "attempt": self.attempt}


def begin(
    connection: Connection, job: str, slot: datetime, limit_seconds: float, *, alone: bool = True
) -> JobAttempt | None:
    """Begin the run of a slot, or again if it is to be; None if another has it.

    A run that takes longer than ``limit_seconds`` has died. ``alone``: not while another one runs.
    """
    connection.execute(_ONE_AT_A_TIME, {"job": job})
    ahead = {"now": database_time(connection), "slot": slot, "ahead": CLOCK_AHEAD}
    connection.execute(_DELETE_AHEAD, {"job": job, **ahead})
    connection.execute(_FAIL_OVERDUE, {"job": job, "died": DIED, "longest": LONGEST_LEASE})
    parameters = {"job": job, "slot": slot, "limit": limit_seconds, "alone": alone, "more": MORE}
    again = {"retry": RETRY_SECONDS, "died": DIED, "at_once": TRIES_AT_ONCE}
    begun = connection.execute(_BEGIN, {**parameters, **again}).one_or_none()
    if begun is None:
        return None
    return JobAttempt(job, slot, begun.attempts, begun.summary if MORE in begun.summary else {})


def renew(connection: Connection, tick: JobAttempt, limit_seconds: float) -> None:
    """The run is still under way: it counts as dead only so many seconds from now."""
    connection.execute(_RENEW, {**tick.key, "limit": limit_seconds})


def end(
    connection: Connection, tick: JobAttempt, summary: Mapping[str, Any], error: str | None = None
) -> None:
    """The run is done or, with a sentence, failed."""
    state = "done" if error is None else "failed"
    why = error and error.replace("\0", "")[:MAX_ERROR_CHARS]
    connection.execute(_END, {**tick.key, "summary": dict(summary), "state": state, "error": why})
    connection.execute(_PRUNE, {"job": tick.job, "kept": KEPT_TICKS})


def fail_overdue(connection: Connection) -> list[str]:
    """Mark the runs that died as failed; returns their jobs."""
    parameters = {"job": None, "died": DIED, "longest": LONGEST_LEASE}
    return list(connection.execute(_FAIL_OVERDUE, parameters).scalars())


def last(connection: Connection, jobs: Sequence[str]) -> dict[str, Tick]:
    """The last run of each job, if there is one."""
    job_names = values(column("name", Text), name="wanted").data([(job,) for job in jobs])
    latest = (
        _SHOWN.where(JobTick.job == job_names.c.name).order_by(JobTick.started_at.desc()).limit(1).lateral()
    )
    runs = fetch(connection, Tick, select(latest).select_from(job_names).join(latest, true()))
    return {tick.job: tick for tick in runs}


def find(connection: Connection, job: str, slot: datetime) -> Tick | None:
    return fetch_one(connection, Tick, _SHOWN.where(JobTick.job == job, JobTick.slot == slot))


_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('jiyi:job:' || :job, 0))")
_DELETE_AHEAD = text("""
    DELETE FROM job_ticks WHERE job = :job AND slot > greatest(CAST(:now AS timestamptz), CAST(:slot AS
    timestamptz)) + :ahead
""")
_FAIL_OVERDUE = text("""
    UPDATE job_ticks SET state = 'failed', finished_at = due_by,
        error = :died
    WHERE state = 'running' AND (due_by < clock_timestamp()
    OR due_by > clock_timestamp() + make_interval(secs => :longest))
      AND (CAST(:job AS text) IS NULL OR job = :job)
    RETURNING job
""")
_BEGIN = text("""
    INSERT INTO job_ticks AS t (job, slot, state, due_by)
    SELECT CAST(:job AS text), CAST(:slot AS timestamptz), 'running', now() + make_interval(secs => :limit)
    WHERE NOT (:alone AND EXISTS (SELECT FROM job_ticks r WHERE r.job = :job AND r.state = 'running'))
    ON CONFLICT (job, slot) DO UPDATE
        SET state = 'running', started_at = now(), due_by = excluded.due_by, finished_at = NULL, error = NULL,
            attempts = t.attempts + 1
        WHERE t.state = 'failed' AND t.finished_at < now() - make_interval(secs => :retry)
           OR t.state = 'failed' AND t.error = CAST(:died AS text) AND t.attempts < :at_once
           OR t.state = 'done' AND t.summary ? CAST(:more AS text)
    RETURNING attempts, summary
""")
_RENEW = text("""
    UPDATE job_ticks SET due_by = clock_timestamp() + make_interval(secs => :limit)
    WHERE job = :job AND slot = :slot AND attempts = :attempt AND state = 'running'
""")
_END = text("""
    UPDATE job_ticks SET state = :state, error = :error, summary = :summary, finished_at = clock_timestamp()
    WHERE job = :job AND slot = :slot AND attempts = :attempt
""").bindparams(bindparam("summary", type_=JSONB))
_PRUNE = text("""
    DELETE FROM job_ticks WHERE job = :job AND slot < (
        SELECT slot FROM job_ticks WHERE job = :job ORDER BY slot DESC OFFSET :kept LIMIT 1
    )
""")
_DIED = and_(JobTick.state == "running", JobTick.due_by < func.clock_timestamp())
_SHOWN = select(
    *columns(
        Tick,
        JobTick,
        state=case((_DIED, "failed"), else_=JobTick.state),
        error=case((_DIED, "its worker died, or it hangs"), else_=JobTick.error),
        seconds=cast(
            extract("epoch", func.coalesce(JobTick.finished_at, func.clock_timestamp()) - JobTick.started_at),
            Double,
        ),
    )
)
