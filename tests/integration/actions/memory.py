"""Cases of the actions on memories and agents."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import text

from jiyi.protocol.base import ByIds
from jiyi.protocol.memory import ConfigureAgent, RateMemories, RestoreRequest
from jiyi.protocol.recall import AddMemory, ReinstateMemory, UpdateMemory
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import archive
from tests.integration.actions.cases import Case
from tests.integration.memory.test_inbox import observed, rows, save

AGENT = "阿宁"
SINCE = "2026-03-02T07:15:00+00:00"


def remembered(group: str) -> str:
    """The id of a memory."""
    event = observed(group, "窑温一千二百度", AGENT)
    save(event)
    return str(event.event_id)


def superseded(group: str) -> str:
    """The id of a memory that a newer one has taken the place of."""
    made = remembered(group)
    archive.update_memory.perform(
        Actor(group, "test"), UpdateMemory(id=UUID(made), description="窑温一千三百度")
    )
    return made


def configured(group: str) -> str:
    """An agent with a setting of its own."""
    remembered(group)
    archive.configure.perform(Actor(group, "test"), ConfigureAgent(agent_id=AGENT, mode="elapsed"))
    return AGENT


def archived(group: str) -> str:
    """The id of an archived memory."""
    made = remembered(group)
    archive.archive.perform(Actor(group, "test"), ByIds(ids=[made]))
    return made


def expired(group: str) -> str:
    """The id of an archived memory whose expiry has passed."""
    made = archived(group)
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE memory_nodes SET expires_at = now() - interval '1 day' WHERE group_id = :g"),
            {"g": group},
        )
    return made


def settings(group: str, _made: Any) -> list[Any]:
    agents = rows("SELECT settings FROM agents WHERE group_id = :g", g=group)
    events = rows(
        "SELECT payload, outcome FROM events WHERE group_id = :g AND type = 'agent.configured' ORDER BY"
        " position",
        g=group,
    )
    return [*agents, *events]


def with_settings(name: str, given: dict[str, Any], typed: dict[str, str]) -> Case:
    return Case(
        name=name,
        action=archive.configure,
        prepare=configured,
        request=lambda made: ConfigureAgent(agent_id=made, **given),
        effect=settings,
        rest=lambda made: ("PATCH", f"/agents/{made}/settings", given),
        admin=lambda made: (f"/agents/{{group}}/{made}/settings", typed),
    )


CASES = (
    with_settings("set", {"recency_w": 0.5}, {"mode": "elapsed", "recency_w": "0.5"}),
    with_settings("back to the default", {"mode": None}, {"mode": ""}),
    Case(
        action=archive.add_memory,
        prepare=lambda _group: None,
        request=lambda _made: AddMemory(agent_id=AGENT, description="窑温一千三百度", poignancy=4),
    ),
    Case(
        action=archive.update_memory,
        prepare=remembered,
        request=lambda made: UpdateMemory(id=made, description="窑温一千三百度", occurred_at=SINCE),
    ),
    Case(
        name="by hand",
        action=archive.update_memory,
        prepare=remembered,
        request=lambda made: UpdateMemory(id=made, description="窑温一千三百度"),
    ),
    Case(
        action=archive.reinstate_memory,
        prepare=superseded,
        request=lambda made: ReinstateMemory(id=made, reason="a mistake"),
        effect=lambda group, _made: rows(
            "SELECT superseded_by, superseded_at FROM memory_nodes WHERE group_id = :g", g=group
        ),
        admin=lambda made: (f"/nodes/{{group}}/{made}/reinstate", {}),
    ),
    Case(
        action=archive.rate,
        prepare=remembered,
        request=lambda made: RateMemories(ids=[made], importance=9),
        effect=lambda group, _made: rows(
            "SELECT poignancy, provenance FROM memory_nodes WHERE group_id = :g", g=group
        ),
        admin=lambda made: ("/memories/{group}/rate", {"node_id": made, "importance": "9"}),
    ),
    Case(action=archive.archive, prepare=remembered, request=lambda made: ByIds(ids=[made])),
    Case(
        name="named",
        action=archive.restore,
        prepare=archived,
        request=lambda made: RestoreRequest(ids=[made]),
    ),
    Case(
        name="all of an agent",
        action=archive.restore,
        prepare=expired,
        request=lambda _made: RestoreRequest(agent_id=AGENT),
    ),
)
