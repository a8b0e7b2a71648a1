"""Whose time has come: schedules and heartbeats that are due are owed as work, each once for each time (design §3)."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

#: Kinds of work: a schedule by its id, a heartbeat by its agent's key.
FIRE, HEARTBEAT = "fire_schedule", "heartbeat"
#: What gets due until the next scan is owed ahead, for its minute: whoever is due waits for no scan.
AHEAD = timedelta(seconds=60)


def owe_schedules(connection: Connection, now: datetime, limit: int) -> list[datetime]:
    """Owe the runs of schedules that are due until the next scan; returns their times.

    Two scans at once take different rows: none waits, and what one has owed the other does not see again.
    """
    return list(connection.execute(_SCHEDULES, {"kind": FIRE, "until": now + AHEAD, "limit": limit}).scalars())


def owe_heartbeats(connection: Connection, now: datetime, limit: int) -> list[datetime]:
    """The same for heartbeats."""
    return list(connection.execute(_HEARTBEATS, {"kind": HEARTBEAT, "until": now + AHEAD, "limit": limit}).scalars())


def count_due(connection: Connection, now: datetime) -> tuple[int, int]:
    """How many schedules and heartbeats would be owed."""
    row = connection.execute(_COUNT, {"until": now + AHEAD}).one()
    return row.schedules, row.heartbeats


# A time that is owed already, and being worked at, is due no sooner.
_SCHEDULES = text("""
    WITH due AS (
        SELECT schedule_id FROM schedules
        WHERE state = 'active' AND next_run_at <= :until AND owed_for IS DISTINCT FROM next_run_at
        ORDER BY next_run_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ), owed AS (
        UPDATE schedules s SET owed_for = next_run_at FROM due WHERE s.schedule_id = due.schedule_id
        RETURNING s.schedule_id, s.group_id, s.next_run_at
    ), work AS (
        INSERT INTO pending_work (kind, subject_id, group_id, due_at)
        SELECT CAST(:kind AS text), schedule_id, group_id, next_run_at FROM owed ON CONFLICT DO NOTHING
    )
    SELECT next_run_at FROM owed
""")
_HEARTBEATS = text("""
    WITH due AS (
        SELECT group_id, agent_id FROM heartbeats
        WHERE enabled AND next_tick_at <= :until AND owed_for IS DISTINCT FROM next_tick_at
        ORDER BY next_tick_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ), owed AS (
        UPDATE heartbeats h SET owed_for = next_tick_at FROM due WHERE h.group_id = due.group_id AND h.agent_id = due.agent_id
        RETURNING h.agent_key, h.group_id, h.next_tick_at
    ), work AS (
        INSERT INTO pending_work (kind, subject_id, group_id, due_at)
        SELECT CAST(:kind AS text), agent_key, group_id, next_tick_at FROM owed ON CONFLICT DO NOTHING
    )
    SELECT next_tick_at FROM owed
""")
_COUNT = text("""
    SELECT
        (SELECT count(*) FROM schedules WHERE state = 'active' AND next_run_at <= :until AND owed_for IS DISTINCT FROM next_run_at)
            AS schedules,
        (SELECT count(*) FROM heartbeats WHERE enabled AND next_tick_at <= :until AND owed_for IS DISTINCT FROM next_tick_at)
            AS heartbeats
""")
