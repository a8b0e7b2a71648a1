"""Cases of erasure's actions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

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


def owed(group: str, _made: Any) -> list[Any]:
    """Erasures of the group with the work that they owe, without ids and times. They are called off: nobody shall do them later."""
    with unit_of_work() as connection:
        found = [tuple(row) for row in connection.execute(_OWED, {"group": group})]
        connection.execute(_CALL_OFF, {"group": group})
    return found


CASES = (
    Case(action=actions.request_erasure, prepare=a_memory, request=lambda _made: Erasure(agent_id="klaus"), effect=owed, name="agent"),
    Case(
        action=actions.request_erasure,
        prepare=a_memory,
        request=lambda _made: Erasure(person="Maria Lopez", aliases=["玛丽亚"], delete_backups=True),
        effect=owed,
        name="person",
    ),
    Case(action=actions.request_erasure, prepare=a_memory, request=lambda made: Erasure(node_ids=[made[1]]), effect=owed, name="nodes"),
)

_CALL_OFF = text("""
    WITH gone AS (DELETE FROM erasures WHERE group_id = :group) DELETE FROM pending_work WHERE group_id = :group AND kind = 'erase'
""")
_OWED = text("""
    SELECT e.kind, e.state, e.what #- '{asked,node_ids}', w.kind, w.attempts
    FROM erasures e JOIN pending_work w ON w.subject_id = e.erasure_id WHERE e.group_id = :group
""")
