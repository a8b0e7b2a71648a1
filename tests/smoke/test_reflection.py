"""A worker that dies in the middle of a reflection leaves nothing half: in the end there is one set of
thoughts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from jiyi import Client
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from tests.smoke.conftest import Service
from tests.smoke.nodes import ProcessNode
from workers.procfile import commands

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(600)]

AGENTS = ("klaus", "林岚", "maria")
EVENTS = 12
#: A chapter a day: how far they came is a thought.
FIRST = datetime(2026, 3, 3, tzinfo=UTC)
SECONDS = 120

#: The worker as it is, but that it dies …
START = (
    "import os, sys; sys.argv[0] = 'celery'; import tasks.reflection as r; {fault}; from celery.__main__"
    " import main; main()"
)
FAULTS = {
    # … before the second answer of the LLM,
    "asking": (
        "asked = []; real = r.LeaseRenewingLLM.ask; r.LeaseRenewingLLM.ask = lambda self, q:"
        " (asked.append(q), os.kill(os.getpid(), 9) if len(asked) > 1 else 0, real(self, q))[-1]"
    ),
    # … with all thoughts written and not committed,
    "writing": (
        "real = r.store; r.store = lambda *told, **more: (real(*told, **more), os.kill(os.getpid(), 9))[0]"
    ),
    # … with all committed and nobody told.
    "committed": "r.note_accesses = lambda *told: os.kill(os.getpid(), 9)",
}


@pytest.fixture
def worker(running: Service) -> Iterator[ProcessNode]:
    """The worker of the queue of reflections, stopped."""
    node = running.nodes["reflection"]
    node.kill("SIGTERM")
    yield node
    running.ensure_running()


def test_a_worker_killed_in_the_middle_leaves_one_set_of_thoughts_each(
    running: Service, client: Client, group: str, worker: ProcessNode
) -> None:
    lives = [
        {
            "agent_id": agent,
            "description": f"{agent} reads chapter {n + 1} of the long book about boats",
            "occurred_at": FIRST + timedelta(days=n),
            "poignancy": 5,
        }
        for agent in AGENTS
        for n in range(EVENTS)
    ]
    client.observe_many(lives, wait=True, timeout=SECONDS)
    _nothing_owed(group)
    asked = [client.reflect(agent, wait=False).reflection_id for agent in AGENTS]
    for fault in FAULTS.values():
        worker.start(command=[sys.executable, "-c", START.format(fault=fault), *commands()["reflection"][3:]])
        worker.wait_until_dead(SECONDS)
    worker.start()
    deadline = time.monotonic() + SECONDS
    while not all(client.reflection.get(id=reflection_id).final for reflection_id in asked):
        assert time.monotonic() < deadline, worker.logs()
        time.sleep(0.2)
    _nothing_owed(group)
    with for_groups(group), unit_of_work() as connection:
        found = connection.execute(_THOUGHTS, {"g": group}).all()
        rows = connection.execute(_REFLECTIONS, {"g": group}).all()
        agents = connection.execute(_AGENTS, {"g": group}).all()
        letters = connection.execute(_LETTERS, {"g": group}).scalar_one()
    assert sorted(row.agent_id for row in rows) == sorted(AGENTS)
    assert {row.state for row in rows} == {"done"}
    assert (
        sum(row.attempts for row in rows) >= len(AGENTS) + 2
    )  # two of the deaths left a reflection unfinished
    assert {(row.agent_id, row.thoughts) for row in rows} == {(row.agent_id, row.thoughts) for row in found}
    assert all(row.thoughts and row.thoughts == row.different for row in found)
    assert {(row.importance_trigger_curr, row.importance_ele_n) for row in agents} == {
        (get_settings().agent_defaults.importance_trigger_max, 0)
    }
    assert letters == 0


def _nothing_owed(group: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with for_groups(group), unit_of_work() as connection:
            owed = (
                connection.execute(text("SELECT kind FROM pending_work WHERE group_id = :g"), {"g": group})
                .scalars()
                .all()
            )
        if not owed:
            return
        assert time.monotonic() < deadline, owed
        time.sleep(0.1)


_THOUGHTS = text("""
    SELECT agent_id, count(*) AS thoughts, count(DISTINCT description) AS different FROM memory_nodes
    WHERE group_id = :g AND type = 'thought' GROUP BY agent_id
""")
_REFLECTIONS = text("SELECT agent_id, state, attempts, thoughts FROM reflections WHERE group_id = :g")
_AGENTS = text("SELECT importance_trigger_curr, importance_ele_n FROM agents WHERE group_id = :g")
_LETTERS = text("SELECT count(*) FROM dead_letters WHERE group_id = :g")
