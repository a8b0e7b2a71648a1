"""The service in numbers at one moment, for plots and for looking back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import redis
from sqlalchemy import Connection, text

from jiyi.protocol.wire.json_values import JsonObject
from jiyi.settings import get_settings
from models.appointments import health
from models.db import valkey_keys
from models.db.valkey import valkey
from models.operations import reads
from models.queue import broker_queues


def stored(connection: Connection) -> JsonObject:
    """What the database knows: pending work by kind, the longest delay in seconds, open dead letters."""
    work = [dict(row) for row in connection.execute(_WORK).mappings()]
    return {
        "owed": {row["kind"]: row["owed"] for row in work},
        "overdue": {row["kind"]: row["overdue"] for row in work if row["overdue"]},
        "lag_seconds": max((row["lag"] for row in work), default=0.0),
        "dead_letters": reads.open_letters(connection),
        **health.of_service(connection, datetime.now(UTC)),
    }


def queued() -> JsonObject:
    """What broker and Valkey know; nothing where the broker is of another kind, or silent."""
    settings = get_settings()
    address = broker_queues.redis_address(settings.need("broker_url"))
    try:
        found: dict[str, Any] = {"accesses_buffered": valkey().zcard(valkey_keys.ACCESS)}
        if address is not None:
            depths = broker_queues.depths(address, [settings.intake_queue, *broker_queues.task_queues()])
            found |= {"queues": depths.waiting, "in_hand": {"intake": depths.intake.count, "tasks": depths.tasks.count}}
    except redis.RedisError as error:
        return {"queues": None, "queues_error": str(error)}
    return found


_WORK = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= now()) AS overdue,
        CAST(coalesce(extract(epoch FROM max(now() - due_at) FILTER (WHERE due_at <= now())), 0) AS float8) AS lag
    FROM pending_work GROUP BY kind ORDER BY kind
""")
