"""Alerts: what agents tell their people. Each waits until it is delivered, and stays until it is acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, insert, select, text
from uuid6 import uuid7

from jiyi.protocol.appointments import AlertState, Channel, Urgency
from models.appointments.tables import Alert
from models.db.rows import columns, fetch
from models.memory.agents import AgentName
from models.queue import clock, stream

#: Alerts that were acknowledged are kept so long.
SEEN_KEPT = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAlert:
    agent_id: str
    source: str
    title: str
    content: str
    urgency: Urgency
    channel: Channel
    #: Not before: in quiet hours it waits.
    deliver_at: datetime
    subject: str = ""
    alert_id: UUID = field(default_factory=uuid7)


def add(connection: Connection, group_id: str, alerts: Sequence[NewAlert], now: datetime) -> None:
    """Keep alerts; those whose time has come are delivered with this transaction. Tell of them after the commit."""
    rows = [
        {**asdict(alert), "group_id": group_id, "created_at": now, "delivered_at": now if alert.deliver_at <= now else None}
        for alert in alerts
    ]
    if rows:
        connection.execute(insert(Alert), rows)
        whose = sorted({alert.agent_id for alert in alerts})
        connection.execute(_FORGET, {"group": group_id, "agents": whose, "before": now - SEEN_KEPT})


def publish_delivered(group_id: str, alerts: Sequence[NewAlert], now: datetime) -> None:
    """Tell those who watch of what was delivered just now."""
    stream.publish_all(
        _news(group_id, alert.alert_id, alert.agent_id, alert.source, alert.urgency) for alert in alerts if alert.deliver_at <= now
    )


def deliver(connection: Connection, now: datetime, limit: int) -> list[stream.News]:
    """Deliver alerts whose quiet hours are over; returns the news, to be told after the commit.

    Also those that were made while a clock was ahead: when their quiet hours end was told by that clock.
    """
    rows = connection.execute(_DELIVER, {"now": now, "ahead": now + clock.AHEAD, "limit": limit}).all()
    return [_news(row.group_id, row.alert_id, row.agent_id, row.source, row.urgency) for row in rows]


def alert_page(
    connection: Connection, group_id: str, agent_id: str | None, *, everything: bool, after: UUID | None, limit: int
) -> list[AlertState]:
    """Alerts that were delivered and not acknowledged, or all, the newest first."""
    query = select(*columns(AlertState, Alert, id=Alert.alert_id, timestamp=Alert.created_at)).where(Alert.group_id == group_id)
    query = query.order_by(Alert.alert_id.desc()).limit(limit)
    if agent_id is not None:
        query = query.where(Alert.agent_id == agent_id)
    if not everything:
        query = query.where(Alert.acknowledged_at.is_(None), Alert.delivered_at.is_not(None))
    if after is not None:
        query = query.where(Alert.alert_id < after)
    return fetch(connection, AlertState, query)


def acknowledge(connection: Connection, group_id: str, alert_ids: Sequence[UUID], now: datetime) -> int:
    """Note that somebody has seen them; returns how many were open."""
    return connection.execute(_ACKNOWLEDGE, {"group": group_id, "ids": list(alert_ids), "now": now}).rowcount


def subjects_since(connection: Connection, name: AgentName, since: datetime) -> set[tuple[str, str]]:
    """Source and subject of every alert of an agent since then."""
    whose = (Alert.group_id == name[0], Alert.agent_id == name[1], Alert.created_at > since)
    return {(row.source, row.subject) for row in connection.execute(select(Alert.source, Alert.subject).where(*whose))}


def _news(group_id: str, alert_id: UUID, agent_id: str, source: str, urgency: str) -> stream.News:
    return group_id, "alert.delivered", {"id": str(alert_id), "agent": agent_id, "source": source, "urgency": urgency}


_DELIVER = text("""
    WITH due AS (
        SELECT alert_id FROM alerts WHERE delivered_at IS NULL AND (deliver_at <= :now OR created_at > :ahead)
        ORDER BY deliver_at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    UPDATE alerts a SET delivered_at = :now FROM due WHERE a.alert_id = due.alert_id
    RETURNING a.alert_id, a.group_id, a.agent_id, a.source, a.urgency
""")
_FORGET = text("DELETE FROM alerts WHERE group_id = :group AND agent_id = ANY(:agents) AND acknowledged_at < :before")
_ACKNOWLEDGE = text("""
    UPDATE alerts SET acknowledged_at = :now, delivered_at = coalesce(delivered_at, :now)
    WHERE group_id = :group AND alert_id = ANY(:ids) AND acknowledged_at IS NULL
""")
