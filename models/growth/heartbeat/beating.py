"""One tick of a heartbeat: what the checks find becomes alerts, which wait in quiet hours."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from engine.appointments.heartbeat import AGAIN_AFTER, findings, is_quiet, loud_from, to_tell
from jiyi.protocol.appointments.cron import zone_of
from jiyi.protocol.appointments.heartbeats import TickState
from models.growth.heartbeat import alerts, heartbeats
from models.growth.heartbeat.alerts import NewAlert


def tick(connection: Connection, row: Row[Any], due_at: datetime, now: datetime) -> tuple[TickState, list[NewAlert]]:
    """Look after everything, and keep what there is to say. Call it under the heartbeat's lock; tell of the alerts after the commit."""
    name = (row.group_id, row.agent_id)
    found = findings(heartbeats.facts(connection, row, now), now)
    told = alerts.told_since(connection, name, now - AGAIN_AFTER)
    chosen = to_tell(found, row.proactivity, row.max_alerts, told)
    zone, quiet = zone_of(row.tz), heartbeats.quiet_of(row)
    made = [
        NewAlert(
            agent_id=row.agent_id,
            source=one.source,
            subject=one.subject,
            title=one.title,
            content=one.content,
            urgency=one.urgency,
            channel=row.channel,
            deliver_at=loud_from(now, quiet, zone),
        )
        for one in chosen
    ]
    alerts.add(connection, row.group_id, made, now)
    counts: dict[str, int] = {}
    for one in found:
        counts[one.source] = counts.get(one.source, 0) + 1
    state = TickState(
        due_at=due_at, ran_at=now, status="alert" if made else "ok", alerts=len(made), quiet=is_quiet(now, quiet, zone), checks=counts
    )
    corrections = [one.subject for one in chosen if one.source == "corrections"]
    following = now + timedelta(minutes=row.interval_minutes) if row.enabled else None
    heartbeats.ticked(connection, name, state, following, corrections)
    return state, made
