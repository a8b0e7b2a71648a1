"""Cases of erasure's actions."""

from __future__ import annotations

from jiyi.protocol.erasure import Erasure
from jiyi.protocol.events import build
from models.db.connection import unit_of_work
from models.erasure import actions
from models.memory.inbox import store
from tests.integration.actions.cases import Case


def a_memory(group: str) -> tuple[str, str]:
    """The group, and the id of a memory of the agent klaus."""
    payload = {"description": "Klaus reads a book."}
    event = build({"type": "memory.observed", "group_id": group, "agent_id": "klaus", "payload": payload})
    with unit_of_work() as connection:
        store(connection, [event])
    return group, str(event.event_id)


CASES = (
    Case(
        action=actions.request_erasure,
        prepare=a_memory,
        request=lambda _made: Erasure(agent_id="klaus"),
        name="agent",
    ),
    Case(
        action=actions.request_erasure,
        prepare=a_memory,
        request=lambda _made: Erasure(person="Maria Lopez", aliases=["玛丽亚"], delete_backups=True),
        name="person",
    ),
    Case(
        action=actions.request_erasure,
        prepare=a_memory,
        request=lambda made: Erasure(node_ids=[made[1]]),
        name="nodes",
    ),
)
