"""The service in numbers: counts of a group, dead letters, runs of scheduled jobs. The one place that counts them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from engine.operations.jobs import JOBS, Job
from jiyi.protocol.operations import GroupStats, JobState, Tick
from jiyi.settings import Settings
from models.queue import ticks


@dataclass(frozen=True, slots=True)
class Totals:
    """Of :func:`counts` what costs little, so that a page can ask for it every few seconds."""

    agents: int
    nodes: int


def counts(connection: Connection, group_id: str) -> GroupStats:
    """What is stored of a group. Erased events do not count; letters of no known group do, for whoever may see them."""
    return GroupStats.model_validate(dict(connection.execute(_COUNTS, {"group": group_id}).mappings().one()))


def totals(connection: Connection, group_id: str) -> Totals:
    return Totals(*connection.execute(_TOTALS, {"group": group_id}).one())


def open_letters(connection: Connection, group_id: str | None = None) -> int:
    """Open dead letters of a group and of none, or of all; of those that may be seen."""
    return int(connection.execute(_OPEN_LETTERS, {"group": group_id}).scalar_one())


def last_runs(connection: Connection) -> dict[str, Tick]:
    """The last run of each scheduled job, if there is one."""
    return ticks.last(connection, list(JOBS))


def job_states(connection: Connection, settings: Settings, now: datetime) -> list[JobState]:
    """Every scheduled job with its last run and its next one."""
    last = last_runs(connection)
    return [_job_state(job, last.get(name), settings, now) for name, job in JOBS.items()]


def _job_state(job: Job, last: Tick | None, settings: Settings, now: datetime) -> JobState:
    times = job.schedule(settings)
    upcoming = None
    if times.every:
        upcoming = now if last is None else times.slot(last.slot) + timedelta(seconds=times.every)
    return JobState(
        job=job.name,
        purpose=job.purpose,
        schedule=str(times),
        every_seconds=times.every or None,
        setting=job.variable,
        last=last,
        next=upcoming,
        lag_seconds=None if upcoming is None else max(0.0, (now - upcoming).total_seconds()),
    )


_COUNTS = text("""
    SELECT (SELECT count(*) FROM agents WHERE group_id = :group) AS agents,
        (SELECT count(*) FROM events WHERE group_id = :group AND outcome <> 'erased') AS events,
        count(*) AS nodes, count(*) FILTER (WHERE type = 'event') AS event_nodes,
        count(*) FILTER (WHERE type = 'thought') AS thought_nodes, count(*) FILTER (WHERE type = 'chat') AS chat_nodes,
        count(*) FILTER (WHERE embedding_model IS NULL) AS not_embedded, count(*) FILTER (WHERE is_idle) AS idle,
        count(*) FILTER (WHERE archived_at IS NOT NULL) AS archived,
        (SELECT count(*) FROM dead_letters WHERE state = 'open' AND (group_id = :group OR group_id IS NULL)) AS dead_letters
    FROM memory_nodes WHERE group_id = :group
""")
_TOTALS = text("""
    SELECT (SELECT count(*) FROM agents WHERE group_id = :group) AS agents,
        (SELECT count(*) FROM memory_nodes WHERE group_id = :group) AS nodes
""")
_OPEN_LETTERS = text("""
    SELECT count(*) FROM dead_letters
    WHERE state = 'open' AND (CAST(:group AS text) IS NULL OR group_id = :group OR group_id IS NULL)
""")
