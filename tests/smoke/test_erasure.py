"""An erasure ends complete, whatever dies in its middle."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import text

from jiyi import Client
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from tests.smoke.conftest import Service

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(600)]

#: Half of them are erased, in two batches.
EVENTS = 2_000
PATIENCE_SECONDS = 150.0


def counted(statement: str, group: str) -> int:
    with whole_service(), unit_of_work() as connection:
        return int(connection.execute(text(statement), {"g": group}).scalar_one())


@pytest.mark.long
def test_a_worker_killed_in_the_middle(running: Service, client: Client, group: str) -> None:
    observations = [
        {
            "agent_id": "klaus",
            "description": f"Maria Lopez says {number}" if number % 2 else f"Klaus reads {number}",
            "poignancy": 1,
            "historic": True,
        }
        for number in range(EVENTS)
    ]
    ids = client.observe_many(observations)
    client.wait_for(ids, timeout=120)
    left = "SELECT count(*) FROM memory_nodes WHERE group_id = :g AND description LIKE 'Maria%'"
    assert counted(left, group) == EVENTS / 2
    with whole_service(), unit_of_work() as connection:
        connection.execute(_HOLD, {"id": ids[-1]})  # the last batch has to wait, however late the kill comes
        erasure_id = client.erasure.request(person="Maria Lopez").erasure_id
        deadline = time.monotonic() + PATIENCE_SECONDS
        while counted(left, group) == EVENTS / 2:  # until the first batch is gone
            assert time.monotonic() < deadline
            time.sleep(0.01)
        running.nodes["upkeep"].kill("SIGKILL")
        between = counted(left, group)
    running.nodes["upkeep"].start()
    while (state := client.erasure.get(id=erasure_id)).state != "done":
        assert time.monotonic() < deadline, state
        time.sleep(0.2)
    assert between > 0, "it was killed after the last memory had gone: the fault was not met"
    assert counted(left, group) == 0
    assert state.report is not None
    assert state.report["left"] == 0
    assert state.report["erased"]["memory_nodes"] == EVENTS / 2
    assert counted("SELECT count(*) FROM memory_nodes WHERE group_id = :g", group) == EVENTS / 2


_HOLD = text("SELECT FROM memory_nodes WHERE node_id = :id FOR UPDATE")
