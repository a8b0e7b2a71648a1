"""Cases of the tiers' actions."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from jiyi.protocol.events import made
from models.tiers import actions
from tests.integration.actions.cases import MADE, case, do, nothing
from tests.integration.memory.test_inbox import save

VERDICT = {"text": "裁决：用新土在一千二百度烧一次。", "kind": "verdict"}


def known(group: str) -> str:
    """The id of a piece of knowledge."""
    return str(do(group, actions.promote, **VERDICT).pieces[0].knowledge_id)


def entry(group: str) -> UUID:
    """The id of an entry of quarantine."""
    payload = {"node_id": "n1", "output": VERDICT["text"]}
    said = made("node.executed", (group, "n1"), datetime.now(UTC), payload)
    save(said)
    return said.event_id


EDITED = {"content": "Fire it twice.", "reason": "thick cups"}
CASES = (
    case(actions.promote, nothing, {**VERDICT, "reason": "agreed"}),
    case(actions.demote, known, {"knowledge_ids": [MADE], "reason": "wrong"}),
    case(actions.edit, known, {"id": MADE, **EDITED}),
    case(actions.check, entry, {"entry_ids": [MADE], "verdict": "true", "reason": "looked up"}),
    case(actions.delete, entry, {"entry_ids": [MADE], "reason": "noise"}),
)
