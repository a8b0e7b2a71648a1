"""Days of an agent's appointments, hour by hour, faster than they pass."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import text

from engine.growth.pains import FoundPain
from jiyi.protocol.appointments import CreateSchedule, HeartbeatConfig, QuietHours
from jiyi.protocol.events import Configuration
from models.appointments import heartbeats, schedule_actions, schedules
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.growth import pains
from models.memory.agents import lock_agents, save_agents
from tasks import appointments
from tasks.framework.jobs import Run
from tasks.framework.work import run_until_idle
from workers import ephemeral

AGENT, TZ = "helper", "Asia/Shanghai"
QUIET = QuietHours(start="22:00", end="08:00")
BEATS, HOUR = 2, timedelta(hours=1)


def keep_time(begun: datetime, days: int) -> dict[str, int]:
    """What the appointments and alerts of some days come to, counted in the service's tables.

    By its own job and tasks, in a database whose only clock is this one. Two beats look at once, hour by
    hour: a reminder every morning at nine, and a heartbeat every two hours that has something to say.
    """
    with ephemeral.folder("jiyi-days-") as home, ephemeral.database(home), ThreadPoolExecutor(BEATS) as beats:
        _plan(begun)
        for hour in range(1, days * 24 + 1):
            list(beats.map(_beat, [begun + hour * HOUR] * BEATS))
        with whole_service(), unit_of_work() as connection:
            return dict(
                connection.execute(_COUNTED, {"tz": TZ, "quiet_from": QUIET.start, "quiet_to": QUIET.end})
                .mappings()
                .one()
            )


def _plan(begun: datetime) -> None:
    """A reminder, a heartbeat and something that hurts, from the first day on."""
    name = ("days", AGENT)
    asked = CreateSchedule(agent_id=AGENT, text="每天早上9点提醒我查房", tz=TZ)
    schedule = schedule_actions.create_schedule.perform(Actor(name[0], "example"), asked).schedule
    assert schedule is not None, "it is as plain as it can be"
    pain = FoundPain(summary="The weekly report is late.", severity="high", turn=0)
    config = HeartbeatConfig(enabled=True, interval_minutes=120, quiet_hours=QUIET, proactivity="autonomous")
    with for_groups(name[0]), unit_of_work() as connection:
        agent = lock_agents(connection, [name])[name]
        agent.configure(Configuration(tz=TZ))
        save_agents(connection, [agent])
        schedules.change(
            connection, name[0], schedule.id, "active", schedules.timing_of(schedule).after(begun)
        )
        pains.merge_pain(
            connection, name, pain, pains.PainReport(source_id=uuid4(), quote=pain.summary, said_at=begun)
        )
        heartbeats.configure(connection, name, agent.agent_key, config, begun)


def _beat(now: datetime) -> None:
    """What a beat and the workers do at a moment."""
    look = Run("due_scan", now)
    with look.scope():
        appointments.due_scan(look)
    run_until_idle(schedules.FIRE, lambda batch: appointments.fire(batch, now))
    run_until_idle(schedules.HEARTBEAT, lambda batch: appointments.tick_due(batch, now))


_COUNTED = text("""
    WITH told AS (SELECT source, subject, (delivered_at AT TIME ZONE :tz)::time AS at FROM alerts)
    SELECT (SELECT count(*) FROM schedule_runs WHERE NOT skipped) AS runs,
        count(*) FILTER (WHERE source = 'schedule') - count(DISTINCT subject) FILTER (WHERE source =
        'schedule') AS fired_twice,
        count(*) FILTER (WHERE source <> 'schedule') AS alerts,
        count(*) FILTER (WHERE source <> 'schedule' AND (at >= CAST(:quiet_from AS time)
        OR at < CAST(:quiet_to AS time)))
            AS alerts_in_quiet_hours
    FROM told
""")
