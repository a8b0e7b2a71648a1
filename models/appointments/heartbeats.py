"""Heartbeats: when agents look after themselves, what they found, and the alerts for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    func,
    insert,
    select,
    text,
    update,
)
from uuid6 import uuid7

from engine.appointments.schedule import (
    AGAIN_AFTER,
    UNSEEN_AFTER,
    HeartbeatFacts,
    QuietHours,
    end_of_quiet_hours,
    findings,
    is_quiet,
    list_items,
    select_findings,
)
from jiyi.protocol.appointments import (
    AlertState,
    Channel,
    HeartbeatConfig,
    HeartbeatState,
    TargetType,
    TickState,
    Urgency,
)
from jiyi.protocol.appointments import QuietHours as Quiet
from jiyi.settings import get_settings
from jiyi.text.words import language_of
from jiyi.zones import zone_of
from models.appointments.tables import Alert, HeartbeatRow, HeartbeatTick
from models.db.connection import CLOCK_AHEAD
from models.db.rows import Record, behind, columns, equal_if_given, fetch, records
from models.growth.identity import current_file
from models.memory.agents import AgentName
from models.memory.tables import Agent
from models.queue import stream

#: Ticks that are kept of each agent: ten days of one every half hour.
KEPT_TICKS = 500
#: Problems that one tick looks at.
PAINS = 3
#: A heartbeat with its agent's time zone.
_TZ = func.coalesce(Agent.settings["tz"].astext, bindparam("tz", callable_=lambda: get_settings().tz))
_OF_AGENT: Select[Any] = select(*HeartbeatRow.__table__.columns, _TZ.label("tz")).join_from(
    HeartbeatRow,
    Agent,
    and_(Agent.group_id == HeartbeatRow.group_id, Agent.agent_id == HeartbeatRow.agent_id),
)
#: Alerts that were acknowledged are kept so long.
SEEN_KEPT = timedelta(days=90)


def find(connection: Connection, name: AgentName, *, lock: bool = False) -> Row[Any] | None:
    """An agent's heartbeat, or None: it was never configured."""
    query = _OF_AGENT.where(*_of(HeartbeatRow, name))
    return connection.execute(query.with_for_update(of=HeartbeatRow) if lock else query).one_or_none()


def heartbeat_page(connection: Connection, group_id: str, after: str, limit: int) -> list[Row[Any]]:
    """A group's heartbeats in the order of their agents, after the one named."""
    which = (HeartbeatRow.group_id == group_id, HeartbeatRow.agent_id > after)
    return list(connection.execute(_OF_AGENT.where(*which).order_by(HeartbeatRow.agent_id).limit(limit)))


def configure(
    connection: Connection, name: AgentName, agent_key: UUID, config: HeartbeatConfig, now: datetime
) -> None:
    """Keep it; a heartbeat that is switched on, or gets another interval, beats first after that interval."""
    current = find(connection, name, lock=True)
    start, end = config.quiet_hours.times if config.quiet_hours else (None, None)
    fields = config.model_dump(exclude={"quiet_hours", "tz"})
    fields |= {"quiet_from": start, "quiet_to": end, "updated_at": now}
    beats = current is not None and current.enabled and current.next_tick_at is not None
    if not config.enabled:
        fields |= {"next_tick_at": None}
    elif current is None or not beats or current.interval_minutes != config.interval_minutes:
        fields |= {"next_tick_at": now + timedelta(minutes=config.interval_minutes), "owed_for": None}
    if current is None:
        row = {"group_id": name[0], "agent_id": name[1], "agent_key": agent_key, **fields}
        connection.execute(insert(HeartbeatRow), row)
    else:
        connection.execute(update(HeartbeatRow).where(*_of(HeartbeatRow, name)).values(**fields))


def config_of(row: Row[Any]) -> HeartbeatConfig:
    quiet = None if row.quiet_from is None else Quiet(start=_clock(row.quiet_from), end=_clock(row.quiet_to))
    fields = {field: getattr(row, field) for field in HeartbeatConfig.model_fields if field != "quiet_hours"}
    return HeartbeatConfig(quiet_hours=quiet, **fields)


