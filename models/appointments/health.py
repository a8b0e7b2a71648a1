"""Memory, heartbeats and growth in numbers at one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from jiyi.protocol.appointments import Health
from jiyi.protocol.base import JsonMapping, JsonObject


def of_group(connection: Connection, group_id: str, agent_id: str | None, now: datetime) -> Health:
    """Of a group, or of one of its agents."""
    row = connection.execute(_GROUP, {"group": group_id, "agent": agent_id, "now": now}).mappings().one()
    return Health(at=now, **_parts(dict(row)))


def of_service(connection: Connection, now: datetime) -> JsonObject:
    """Of the whole service, for the snapshot: heartbeats and growth; memory has its own numbers there."""
    row = connection.execute(_GROUP, {"group": None, "agent": None, "now": now}).mappings().one()
    parts = _parts(dict(row))
    return {"heartbeat": parts["heartbeat"], "growth": parts["growth"]}


def _parts(numbers: JsonMapping) -> dict[str, JsonObject]:
    """``memory_nodes`` → memory: nodes."""
    parts: dict[str, dict[str, Any]] = {"memory": {}, "heartbeat": {}, "growth": {}}
    for name, value in numbers.items():
        part, _, what = name.partition("_")
        parts[part][what] = value
    return parts


# A group of None: all that the scope may see.
_GROUP = text("""
    WITH asked AS (SELECT CAST(:group AS text) AS group_id, CAST(:agent AS text) AS agent_id)
    SELECT
        (SELECT coalesce(sum(a.node_count), 0) FROM agents a, asked
            WHERE (asked.group_id IS NULL OR a.group_id = asked.group_id) AND (asked.agent_id IS NULL OR a.agent_id = asked.agent_id))
            AS memory_nodes,
        (SELECT count(*) FROM pending_work p, asked
            WHERE (asked.group_id IS NULL OR p.group_id = asked.group_id) AND p.due_at <= :now) AS memory_overdue,
        (SELECT count(*) FROM dead_letters d, asked
            WHERE (asked.group_id IS NULL OR d.group_id = asked.group_id) AND d.state = 'open') AS memory_dead_letters,
        (SELECT count(*) FROM heartbeats h, asked WHERE h.enabled
            AND (asked.group_id IS NULL OR h.group_id = asked.group_id) AND (asked.agent_id IS NULL OR h.agent_id = asked.agent_id))
            AS heartbeat_enabled,
        (SELECT CAST(coalesce(max(extract(epoch FROM :now - h.next_tick_at)), 0) AS float8) FROM heartbeats h, asked
            WHERE h.enabled AND h.next_tick_at < :now
            AND (asked.group_id IS NULL OR h.group_id = asked.group_id) AND (asked.agent_id IS NULL OR h.agent_id = asked.agent_id))
            AS heartbeat_late_seconds,
        (SELECT count(*) FROM alerts l, asked WHERE l.acknowledged_at IS NULL
            AND (asked.group_id IS NULL OR l.group_id = asked.group_id) AND (asked.agent_id IS NULL OR l.agent_id = asked.agent_id))
            AS heartbeat_open_alerts,
        (SELECT count(*) FROM schedules s, asked WHERE s.state = 'active'
            AND (asked.group_id IS NULL OR s.group_id = asked.group_id) AND (asked.agent_id IS NULL OR s.agent_id = asked.agent_id))
            AS growth_schedules,
        (SELECT CAST(coalesce(max(extract(epoch FROM :now - s.next_run_at)), 0) AS float8) FROM schedules s, asked
            WHERE s.state = 'active' AND s.next_run_at < :now
            AND (asked.group_id IS NULL OR s.group_id = asked.group_id) AND (asked.agent_id IS NULL OR s.agent_id = asked.agent_id))
            AS growth_schedule_late_seconds,
        (SELECT count(*) FROM schedule_runs r JOIN schedules s USING (schedule_id), asked
            WHERE r.missed AND r.fired_at > :now - interval '1 day'
            AND (asked.group_id IS NULL OR s.group_id = asked.group_id) AND (asked.agent_id IS NULL OR s.agent_id = asked.agent_id))
            AS growth_missed_runs,
        (SELECT count(*) FROM experiences e, asked
            WHERE (asked.group_id IS NULL OR e.group_id = asked.group_id) AND (asked.agent_id IS NULL OR e.agent_id = asked.agent_id))
            AS growth_experiences
""")
