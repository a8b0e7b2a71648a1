"""Counts of a group, dead letters, runs of jobs, what LLMs used; and deleting old rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from typing import Any

import redis
from sqlalchemy import Connection, Date, Delete, any_, bindparam, column, func, select, text
from sqlalchemy import delete as delete_from
from sqlalchemy import table as table_of
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from engine.operations import JOBS, Job
from engine.providers.llm_prompts import Usage
from jiyi.protocol.base import JsonObject
from jiyi.protocol.operations import GroupStats, JobState, Tick
from jiyi.protocol.providers import LLMUsage, UsageKey
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.settings import Settings, get_settings
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.rows import Record, fetch, records
from models.db.scope import for_groups, whole_service
from models.db.valkey import valkey
from models.operations import tables
from models.queue import broker_queues, ticks

log = logging.getLogger(__name__)
#: What adds up over a day.
COUNTED = tuple(name for name in LLMUsage.model_fields if name not in ("prompt", "model"))
_U = tables.LLMUsageRow
#: Tables of optional subjects → days after which rows are old.
OTHER_AGES: dict[str, int] = {}
#: Gives numbers of the whole service.
Numbers = Callable[[Connection, datetime], JsonObject]
_NUMBERS: list[Numbers] = []


@dataclass(frozen=True, slots=True)
class Totals:
    """Of :func:`counts` what costs little, so that a page can ask for it every few seconds."""

    agents: int
    nodes: int


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """What has been done in a new group: a key made, an event sent, a question asked."""

    key: bool
    event: bool
    question: bool


def counts(connection: Connection, group_id: str) -> GroupStats:
    """What is stored of a group, without erased events, with letters of no known group."""
    return GroupStats.model_validate(dict(connection.execute(_COUNTS, {"group": group_id}).mappings().one()))


def totals(connection: Connection, group_id: str) -> Totals:
    return Totals(*connection.execute(_TOTALS, {"group": group_id}).one())


def first_steps(connection: Connection, group_id: str) -> FirstSteps:
    """Which steps of a group's first visit are done. Asked of small groups only."""
    return FirstSteps(*connection.execute(_FIRST_STEPS, {"group": group_id}).one())


def open_letters(connection: Connection, group_id: str | None = None) -> int:
    """Open dead letters of a group and of none, or of all; of those that may be seen."""
    return int(connection.execute(_OPEN_LETTERS, {"group": group_id}).scalar_one())


def last_runs(connection: Connection) -> dict[str, Tick]:
    return ticks.last(connection, list(JOBS))


def job_states(connection: Connection, settings: Settings, now: datetime) -> list[JobState]:
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
        schedule=times.words,
        every_seconds=times.every or None,
        setting=job.variable,
        last=last,
        next=upcoming,
        lag_seconds=None if upcoming is None else max(0.0, (now - upcoming).total_seconds()),
    )


def record_usage(used: Usage) -> None:
    """Count one question in its own transaction: it stays spent if the work around it fails. Never raises."""
    try:
        # Threads that ask have no scope of their own; what was asked for no group is the whole service's.
        with for_groups(used.group_id) if used.group_id else whole_service(), unit_of_work() as connection:
            today = func.timezone("UTC", func.now()).cast(Date)
            more = insert(_U).values(day=today, **asdict(used))
            counted = {name: _U.__table__.c[name] + more.excluded[name] for name in COUNTED}
            key = list(_U.__table__.primary_key)
            connection.execute(more.on_conflict_do_update(index_elements=key, set_=counted))
    except SQLAlchemyError as error:
        log.warning("usage of %s by %s was not counted: %s", used.prompt, used.model, error)


def usage_since(connection: Connection, group_id: str, first_day: date) -> list[LLMUsage]:
    """The group's usage from a day (UTC) on, by prompt and model, the most expensive first."""
    return fetch(connection, LLMUsage, _SINCE, group=group_id, day=first_day)


def usage_by(connection: Connection, group_id: str | None, first_day: date, by: UsageKey) -> list[Record]:
    """Usage from a day (UTC) on, of a group or of all in sight, by ``by``: newest month, or highest cost,
    first.
    """
    rows = records(connection, _BY, group=group_id, day=first_day, by=by)
    return sorted(rows, key=itemgetter("key"), reverse=True) if by == "month" else rows