def state_of(row: Row[Any], now: datetime, open_alerts: int = 0) -> HeartbeatState:
    return HeartbeatState(
        agent_id=row.agent_id,
        config=config_of(row),
        last_tick_at=row.last_tick_at,
        next_tick_at=row.next_tick_at,
        quiet_now=is_quiet(now, quiet_of(row), zone_of(row.tz)),
        open_alerts=open_alerts,
    )


def quiet_of(row: Row[Any]) -> QuietHours | None:
    return None if row.quiet_from is None else (row.quiet_from, row.quiet_to)


def locked(connection: Connection, group_id: str, agent_keys: Sequence[UUID]) -> list[Row[Any]]:
    """The heartbeats of these agents that are switched on, locked until the transaction ends."""
    which = (HeartbeatRow.group_id == group_id, HeartbeatRow.agent_key.in_(agent_keys), HeartbeatRow.enabled)
    query = _OF_AGENT.where(*which).order_by(HeartbeatRow.agent_id).with_for_update(of=HeartbeatRow)
    return list(connection.execute(query))


def note_tick(
    connection: Connection, name: AgentName, tick: TickState, alerts: int, next_tick_at: datetime | None
) -> None:
    """Note a tick with the number of its alerts, once for each time it was due."""
    whose = {"group": name[0], "agent": name[1]}
    values = {"group_id": name[0], "agent_id": name[1], **tick.model_dump(), "alerts": alerts}
    connection.execute(insert(HeartbeatTick), values)
    connection.execute(_NEXT, {**whose, "next": next_tick_at, "now": tick.ran_at})
    connection.execute(_PRUNE, {**whose, "kept": KEPT_TICKS})


def clear_pending(connection: Connection, name: AgentName) -> None:
    """Its tick is not due yet: the scan enqueues it again when it is."""
    connection.execute(update(HeartbeatRow).where(*_of(HeartbeatRow, name)).values(owed_for=None))


def repair_clock_skew(connection: Connection, now: datetime, limit: int) -> int:
    """Reschedule heartbeats whose last tick lies in the future, noted by a wrong clock. Returns how many."""
    return connection.execute(
        _REPAIR_CLOCK_SKEW, {"now": now, "ahead": now + CLOCK_AHEAD, "limit": limit}
    ).rowcount


def has_ticked(connection: Connection, name: AgentName, due_at: datetime) -> bool:
    which = (*_of(HeartbeatTick, name), HeartbeatTick.due_at == due_at)
    return connection.execute(select(HeartbeatTick.due_at).where(*which)).one_or_none() is not None


def history(connection: Connection, name: AgentName, limit: int) -> list[Record]:
    """The latest ticks first, each with the number of its alerts."""
    query = select(*columns(TickState, HeartbeatTick)).where(*_of(HeartbeatTick, name))
    return records(connection, query.order_by(HeartbeatTick.due_at.desc()).limit(limit))


def facts(connection: Connection, row: Row[Any], now: datetime) -> HeartbeatFacts:
    whose = {"group": row.group_id, "agent": row.agent_id, "key": row.agent_key}
    limits = {"unseen": now - UNSEEN_AFTER, "now": now, "pains": PAINS}
    counts = connection.execute(_FACTS, whose | limits).one()
    return HeartbeatFacts(
        unseen=counts.unseen,
        late_seconds=counts.late,
        dead_letters=counts.dead,
        without_vector=counts.without_vector,
        last_interaction_at=counts.last_turn_at,
        pains=tuple(counts.pains or ()),
        checklist=list_items(current_file(connection, (row.group_id, row.agent_id), "HEARTBEAT").content),
        language=language_of(counts.last_turn or ""),
    )


def _clock(moment: time) -> str:
    return moment.strftime("%H:%M")


def _of(table: Any, name: AgentName) -> tuple[ColumnElement[bool], ...]:
    return table.group_id == name[0], table.agent_id == name[1]


