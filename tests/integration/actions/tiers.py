"""Cases of the tiers' actions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import text

from jiyi.protocol.events import build
from jiyi.protocol.tiers.knowledge import CheckBody, DeleteEntries, DemoteBody, EditKnowledge, PromoteBody
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.inbox import store
from models.tiers import actions
from tests.integration.actions.cases import Case

SAID = "裁决：用新土在一千二百度烧一次。"


def known(group: str) -> str:
    """The id of a piece of knowledge."""
    done = actions.promote.perform(Actor(group, "test"), PromoteBody(text=SAID, kind="verdict"))
    return str(done.pieces[0].knowledge_id)


def knowledge(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        rows = connection.execute(_ROWS, {"group": group})
        return sorted(map(tuple, rows), key=str)


def entry(group: str) -> UUID:
    """The id of an entry of quarantine."""
    said = build({"type": "node.executed", "group_id": group, "agent_id": "n1", "payload": {"node_id": "n1", "output": SAID}})
    with unit_of_work() as connection:
        store(connection, [said])
    return said.event_id


def entries(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return list(map(tuple, connection.execute(_ENTRIES, {"group": group})))


CASES = (
    Case(
        action=actions.promote,
        prepare=lambda _group: None,
        request=lambda _made: PromoteBody(text=SAID, kind="verdict", note="agreed"),
        effect=knowledge,
    ),
    Case(action=actions.demote, prepare=known, request=lambda made: DemoteBody(knowledge_ids=[made], reason="wrong"), effect=knowledge),
    Case(
        action=actions.edit,
        prepare=known,
        request=lambda made: EditKnowledge(knowledge_id=made, content="Fire it twice.", reason="thick cups"),
        effect=knowledge,
    ),
    Case(
        action=actions.check,
        prepare=entry,
        request=lambda made: CheckBody(entry_ids=[made], verdict="true", reason="looked up"),
        effect=entries,
    ),
    Case(action=actions.delete, prepare=entry, request=lambda made: DeleteEntries(entry_ids=[made], reason="noise"), effect=entries),
)

_ROWS = text("""
    SELECT k.content, k.kind, k.demoted_at IS NULL AS in_force, h.action, h.reason, h.before, h.after
    FROM knowledge k JOIN knowledge_history h USING (knowledge_id) WHERE k.group_id = :group
""")
_ENTRIES = text("SELECT content, flags, deleted_at IS NULL AS in_sight FROM quarantine_logs WHERE group_id = :group")
