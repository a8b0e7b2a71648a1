"""Actions on heartbeats, alerts and the snapshot of an agent's health."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, text

from jiyi.errors import InvalidRequest
from jiyi.protocol.appointments import (
    AlertState,
    ConfigureHeartbeat,
    Health,
    HealthRequest,
    HeartbeatConfig,
    HeartbeatState,
    ListAlerts,
    TickState,
)
from jiyi.protocol.base import BY_ID, ByIds, Count, JsonObject, OfAgent, Rows
from jiyi.protocol.events import Configuration
from models.appointments import heartbeats
from models.db.actions import Context, action
from models.db.rows import page
from models.memory import agents
from models.memory.agents import AgentName, belonging
from models.operations.numbers import in_snapshot

#: Open alerts that a state counts at most.
COUNTED = 500


@action("heartbeats.configure")
def configure_heartbeat(context: Context, request: ConfigureHeartbeat) -> HeartbeatState:
    """Configure an agent's heartbeat.

    Only what is given changes: whether it is on (it beats first when its interval is over), interval, quiet
    hours (null: none), time zone (the agent's), channel, how forward it is, alerts of a tick.
    """
    changes = request.model_dump(exclude_none=True, exclude={"agent_id"})
    if changes.get("quiet_hours") == "off":
        changes["quiet_hours"] = None
    return _configured(context, request.agent_id, changes)


@action("heartbeats.tick")
def tick_heartbeat(context: Context, request: OfAgent) -> TickState:
    """Have an agent look after itself now.

    As at its interval: quiet hours hold, and no alert is raised twice in a day.
    """
    name, now = (context.group_id, request.agent_id), datetime.now(UTC)
    agents.lock_agents(context.connection, [name])  # which is made if there is none
    row = heartbeats.find(context.connection, name, lock=True)
    if row is None:
        problem = f"{request.agent_id!r} has no heartbeat; configure or enable it first"
        raise InvalidRequest([f"agent_id: {problem}"])
    tick, new_alerts = heartbeats.tick(context.connection, row, now, now)
    context.audit(request.agent_id, alerts=len(new_alerts))
    context.after_commit(partial(heartbeats.publish_delivered, context.group_id, new_alerts, now))
    alerts = heartbeats.alert_page(context.connection, *name, everything=True, limit=max(1, len(new_alerts)))
    ids = {new.alert_id for new in new_alerts}
    return tick.model_copy(update={"alerts": [alert for alert in alerts if alert.id in ids]})


@action("heartbeats.status")
def heartbeat_status(context: Context, request: OfAgent) -> HeartbeatState:
    """Get the state of an agent's heartbeat.

    Its last and next tick, whether it is quiet now, and the number of open alerts.
    """
    name = agents.known_agent(context.connection, context.group_id, request.agent_id)
    return _state(context.connection, name, datetime.now(UTC))


@action("heartbeats.alerts")
def heartbeat_alerts(context: Context, request: ListAlerts) -> Rows[AlertState]:
    """List alerts, the newest first.

    Those that were delivered and not acknowledged, reminders among them; or everything.
    """
    rows = heartbeats.alert_page(
        context.connection,
        context.group_id,
        request.agent_id,
        everything=request.everything,
        after=request.place(BY_ID),
        limit=request.limit + 1,
        channel=request.channel,
    )
    return page(rows, request.limit, lambda last: last.id)


@action("heartbeats.acknowledge")
def acknowledge_alerts(context: Context, request: ByIds) -> Count:
    """Acknowledge alerts.

    They are no longer shown; those that are not open are passed over.
    """
    count = heartbeats.acknowledge(context.connection, context.group_id, request.ids, datetime.now(UTC))
    context.audit(str(request.ids[0]), alerts=count)
    return Count(count=count)


@action("health.snapshot")
def health_snapshot(context: Context, request: HealthRequest) -> Health:
    """Get the health of memory, heartbeats and growth.

    Of the group, or of one agent: everything in one response.
    """
    if request.agent_id is not None:
        agents.known_agent(context.connection, context.group_id, request.agent_id)
    now = datetime.now(UTC)
    return Health(at=now, **_health(context.connection, context.group_id, request.agent_id, now))


def _configured(context: Context, agent_id: str, changes: JsonObject) -> HeartbeatState:
    name, now = (context.group_id, agent_id), datetime.now(UTC)
    agent = agents.lock_agents(context.connection, [name])[name]
    if "tz" in changes:
        agent.configure(Configuration.model_validate({"tz": changes["tz"]}))
        agents.save_agents(context.connection, [agent])
    row = heartbeats.find(context.connection, name, lock=True)
    if row is None:
        before = HeartbeatConfig(tz=agents.time_zone(context.connection, *name))
    else:
        before = heartbeats.config_of(row)
    config = HeartbeatConfig.model_validate({**before.model_dump(), **changes})
    heartbeats.configure(context.connection, name, agent.agent_key, config, now)
    context.audit(agent_id, **config.model_dump(mode="json"))
    return _state(context.connection, name, now)


def _state(connection: Connection, name: AgentName, now: datetime) -> HeartbeatState:
    row = heartbeats.find(connection, name)
    waiting = len(heartbeats.alert_page(connection, *name, limit=COUNTED))
    if row is None:
        return HeartbeatState(agent_id=name[1], config=HeartbeatConfig(), open_alerts=waiting)
    return heartbeats.state_of(row, now, waiting)


def of_service(connection: Connection, now: datetime) -> JsonObject:
    """Of the whole service, for the snapshot: heartbeats and growth; memory has its own numbers there."""
    parts = _health(connection, None, None, now)
    return {"heartbeat": parts["heartbeat"], "growth": parts["growth"]}


def _health(
    connection: Connection, group_id: str | None, agent_id: str | None, now: datetime
) -> dict[str, JsonObject]:
    """``memory_nodes`` → memory: nodes. Of a group, of one of its agents, or (None) of all."""
    row = connection.execute(_GROUP, {"group": group_id, "agent": agent_id, "now": now}).mappings().one()
    parts: dict[str, dict[str, Any]] = {"memory": {}, "heartbeat": {}, "growth": {}}
    for name, value in row.items():
        part, _, what = name.partition("_")
        parts[part][what] = value
    return parts


def _its(alias: str) -> str:
    """The group's rows of a table (None: all that the scope may see); with an agent, that one's."""
    return f"""(asked.group_id IS NULL OR {alias}.group_id = asked.group_id)
            AND (asked.agent_id IS NULL OR {alias}.agent_id = asked.agent_id)"""


def _its_subjects(alias: str) -> str:
    """The group's rows by their subject, an agent or a memory; with an agent, that one's."""
    return f"""(asked.group_id IS NULL OR {alias}.group_id = asked.group_id)
            AND (asked.agent_id IS NULL OR {alias}.subject_id IN (SELECT id FROM its))
    """  # noqa: S608 – no value


_GROUP = text(f"""
    WITH asked AS (SELECT CAST(:group AS text) AS group_id, CAST(:agent AS text) AS agent_id), its AS (
        SELECT a.agent_key AS id FROM agents a, asked WHERE a.group_id = asked.group_id
        AND a.agent_id = asked.agent_id
        UNION ALL SELECT n.node_id FROM memory_nodes n, asked WHERE n.group_id = asked.group_id
        AND n.agent_id = asked.agent_id
    )
    SELECT
        (SELECT coalesce(sum(a.node_count), 0) FROM agents a, asked WHERE {_its("a")}) AS memory_nodes,
        (SELECT count(*) FROM pending_work p, asked WHERE p.due_at <= :now AND {_its_subjects("p")})
            AS memory_overdue,
        (SELECT count(*) FROM dead_letters d, asked WHERE d.state = 'open' AND {_its_subjects("d")})
            AS memory_dead_letters,
        (SELECT count(*) FROM heartbeats h, asked WHERE h.enabled AND {_its("h")}) AS heartbeat_enabled,
        (SELECT CAST(coalesce(max(extract(epoch FROM :now - h.next_tick_at)), 0) AS float8)
            FROM heartbeats h, asked WHERE h.enabled AND h.next_tick_at < :now AND {_its("h")})
            AS heartbeat_late_seconds,
        (SELECT count(*) FROM alerts l, asked WHERE l.acknowledged_at IS NULL AND {_its("l")})
            AS heartbeat_open_alerts,
        (SELECT count(*) FROM schedules s, asked WHERE s.state = 'active' AND {_its("s")})
            AS growth_schedules,
        (SELECT CAST(coalesce(max(extract(epoch FROM :now - s.next_run_at)), 0) AS float8)
            FROM schedules s, asked WHERE s.state = 'active' AND s.next_run_at < :now AND {_its("s")})
            AS growth_schedule_late_seconds,
        (SELECT count(*) FROM schedule_runs r JOIN schedules s USING (schedule_id), asked
            WHERE r.missed AND r.fired_at > :now - interval '1 day' AND {_its("s")}) AS growth_missed_runs,
        (SELECT count(*) FROM experiences e, asked WHERE {_its("e")}) AS growth_experiences
""")  # noqa: S608 – no value


belonging("heartbeats", "SELECT FROM heartbeats WHERE group_id = :group AND agent_id = :agent")
in_snapshot(of_service)
