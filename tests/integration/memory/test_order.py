"""Several intakes, killed and started again, keep the order of each agent's events."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest
from sqlalchemy import text

from jiyi import Client
from jiyi.protocol import events
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from tests.integration.waiting import until
from workers import ephemeral
from workers.embedded.stack import Stack
from workers.ephemeral import environment

#: Not the one that the tests of the running service use.
OWN_DATABASE = 11
AGENTS = 20
#: Events of a message, small beside a batch of the intake: so that there are many batches.
EVENTS_A_MESSAGE = 4
_STORED = text("SELECT count(*) FROM memory_nodes WHERE group_id = :group")
_ORDER = text(
    "SELECT agent_id, description FROM memory_nodes WHERE group_id = :group ORDER BY agent_id, node_count"
)


@pytest.mark.parametrize(
    ("count", "kills"),
    [(3_000, 2), pytest.param(100_000, 6, marks=[pytest.mark.long, pytest.mark.timeout(570)])],
    ids=["few", "many"],
)
def test_two_intakes_keep_the_order_of_each_agent_while_they_are_killed(
    database: Stack, group: str, tmp_path: Path, count: int, kills: int
) -> None:
    urls = {name: getattr(database.urls, name) for name in ("redis_url", "broker_url")}
    own = {name: re.sub(r"(db|virtual_host)=0", rf"\1={OWN_DATABASE}", url) for name, url in urls.items()}
    made = [
        events.build(
            {
                "type": "memory.observed",
                "group_id": group,
                "agent_id": f"agent-{number % AGENTS}",
                "payload": {"description": f"{number // AGENTS}", "poignancy": 1, "historic": True},
            }
        )
        for number in range(count)
    ]

    def publish() -> None:
        with Client(group) as client:
            for start in range(0, count, EVENTS_A_MESSAGE):
                client.observe_many(made[start : start + EVENTS_A_MESSAGE])

    def stored() -> int:
        with for_groups(group), unit_of_work() as connection:
            return int(connection.execute(_STORED, {"group": group}).scalar_one())

    with environment(**own, retrieval_shards="2"), ExitStack() as running:
        intakes = [
            running.enter_context(ephemeral.processes(tmp_path / name, ["intake"]))["intake"]
            for name in ("0", "1")
        ]
        publisher = threading.Thread(target=publish)
        publisher.start()
        for kill, place in zip(range(kills), cycle(range(2)), strict=False):
            least = count * (kill + 1) // (kills + 2)
            until(lambda least=least: stored() >= least, seconds=500)  # type: ignore[misc]
            intakes[place].kill()
            intakes[place] = running.enter_context(
                ephemeral.processes(tmp_path / f"{place}-{kill}", ["intake"])
            )["intake"]
        publisher.join()
        until(lambda: stored() >= count, seconds=500)
    with for_groups(group), unit_of_work() as connection:
        order: dict[str, list[int]] = {}
        for agent, description in connection.execute(_ORDER, {"group": group}):
            order.setdefault(agent, []).append(int(description))
    assert order == {f"agent-{number}": list(range(count // AGENTS)) for number in range(AGENTS)}
