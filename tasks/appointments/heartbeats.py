"""Heartbeats that are due beat: agents look after themselves, and speak up if there is something to say."""

from __future__ import annotations

from datetime import datetime

from models.appointments import heartbeats
from models.appointments.heartbeats import NewAlert
from models.appointments.schedules import AHEAD, HEARTBEAT
from models.db.connection import database_time, unit_of_work
from tasks.framework.work import Batch, work_task

#: Agents that one transaction sees to.
HEARTBEAT_BATCH = 50


@work_task(HEARTBEAT, batch=HEARTBEAT_BATCH, time_limit=60, owed_ahead=AHEAD.total_seconds())
def heartbeat(batch: Batch) -> None:
    """Let agents look after their reminders, memories, open problems and people.

    Safe to repeat because a tick is a row of its agent and time, and that row, the alerts, the next time and the receipt are one
    transaction, which holds the heartbeat's lock.
    """
    with unit_of_work() as connection:
        now = database_time(connection)
    tick_due(batch, now)


def tick_due(batch: Batch, now: datetime) -> None:
    group_id = batch.scope.groups[0]
    told: list[NewAlert] = []
    with batch.finish() as (connection, owed):
        for row in heartbeats.locked(connection, group_id, owed):
            due_at = row.next_tick_at
            if due_at is None or heartbeats.has_ticked(connection, (group_id, row.agent_id), due_at):
                continue
            if due_at > now:  # it was configured anew: the scan owes it when that comes
                heartbeats.clear_owed(connection, (group_id, row.agent_id))
                continue
            told += heartbeats.tick(connection, row, due_at, now)[1]
    heartbeats.publish_delivered(group_id, told, now)
