"""Cases of the tiers' actions."""

from __future__ import annotations

from uuid import UUID

from jiyi.protocol.events import build
from jiyi.protocol.knowledge import CheckBody, DeleteEntries, DemoteBody, EditKnowledge, PromoteBody
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


def entry(group: str) -> UUID:
    """The id of an entry of quarantine."""
    said = build(
        {
            "type": "node.executed",
            "group_id": group,
            "agent_id": "n1",
            "payload": {"node_id": "n1", "output": SAID},
        }
    )
    with unit_of_work() as connection:
        store(connection, [said])
    return said.event_id


CASES = (
    Case(
        action=actions.promote,
        prepare=lambda _group: None,
        request=lambda _made: PromoteBody(text=SAID, kind="verdict", reason="agreed"),
    ),
    Case(
        action=actions.demote,
        prepare=known,
        request=lambda made: DemoteBody(knowledge_ids=[made], reason="wrong"),
    ),
    Case(
        action=actions.edit,
        prepare=known,
        request=lambda made: EditKnowledge(id=made, content="Fire it twice.", reason="thick cups"),
    ),
    Case(
        action=actions.check,
        prepare=entry,
        request=lambda made: CheckBody(entry_ids=[made], verdict="true", reason="looked up"),
    ),
    Case(
        action=actions.delete,
        prepare=entry,
        request=lambda made: DeleteEntries(entry_ids=[made], reason="noise"),
    ),
)
