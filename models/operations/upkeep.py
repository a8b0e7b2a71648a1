"""Old rows that nothing needs any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import redis
from sqlalchemy import Connection, Delete, any_, bindparam, column, func, select, text
from sqlalchemy import delete as delete_from
from sqlalchemy import table as table_of

from jiyi.protocol.base import JsonObject
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.valkey import valkey
from models.operations import reads
from models.queue import broker_queues


def count(connection: Connection, table: str, before: datetime) -> int:
    rows = table_of(table).alias("t")
    return int(connection.execute(select(func.count()).select_from(rows).where(text(_OLD[table])), {"before": before}).scalar_one())


def delete(connection: Connection, table: str, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` of them; returns how many.

    Safe to repeat because a row that is gone is not found.
    """
    return connection.execute(_delete(table, _OLD[table]), {"before": before, "limit": limit}).rowcount


#: What may go. An event whose node is missing, or that still owes work or may again (an open dead letter), is the
#: only trace of something: it stays. So does what is left of an erased one, which keeps it from coming back.
_OLD = {
    "events": """
        received_at < :before
        AND outcome <> 'erased'
        AND (outcome <> 'stored' OR EXISTS (SELECT FROM memory_nodes n WHERE n.node_id = t.node_id AND n.group_id = t.group_id))
        AND NOT EXISTS (SELECT FROM pending_work p WHERE p.subject_id = t.event_id AND p.group_id = t.group_id)
        AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.subject_id = t.event_id AND d.group_id = t.group_id AND d.state = 'open')
    """,
    "dead_letters": "state <> 'open' AND resolved_at < :before",
    "retrievals": "asked_at < :before",
    # What a job did last stays, however long ago it was.
    "job_ticks": "slot < :before AND EXISTS (SELECT FROM job_ticks later WHERE later.job = t.job AND later.slot > t.slot)",
}


def _delete(name: str, old: str) -> Delete:
    """ANY(ARRAY(…)): the rows are found once, and then by their places."""
    rows = table_of(name, column("ctid")).alias("t")
    batch = select(rows.c.ctid).where(text(old)).limit(bindparam("limit")).with_for_update()
    return delete_from(table_of(name)).where(column("ctid") == any_(func.array(batch.scalar_subquery())))


def prunes(table: str, old: str, days: int) -> None:
    """Have rows of a subject's table deleted after so many days: those that are ``old``, a condition, at the time ``:before``."""
    _OLD[table], OTHER_AGES[table] = old, days


#: Tables of optional subjects → days after which rows are old.
OTHER_AGES: dict[str, int] = {}

#: Gives numbers of the whole service.
Numbers = Callable[[Connection, datetime], JsonObject]
_NUMBERS: list[Numbers] = []


def in_snapshot(function: Numbers) -> Numbers:
    """Have a subject's numbers told in :func:`stored`, too."""
    _NUMBERS.append(function)
    return function


def stored(connection: Connection) -> JsonObject:
    """What the database knows: pending work by kind, the longest delay in seconds, open dead letters."""
    work = [dict(row) for row in connection.execute(_WORK).mappings()]
    return {
        "owed": {row["kind"]: row["owed"] for row in work},
        "overdue": {row["kind"]: row["overdue"] for row in work if row["overdue"]},
        "lag_seconds": max((row["lag"] for row in work), default=0.0),
        "dead_letters": reads.open_letters(connection),
        **{name: value for numbers in _NUMBERS for name, value in numbers(connection, datetime.now(UTC)).items()},
    }


def queued() -> JsonObject:
    """What broker and Valkey know; nothing where the broker is of another kind, or silent."""
    settings = get_settings()
    address = broker_queues.redis_address(settings.need("broker_url"))
    try:
        counts: dict[str, Any] = {"accesses_buffered": valkey().zcard(valkey_keys.ACCESS)}
        if address is not None:
            depths = broker_queues.depths(address, [settings.intake_queue, *broker_queues.task_queues()])
            counts |= {"queues": depths.waiting, "in_hand": {"intake": depths.intake.count, "tasks": depths.tasks.count}}
    except redis.RedisError as error:
        return {"queues": None, "queues_error": str(error)}
    return counts


_WORK = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= now()) AS overdue,
        CAST(coalesce(extract(epoch FROM max(now() - due_at) FILTER (WHERE due_at <= now())), 0) AS float8) AS lag
    FROM pending_work GROUP BY kind ORDER BY kind
""")
