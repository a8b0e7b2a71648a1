"""Stored schedules: created, listed, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, TextClause, delete, func, insert, or_, select, text, update
from uuid6 import uuid7

from engine.appointments.schedule import Firing, ParsedSchedule, ScheduleTiming
from jiyi.protocol.appointments import ScheduleState, Target, next_runs
from models.appointments.tables import ScheduleRow, ScheduleRun
from models.db.connection import CLOCK_AHEAD
from models.db.rows import Record, behind, columns, equal_if_given, fetch, fetch_one, records
from models.memory.agents import AgentName

#: Schedules that one agent may have, those that are over left out.
MAX_SCHEDULES = 1_000
#: Runs are kept so long, far longer than a missed one is caught up: one a minute would fill the disk.
RUNS_KEPT = timedelta(days=30)
_SHOWN = select(*columns(ScheduleState, ScheduleRow, id=ScheduleRow.schedule_id, next_runs=None))
#: Kinds of work: a schedule by its id, a heartbeat by its agent's key.
FIRE, HEARTBEAT = "fire_schedule", "heartbeat"
#: Work that is due before the next scan is enqueued ahead, for its minute: it waits for no scan.
AHEAD = timedelta(seconds=60)


def add(
    connection: Connection,
    name: AgentName,
    parsed: ParsedSchedule,
    target: Target,
    session_id: str | None,
    user_id: str | None,
    next_run_at: datetime,
) -> ScheduleState:
    """Keep a schedule of an agent that there is; ``user_id``: who asked for it."""
    schedule_id = uuid7()
    values = asdict(parsed.timing) | {
        "schedule_id": schedule_id,
        "group_id": name[0],
        "agent_id": name[1],
        "natural_description": parsed.description,
        "confidence": parsed.confidence,
        "task_description": parsed.task,
        "target_type": target.type,
        "target_id": target.id,
        "session_id": session_id,
        "user_id": user_id,
        "next_run_at": next_run_at,
    }
    connection.execute(insert(ScheduleRow), values)
    schedule = find(connection, name[0], schedule_id)
    assert schedule is not None
    return schedule


def find(connection: Connection, group_id: str, schedule_id: UUID) -> ScheduleState | None:
    return fetch_one(connection, ScheduleState, _SHOWN.where(*_which(group_id, schedule_id)))


def _which(group_id: str, schedule_id: UUID) -> tuple[ColumnElement[bool], ...]:
    return ScheduleRow.group_id == group_id, ScheduleRow.schedule_id == schedule_id


def schedule_page(
    connection: Connection,
    group_id: str,
    agent_id: str | None,
    user_id: str | None,
    state: str | None,
    after: UUID | None,
    limit: int,
) -> list[ScheduleState]:
    """The newest first; with a user those visible to that user."""
    which = equal_if_given((ScheduleRow.agent_id, agent_id), (ScheduleRow.state, state))
    query = _SHOWN.where(ScheduleRow.group_id == group_id, *which)
    if user_id is not None:
        query = query.where(_visible_to(user_id))
    return fetch(connection, ScheduleState, behind(query, after, ScheduleRow.schedule_id).limit(limit))


def _visible_to(user_id: str | None) -> ColumnElement[bool]:
    """Schedules of a user, and of nobody in particular."""
    nobodys = ScheduleRow.user_id.is_(None)
    return nobodys if user_id is None else or_(nobodys, ScheduleRow.user_id == user_id)


def find_same(
    connection: Connection, name: AgentName, parsed: ParsedSchedule, user_id: str | None
) -> ScheduleState | None:
    """An active schedule of an agent and a user that says the same: a repeated request gets one."""
    query = _SHOWN.where(
        ScheduleRow.group_id == name[0],
        ScheduleRow.agent_id == name[1],
        ScheduleRow.state == "active",
        ScheduleRow.kind == parsed.kind,
        ScheduleRow.cron.is_not_distinct_from(parsed.cron),
        ScheduleRow.every_seconds.is_not_distinct_from(parsed.every_seconds),
        ScheduleRow.tz == parsed.tz,
        ScheduleRow.task_description == parsed.task,
        ScheduleRow.user_id.is_not_distinct_from(user_id),
    )
    if parsed.kind == "once":
        query = query.where(ScheduleRow.at == parsed.at)
    return fetch_one(connection, ScheduleState, query.order_by(ScheduleRow.schedule_id).limit(1))


def count(connection: Connection, name: AgentName) -> int:
    """Schedules of an agent that are not over."""
    return connection.execute(select(func.count()).select_from(ScheduleRow).where(*_open(name))).scalar_one()


def _open(name: AgentName) -> tuple[ColumnElement[bool], ...]:
    return ScheduleRow.group_id == name[0], ScheduleRow.agent_id == name[1], ScheduleRow.state != "ended"


def change(
    connection: Connection, group_id: str, schedule_id: UUID, state: str, next_run_at: datetime | None
) -> None:
    """Pause it, or let it run again from a time on."""
    set_fields(connection, group_id, schedule_id, state=state, next_run_at=next_run_at, owed_for=None)


def set_fields(connection: Connection, group_id: str, schedule_id: UUID, **values: Any) -> None:
    connection.execute(update(ScheduleRow).where(*_which(group_id, schedule_id)).values(**values))


def move(
    connection: Connection,
    group_id: str,
    schedule_id: UUID,
    timing: ScheduleTiming,
    description: str,
    next_run_at: datetime,
) -> None:
    values = {"state": "active", "natural_description": description, "next_run_at": next_run_at}
    set_fields(connection, group_id, schedule_id, **asdict(timing), **values, owed_for=None)


def open_of(connection: Connection, name: AgentName, user_id: str | None, limit: int) -> list[ScheduleState]:
    """Schedules that are not over and visible to a user, the soonest first, paused ones last."""
    order = (ScheduleRow.next_run_at.asc().nulls_last(), ScheduleRow.schedule_id)
    query = _SHOWN.where(*_open(name), _visible_to(user_id)).order_by(*order).limit(limit)
    return fetch(connection, ScheduleState, query)


def remove(connection: Connection, group_id: str, schedule_id: UUID) -> bool:
    """Delete it with its runs."""
    return connection.execute(delete(ScheduleRow).where(*_which(group_id, schedule_id))).rowcount > 0


def runs_of(connection: Connection, group_id: str, schedule_id: UUID, limit: int) -> list[Record]:
    """The latest first; ``skipped``: it was noticed too late to catch up."""
    which = (ScheduleRun.group_id == group_id, ScheduleRun.schedule_id == schedule_id)
    run = ScheduleRun
    query = select(run.due_at, run.fired_at, run.missed, run.skipped, run.alert_id).where(*which)
    return records(connection, query.order_by(run.due_at.desc()).limit(limit))


def timing_of(schedule: ScheduleState) -> ScheduleTiming:
    return ScheduleTiming(schedule.kind, schedule.cron, schedule.at, schedule.every_seconds, schedule.tz)


def upcoming(schedule: ScheduleState, now: datetime, count: int) -> list[datetime]:
    """Its next runs; none unless it is active."""
    return run_times(timing_of(schedule), now, count) if schedule.state == "active" else []


def run_times(timing: ScheduleTiming, now: datetime, count: int) -> list[datetime]:
    return list(next_runs(**asdict(timing), after=now, count=count))


def locked(
    connection: Connection, group_id: str, schedule_ids: Sequence[UUID]
) -> Mapping[UUID, ScheduleState]:
    """The active ones, locked until the transaction ends, so that nobody pauses one that is being run."""
    which = (ScheduleRow.group_id == group_id, ScheduleRow.schedule_id.in_(schedule_ids))
    query = (
        _SHOWN.where(*which, ScheduleRow.state == "active")
        .order_by(ScheduleRow.schedule_id)
        .with_for_update()
    )
    return {schedule.id: schedule for schedule in fetch(connection, ScheduleState, query)}


def note_runs(
    connection: Connection, group_id: str, runs: Sequence[tuple[UUID, Firing, UUID | None]], now: datetime
) -> None:
    """Note runs, each once, and when the schedules run next."""
    if not runs:
        return
    rows = [
        {
            "id": schedule_id,
            "group": group_id,
            "due": run.due_at,
            "now": now,
            "missed": run.missed,
            "skipped": run.skipped,
            "alert": alert_id,
            "next": run.next_run_at,
            "state": "ended" if run.next_run_at is None else "active",
        }
        for schedule_id, run, alert_id in runs
    ]
    connection.execute(_RAN, rows)
    connection.execute(_NEXT, rows)
    ids = [schedule_id for schedule_id, _, _ in runs]
    connection.execute(_FORGET, {"group": group_id, "ids": ids, "before": now - RUNS_KEPT})


def clear_pending(connection: Connection, group_id: str, schedule_ids: Sequence[UUID]) -> None:
    """They are not due yet: the scan enqueues them again when they are."""
    which = (ScheduleRow.group_id == group_id, ScheduleRow.schedule_id.in_(schedule_ids))
    if schedule_ids:
        connection.execute(update(ScheduleRow).where(*which).values(owed_for=None))


def repair_clock_skew(connection: Connection, now: datetime, limit: int) -> int:
    """Reschedule entries whose last run lies in the future, noted by a wrong clock. Returns how many.

    Past runs stay recorded, and none runs twice for the same time.
    """
    changed = 0
    for row in connection.execute(_AHEAD, {"ahead": now + CLOCK_AHEAD, "limit": limit}).all():
        following = ScheduleTiming(row.kind, row.cron, row.at, row.every_seconds, row.tz).after(now)
        if following is not None and following < row.next_run_at:
            change(connection, row.group_id, row.schedule_id, "active", following)
            changed += 1
    return changed


def known_runs(
    connection: Connection, group_id: str, schedule_ids: Sequence[UUID], since: datetime
) -> set[tuple[UUID, datetime]]:
    """The times from ``since`` on for which these schedules have run."""
    run = ScheduleRun
    which = (run.group_id == group_id, run.schedule_id.in_(schedule_ids), run.due_at >= since)
    rows = connection.execute(select(run.schedule_id, run.due_at).where(*which))
    return {(row.schedule_id, row.due_at) for row in rows}


def enqueue_schedules(connection: Connection, now: datetime, limit: int) -> list[datetime]:
    """Enqueue the runs of schedules that are due until the next scan; returns their times.

    Two scans at once take different rows: neither waits, and neither sees what the other has enqueued.
    """
    return list(connection.execute(_SCHEDULES, {"until": now + AHEAD, "limit": limit}).scalars())


def enqueue_heartbeats(connection: Connection, now: datetime, limit: int) -> list[datetime]:
    """The same for heartbeats."""
    return list(connection.execute(_HEARTBEATS, {"until": now + AHEAD, "limit": limit}).scalars())


_FORGET = text(
    "DELETE FROM schedule_runs WHERE group_id = :group AND schedule_id = ANY(:ids) AND due_at < :before"
)
_AHEAD = text("""
    SELECT schedule_id, group_id, kind, cron, at, every_seconds, tz, next_run_at FROM schedules s
    WHERE state = 'active' AND next_run_at > :ahead AND EXISTS (
        SELECT FROM schedule_runs r WHERE r.schedule_id = s.schedule_id AND r.due_at > :ahead
        AND r.due_at < s.next_run_at
    )
    ORDER BY schedule_id LIMIT :limit FOR UPDATE OF s SKIP LOCKED
