"""A worker that is killed while it keeps appointments, or while agents look after themselves, does each thing
once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from jiyi import Client
from models.appointments.schedules import FIRE, HEARTBEAT, enqueue_heartbeats, enqueue_schedules
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.queue.wakeups import wake
from tests.smoke.conftest import Service
from tests.smoke.nodes import ProcessNode
from workers.procfile import commands

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(600)]

SCHEDULES, AGENTS = 20, ("小伴", "helper", "maria")
SECONDS = 120

#: The worker as it is, but that it dies …
START = (
    "import os, sys; sys.argv[0] = 'celery'; import tasks.appointments as s; die = lambda: "
    "os.kill(os.getpid(), 9); {fault}; from celery.__main__ import main; main()"
)
FAULTS = {
    # … with all runs written and not committed,
    "firing": "real = s.schedules.note_runs; s.schedules.note_runs = lambda *given: (real(*given), die())",
    # … with one tick written and not committed,
    "beating": "real = s.heartbeats.tick; s.heartbeats.tick = lambda *given: (real(*given), die())",
    # … with all committed and nobody told.
    "told": "s.heartbeats.publish_delivered = lambda group, told, now: die() if told else None",
}


@pytest.fixture
def worker(running: Service) -> Iterator[ProcessNode]:
    """The worker of the queue of growth, stopped."""
    node = running.nodes["growth"]
    node.kill("SIGTERM")
    yield node
    running.ensure_running()


def test_a_worker_killed_anywhere_keeps_each_appointment_once(
    running: Service, client: Client, group: str, worker: ProcessNode
) -> None:
    far = "晚上9点" if datetime.now(UTC).hour < 15 else "早上9点"  # so that none is due again before the end
    for number in range(SCHEDULES):
        client.within(SECONDS).appointments.ask(agent_id=AGENTS[0], text=f"每天{far}提醒我查房{number}")
    for agent in AGENTS:
        client.command("heartbeats.configure", SECONDS, agent_id=agent, enabled=True, quiet_hours=None)
        client.command("pains.report", SECONDS, agent_id=agent, summary="The kiln never gets hot.")
    for name, fault in FAULTS.items():
        if (
            name in _DUE
        ):  # not before: what is due is done in any order, and a worker dies of its own fault only
            _make_due(name, group)
        worker.start(command=[sys.executable, "-c", START.format(fault=fault), *commands()["growth"][3:]])
        wake(FIRE, HEARTBEAT)
        worker.wait_until_dead(SECONDS)
    worker.start()
    _nothing_due(group, worker)
    with for_groups(group), unit_of_work() as connection:
        found = connection.execute(_FOUND, {"group": group}).one()
    assert (found.runs, found.reminders) == (SCHEDULES, SCHEDULES)
    assert (found.ticks, found.told) == (len(AGENTS), len(AGENTS))
    assert found.letters == 0


def _make_due(name: str, group: str) -> None:
    """All appointments, or all heartbeats, now."""
    now = datetime.now(UTC)
    with whole_service(), unit_of_work() as connection:
        connection.execute(_DUE[name], {"group": group, "due": now - timedelta(seconds=1)})
        if name == "firing":
            enqueue_schedules(connection, now, SCHEDULES)
        else:
            enqueue_heartbeats(connection, now, len(AGENTS))


def _nothing_due(group: str, worker: ProcessNode) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with for_groups(group), unit_of_work() as connection:
            owed = connection.execute(_OWED, {"group": group}).scalars().all()
        if not owed:
            return
        assert time.monotonic() < deadline, (owed, worker.logs())
        time.sleep(0.2)


_DUE = {
    "firing": text("UPDATE schedules SET next_run_at = :due, owed_for = NULL WHERE group_id = :group"),
    "beating": text("UPDATE heartbeats SET next_tick_at = :due, owed_for = NULL WHERE group_id = :group"),
}
_OWED = text(
    "SELECT kind FROM pending_work WHERE group_id = :group AND kind IN ('fire_schedule', 'heartbeat')"
)
_FOUND = text("""
    SELECT (SELECT count(*) FROM schedule_runs WHERE group_id = :group) AS runs,
        (SELECT count(*) FROM alerts WHERE group_id = :group AND source = 'schedule') AS reminders,
        (SELECT count(*) FROM heartbeat_ticks WHERE group_id = :group) AS ticks,
        (SELECT count(*) FROM alerts WHERE group_id = :group AND source = 'pain') AS told,
        (SELECT count(*) FROM dead_letters WHERE group_id = :group) AS letters
""")