def tick(
    connection: Connection, row: Row[Any], due_at: datetime, now: datetime
) -> tuple[TickState, list[NewAlert]]:
    """Look after everything, and keep what there is to say. Under the lock; publish after commit."""
    name = (row.group_id, row.agent_id)
    all_findings = findings(facts(connection, row, now), now)
    recent_subjects = subjects_since(connection, name, now - AGAIN_AFTER)
    chosen = select_findings(all_findings, row.proactivity, row.max_alerts, recent_subjects)
    zone, quiet = zone_of(row.tz), quiet_of(row)
    new_alerts = [
        NewAlert(
            agent_id=row.agent_id,
            channel=row.channel,
            deliver_at=end_of_quiet_hours(now, quiet, zone),
            **asdict(finding),
        )
        for finding in chosen
    ]
    add(connection, row.group_id, new_alerts, now)
    counts = Counter(finding.source for finding in all_findings)
    state = TickState(
        due_at=due_at,
        ran_at=now,
        status="alert" if new_alerts else "ok",
        quiet=is_quiet(now, quiet, zone),
        checks=dict(counts),
    )
    following = now + timedelta(minutes=row.interval_minutes) if row.enabled else None
    note_tick(connection, name, state, len(new_alerts), following)
    return state, new_alerts


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
    target_type: TargetType | None = None
    target_id: str | None = None
    alert_id: UUID = field(default_factory=uuid7)


def add(connection: Connection, group_id: str, alerts: Sequence[NewAlert], now: datetime) -> None:
    """Keep alerts; those whose time has come are delivered now: publish them after the commit."""
    row = {"group_id": group_id, "created_at": now}
    rows = [
        {**asdict(alert), **row, "delivered_at": now if alert.deliver_at <= now else None} for alert in alerts
    ]
    if rows:
        connection.execute(insert(Alert), rows)
        whose = sorted({alert.agent_id for alert in alerts})
        connection.execute(_FORGET, {"group": group_id, "agents": whose, "before": now - SEEN_KEPT})


def publish_delivered(group_id: str, alerts: Sequence[NewAlert], now: datetime) -> None:
    """Send live events for the alerts that were delivered just now."""
    stream.publish_all(_live_event(group_id, alert) for alert in alerts if alert.deliver_at <= now)


def deliver(connection: Connection, now: datetime, limit: int) -> list[stream.LiveEvent]:
    """Deliver alerts whose quiet hours are over; returns the live events, to be sent after the commit.

    Also those that were made while a clock was ahead: that clock set the end of their quiet hours.
    """
    rows = connection.execute(_DELIVER, {"now": now, "ahead": now + CLOCK_AHEAD, "limit": limit}).all()
    return [_live_event(row.group_id, row) for row in rows]


def alert_page(
    connection: Connection,
    group_id: str,
    agent_id: str | None,
    *,
    limit: int,
    everything: bool = False,
    after: UUID | None = None,
    channel: Channel | None = None,
) -> list[AlertState]:
    """Those delivered and not acknowledged, or all, the newest first; for a channel those for all, too."""
    query = select(*columns(AlertState, Alert, id=Alert.alert_id, timestamp=Alert.created_at))
    query = query.where(Alert.group_id == group_id, *equal_if_given((Alert.agent_id, agent_id)))
    if channel is not None:
        query = query.where(Alert.channel.in_((channel, "all")))
    if not everything:
        query = query.where(Alert.acknowledged_at.is_(None), Alert.delivered_at.is_not(None))
    return fetch(connection, AlertState, behind(query, after, Alert.alert_id).limit(limit))


def acknowledge(connection: Connection, group_id: str, alert_ids: Sequence[UUID], now: datetime) -> int:
    """Note that somebody has seen them; returns how many were open."""
    return connection.execute(_ACKNOWLEDGE, {"group": group_id, "ids": list(alert_ids), "now": now}).rowcount


