"""Cases of the conversations' actions."""

from __future__ import annotations

from typing import Any

from models.conversations import actions, experiences
from tests.integration.actions.cases import MADE, case, do, nothing
from tests.integration.conversations.talk import say
from tests.integration.memory.test_inbox import rows

URI = "agent://小伴/knowledge/allergy"
SAID = "用户对花生过敏。"
OF = {"agent_id": "小伴"}
TOLD = {**OF, "pain_pattern": "釉面开裂", "solution_steps": ["慢慢降温"], "outcome": "success"}
ENTRY = {**OF, "content": SAID, "category": "allergy", "importance": 9}
IMPORTED = {**OF, "memory_type": "knowledge", "uri": URI, "content": SAID}
RESOURCE = {
    "uri": URI,
    "content": SAID,
    "keywords": ["花生"],
    "importance": 9,
    "metadata": {"source": "form"},
}
TALK = {**OF, "session_id": "s", "messages": [{"role": "user", "text": SAID}]}


def stored(group: str) -> str:
    """The id of a memory."""
    return str(do(group, actions.add_resource, uri=URI, content=SAID).id)


def turn(group: str) -> str:
    """The id of a turn."""
    return str(say(group, SAID)[0])


def told(group: str) -> str:
    """The id of an experience."""
    return str(do(group, experiences.store_experience, **TOLD).id)


def memories(group: str, _made: Any) -> list[Any]:
    columns = "kind, uri, description, poignancy, keywords, provenance"
    return sorted(rows(f"SELECT {columns} FROM memory_nodes WHERE group_id = :g", g=group), key=str)


OVER_REST = {"effect": memories, "rest": lambda _made: ("POST", "/conversations/memory_store", ENTRY)}
CASES = (
    case(actions.store_memory, nothing, ENTRY, **OVER_REST),
    case(actions.import_memories, nothing, {"memories": [IMPORTED]}),
    case(actions.add_resource, nothing, RESOURCE),
    case(actions.extract_and_store, nothing, TALK),
    case(experiences.store_experience, nothing, TOLD),
    case(experiences.update_experience, told, {"id": MADE, "outcome": "partial"}),
    case(experiences.delete_experience, told, {"id": MADE}),
    case(actions.judge_turn, turn, {"id": MADE, "lasting": True}),
    case(actions.delete, stored, {"id": MADE}),
    case(actions.delete_all, stored, OF),
    case(actions.remove, stored, {"uri": URI}),
    case(actions.load_industry_keywords, nothing, {"industry": "pottery", "keywords": {"釉": ["glaze"]}}),
)
