"""Cases of the conversations' actions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jiyi.protocol.base import ById, ByIdForUser, OfAgent
from jiyi.protocol.conversation_commands import IndustryWords, JudgeTurn, MemoryEntryInput, ResourceUri
from jiyi.protocol.experiences import TellExperience, UpdateExperience
from models.conversations import actions, experiences
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tests.integration.actions.cases import Case
from tests.integration.conversations.talk import say

URI = "agent://小伴/knowledge/allergy"
SAID = "用户对花生过敏。"


def stored(group: str) -> str:
    """The id of a memory."""
    return str(actions.add_resource.perform(Actor(group, "test"), MemoryEntryInput(uri=URI, content=SAID)).id)


def turn(group: str) -> str:
    """The id of a turn."""
    return str(say(group, SAID)[0])


def memories(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return sorted(map(tuple, connection.execute(_MEMORIES, {"group": group})), key=str)


def told(group: str) -> str:
    """The id of an experience."""
    return str(
        experiences.store_experience.perform(Actor(group, "test"), TellExperience.model_validate(_TOLD)).id
    )


def _adding(action: Any, fields: dict[str, Any], rest: str | None = None) -> Case:
    return Case(
        action=action,
        prepare=lambda _group: None,
        request=lambda _made: action.request.model_validate(fields),
        effect=memories,
        rest=None if rest is None else lambda _made: ("POST", rest, fields),
    )


_ENTRY = {"agent_id": "小伴", "content": SAID, "category": "allergy", "importance": 9}
_TOLD = {"agent_id": "小伴", "pain_pattern": "釉面开裂", "solution_steps": ["慢慢降温"], "outcome": "success"}
_IMPORT = {"memories": [{"agent_id": "小伴", "memory_type": "knowledge", "uri": URI, "content": SAID}]}
_TALK = {"agent_id": "小伴", "session_id": "s", "messages": [{"role": "user", "text": SAID}]}
_RESOURCE = {
    "uri": URI,
    "content": SAID,
    "keywords": ["花生"],
    "importance": 9,
    "metadata": {"source": "form"},
}

CASES = (
    _adding(actions.store_memory, _ENTRY, rest="/conversations/memory_store"),
    _adding(actions.import_memories, _IMPORT),
    _adding(actions.add_resource, _RESOURCE),
    _adding(actions.extract_and_store, _TALK),
    _adding(experiences.store_experience, _TOLD),
    Case(
        action=experiences.update_experience,
        prepare=told,
        request=lambda made: UpdateExperience(id=made, outcome="partial"),
    ),
    Case(action=experiences.delete_experience, prepare=told, request=lambda made: ById(id=made)),
    Case(action=actions.judge_turn, prepare=turn, request=lambda made: JudgeTurn(id=made, lasting=True)),
    Case(action=actions.delete, prepare=stored, request=lambda made: ByIdForUser(id=made)),
    Case(action=actions.delete_all, prepare=stored, request=lambda _made: OfAgent(agent_id="小伴")),
    Case(action=actions.remove, prepare=stored, request=lambda _made: ResourceUri(uri=URI)),
    Case(
        action=actions.load_industry_keywords,
        prepare=lambda _group: None,
        request=lambda _made: IndustryWords(industry="pottery", keywords={"釉": ["glaze"]}),
    ),
)

_MEMORIES = text(
    "SELECT kind, uri, description, poignancy, keywords, provenance FROM memory_nodes WHERE group_id = :group"
)