def subjects_since(connection: Connection, name: AgentName, since: datetime) -> set[tuple[str, str]]:
    """Source and subject of every alert of an agent since then."""
    query = select(Alert.source, Alert.subject).where(*_of(Alert, name), Alert.created_at > since)
    return {(row.source, row.subject) for row in connection.execute(query)}


def _live_event(group_id: str, alert: NewAlert | Row[Any]) -> stream.LiveEvent:
    details = {"id": str(alert.alert_id), "agent": alert.agent_id}
    fields = ("source", "urgency", "channel", "target_type", "target_id")
    details |= {name: value for name in fields if (value := getattr(alert, name)) is not None}
    return group_id, "alert.delivered", details


_REPAIR_CLOCK_SKEW = text("""
    UPDATE heartbeats SET next_tick_at = :now + make_interval(mins => interval_minutes), last_tick_at = NULL,
    owed_for = NULL
    WHERE (group_id, agent_id) IN (
        SELECT group_id, agent_id FROM heartbeats WHERE enabled AND last_tick_at > :ahead
        LIMIT :limit FOR UPDATE SKIP LOCKED
    )
""")
_NEXT = text("""
    UPDATE heartbeats SET next_tick_at = :next, last_tick_at = :now
    WHERE group_id = :group AND agent_id = :agent
""")
_PRUNE = text("""
    DELETE FROM heartbeat_ticks WHERE group_id = :group AND agent_id = :agent AND due_at < (
        SELECT due_at FROM heartbeat_ticks WHERE group_id = :group AND agent_id = :agent
        ORDER BY due_at DESC OFFSET :kept LIMIT 1
    )
""")
_FACTS = text("""
    WITH turn AS (
        SELECT created_at, description FROM memory_nodes
        WHERE group_id = :group AND agent_id = :agent AND kind = 'session' AND provenance ->> 'role' = 'user'
        ORDER BY node_count DESC LIMIT 1
    ), without_vector AS (
        SELECT node_id, stored_at FROM memory_nodes
        WHERE group_id = :group AND agent_id = :agent AND embedding IS NULL AND archived_at IS NULL
        AND stored_at > :now - interval '7 days'
        LIMIT 1000
    )
    SELECT
        (SELECT count(*) FROM alerts WHERE group_id = :group AND agent_id = :agent AND source = 'schedule'
            AND acknowledged_at IS NULL AND delivered_at < :unseen) AS unseen,
        (SELECT count(*) FROM dead_letters d WHERE d.group_id = :group AND d.state = 'open'
        AND (d.subject_id = :key OR EXISTS (
            SELECT FROM memory_nodes n WHERE n.group_id = :group AND n.agent_id = :agent
            AND n.node_id = d.subject_id))) AS dead,
        (SELECT count(*) FROM without_vector) AS without_vector,
        CAST(coalesce((SELECT extract(epoch FROM :now - min(w.stored_at))
        FROM without_vector w), 0) AS float8) AS late,
        (SELECT created_at FROM turn) AS last_turn_at,
        (SELECT description FROM turn) AS last_turn,
        (SELECT array_agg(summary) FROM (
            SELECT summary FROM pain_points WHERE group_id = :group AND agent_id = :agent
            AND status IN ('open', 'proposed')
            ORDER BY last_seen DESC LIMIT :pains) AS latest) AS pains
""")
_DELIVER = text("""
    WITH due AS (
        SELECT alert_id FROM alerts WHERE delivered_at IS NULL AND (deliver_at <= :now OR created_at > :ahead)
        ORDER BY deliver_at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    UPDATE alerts a SET delivered_at = :now FROM due WHERE a.alert_id = due.alert_id
    RETURNING a.*
""")
_FORGET = text(
    "DELETE FROM alerts WHERE group_id = :group AND agent_id = ANY(:agents) AND acknowledged_at < :before"
)
_ACKNOWLEDGE = text("""
    UPDATE alerts SET acknowledged_at = :now, delivered_at = coalesce(delivered_at, :now)
    WHERE group_id = :group AND alert_id = ANY(:ids) AND acknowledged_at IS NULL
""")