""")
_RAN = text("""
    INSERT INTO schedule_runs (schedule_id, due_at, group_id, fired_at, missed, skipped, alert_id)
    VALUES (:id, :due, :group, :now, :missed, :skipped, :alert) ON CONFLICT DO NOTHING
""")
_NEXT = text(
    "UPDATE schedules SET next_run_at = :next, state = :state WHERE group_id = :group AND schedule_id = :id"
)


def _enqueueing(kind: str, table: str, key: str, subject: str, time: str, live: str) -> TextClause:
    """Enqueue the work of rows that are due; work that is pending or in progress keeps its due time."""
    same = " AND ".join(f"t.{column} = due.{column}" for column in key.split(", "))
    return text(f"""
    WITH due AS (
        SELECT {key} FROM {table} WHERE {live} AND {time} <= :until AND owed_for IS DISTINCT FROM {time}
        ORDER BY {time} LIMIT :limit FOR UPDATE SKIP LOCKED
    ), owed AS (
        UPDATE {table} t SET owed_for = {time} FROM due WHERE {same}
        RETURNING t.{subject} AS subject_id, t.group_id, t.{time} AS due_at
    ), work AS (
        INSERT INTO pending_work (kind, subject_id, group_id, due_at)
        SELECT '{kind}', subject_id, group_id, due_at FROM owed ON CONFLICT DO NOTHING
    )
    SELECT due_at FROM owed
""")  # noqa: S608 – no value


_SCHEDULES = _enqueueing(FIRE, "schedules", "schedule_id", "schedule_id", "next_run_at", "state = 'active'")
_HEARTBEATS = _enqueueing(
    HEARTBEAT, "heartbeats", "group_id, agent_id", "agent_key", "next_tick_at", "enabled"
)