def delete_old(connection: Connection, table: str, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` of them; how many. Safe to repeat: a row that is gone is not found."""
    return connection.execute(_delete_batch(table, _OLD[table]), {"before": before, "limit": limit}).rowcount


def _delete_batch(name: str, old: str) -> Delete:
    """ANY(ARRAY(…)): the rows are found once, and then by their places."""
    rows = table_of(name, column("ctid")).alias("t")
    batch = select(rows.c.ctid).where(text(old)).limit(bindparam("limit")).with_for_update()
    return delete_from(table_of(name)).where(column("ctid") == any_(func.array(batch.scalar_subquery())))


def prunes(table: str, old: str, days: int) -> None:
    """Have rows of a subject's table deleted after so many days: ``old``, an SQL condition on ``:before``."""
    _OLD[table], OTHER_AGES[table] = old, days


def in_snapshot(function: Numbers) -> Numbers:
    """Have a subject's numbers returned by :func:`stored`, too."""
    _NUMBERS.append(function)
    return function


def stored(connection: Connection) -> JsonObject:
    """What the database knows: pending work by kind, the longest delay in seconds, open dead letters."""
    work = [dict(row) for row in connection.execute(_WORK).mappings()]
    return {
        "owed": {row["kind"]: row["owed"] for row in work},
        "overdue": {row["kind"]: row["overdue"] for row in work if row["overdue"]},
        "lag_seconds": max((row["lag"] for row in work), default=0.0),
        "dead_letters": open_letters(connection),
        **dict(item for count in _NUMBERS for item in count(connection, datetime.now(UTC)).items()),
    }


def queued() -> JsonObject:
    """What broker and Valkey know; nothing where the broker is of another kind, or silent."""
    settings = get_settings()
    address = broker_queues.redis_address(settings.need("broker_url"))
    try:
        counts: dict[str, Any] = {"accesses_buffered": valkey().zcard(valkey_keys.ACCESS)}
        if address is not None:
            depths = broker_queues.depths(address, [INTAKE_QUEUE, *broker_queues.task_queues()])
            in_hand = {"intake": depths.intake.count, "tasks": depths.tasks.count}
            counts |= {"queues": depths.waiting, "in_hand": in_hand}
    except redis.RedisError as error:
        return {"queues": None, "queues_error": str(error)}
    return counts


_COUNTS = text("""
    SELECT (SELECT count(*) FROM agents WHERE group_id = :group) AS agents,
        (SELECT count(*) FROM events WHERE group_id = :group AND outcome <> 'erased') AS events,
        count(*) AS nodes, count(*) FILTER (WHERE type = 'event') AS event_nodes,
        count(*) FILTER (WHERE type = 'thought') AS thought_nodes, count(*) FILTER (WHERE type = 'chat') AS
        chat_nodes,
        count(*) FILTER (WHERE embedding_model IS NULL) AS not_embedded, count(*) FILTER (WHERE is_idle) AS
        idle,
        count(*) FILTER (WHERE archived_at IS NOT NULL) AS archived,
        (SELECT count(*) FROM dead_letters WHERE state = 'open' AND (group_id = :group
        OR group_id IS NULL)) AS dead_letters
    FROM memory_nodes WHERE group_id = :group
""")
_FIRST_STEPS = text("""
    SELECT EXISTS (SELECT FROM api_keys WHERE group_id = :group AND revoked_at IS NULL),
        EXISTS (SELECT FROM memory_nodes WHERE group_id = :group),
        EXISTS (SELECT FROM retrievals WHERE group_id = :group)
""")
_TOTALS = text("""
    SELECT (SELECT count(*) FROM agents WHERE group_id = :group) AS agents,
        (SELECT count(*) FROM memory_nodes WHERE group_id = :group) AS nodes
""")
_OPEN_LETTERS = text("""
    SELECT count(*) FROM dead_letters
    WHERE state = 'open' AND (CAST(:group AS text) IS NULL OR group_id = :group OR group_id IS NULL)
""")
_SUMS = ", ".join(
    f"CAST(sum({name}) AS {'float8' if LLMUsage.model_fields[name].annotation is float else 'bigint'}) AS"
    f" {name}"
    for name in COUNTED
)
_SINCE = text(
    """
    SELECT prompt, model, SUMS
    FROM llm_usage WHERE group_id = :group AND day >= :day
    GROUP BY prompt, model ORDER BY cost DESC, calls DESC, prompt, model
""".replace("SUMS", _SUMS)
)
_BY = text(
    """
    SELECT CASE CAST(:by AS text) WHEN 'model' THEN model WHEN 'task' THEN prompt WHEN 'group' THEN group_id
            ELSE to_char(day, 'YYYY-MM') END AS key, SUMS
    FROM llm_usage WHERE (CAST(:group AS text) IS NULL OR group_id = :group) AND day >= :day
    GROUP BY 1 ORDER BY cost DESC, calls DESC, 1
""".replace("SUMS", _SUMS)
)
#: Rows that may be deleted. An event whose node is missing, or whose work is pending or may be again (an open
#: dead letter), is the only trace of something: it stays. So does the tombstone of an erased one, which keeps
#: it from coming back.
_OLD = {
    "events": """
        received_at < :before AND outcome <> 'erased' AND (outcome <> 'stored' OR EXISTS (
            SELECT FROM memory_nodes n WHERE n.node_id = t.node_id AND n.group_id = t.group_id
        )) AND NOT EXISTS (
            SELECT FROM pending_work p WHERE p.subject_id = t.event_id AND p.group_id = t.group_id
        ) AND NOT EXISTS (
            SELECT FROM dead_letters d
            WHERE d.subject_id = t.event_id AND d.group_id = t.group_id AND d.state = 'open'
        )
    """,
    "dead_letters": "state <> 'open' AND resolved_at < :before",
    "retrievals": "asked_at < :before",
    # What a job did last stays, however long ago it was.
    "job_ticks": (
        "slot < :before AND EXISTS (SELECT FROM job_ticks later WHERE later.job = t.job AND later.slot >"
        " t.slot)"
    ),
}
_WORK = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= now()) AS overdue,
        CAST(coalesce(extract(epoch FROM max(now() - due_at) FILTER (WHERE due_at <= now())), 0) AS float8)
        AS lag
    FROM pending_work GROUP BY kind ORDER BY kind
""")
