"""A memory has the same fields, with the same values, whichever way it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from jiyi.protocol.base import ByIdForUser, ByIds, OfAgents
from jiyi.protocol.conversation_commands import GrepOptions, MemoryEntryInput, SearchOptions
from jiyi.protocol.memory import Memory, RelatedQuery
from jiyi.protocol.recall import ListMemories
from jiyi.protocol.reflection import WhyQuery
from models.conversations import actions
from models.db.actions import Actor
from models.memory import questions
from models.memory.archive import archive
from models.memory.reads import MAX_LISTED_CHARS, OF_ONE
from models.reflection.actions import why
from tasks.conversations.commands import search

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

URI = "agent://mia/knowledge/food"
#: What a retrieval knows before the database does, and what only a single memory has.
OTHERWISE = {"last_accessed", "access_count", *OF_ONE}


def test_every_way_to_read_a_memory_gives_the_same(group: str) -> None:
    me = Actor(group, "test")
    content = {
        "content": "Mia eats no peanuts.",
        "keywords": ["peanuts"],
        "metadata": {"page": 3},
        "user_id": "zoe",
    }
    node_id = actions.add_resource.perform(me, MemoryEntryInput(uri=URI, **content)).id  # type: ignore[arg-type]
    whose: dict[str, Any] = {"agent_id": "mia", "user_id": "zoe"}
    ways = {
        "get": [questions.get_memory.perform(me, ByIdForUser(id=node_id))],
        "conversations.get": [actions.get.perform(me, ByIdForUser(id=node_id))],
        "list": questions.list_memories.perform(me, ListMemories(**whose)).rows,
        "related": questions.related.perform(me, RelatedQuery(**whose, object="peanuts")).events,
        "why": list(why.perform(me, WhyQuery(id=node_id)).nodes.values()),
        "export": actions.export.perform(me, OfAgents(**whose)).rows,
        "grep": actions.grep.perform(me, GrepOptions(pattern="p.anuts", uri=URI)).rows,
        "search": search(me, SearchOptions(**whose, query="peanuts")).rows,
    }
    first = ways["get"][0]
    assert isinstance(first, Memory)
    assert (first.description, first.uri, first.provenance) == ("Mia eats no peanuts.", URI, {"page": 3})
    same = set(Memory.model_fields) - OTHERWISE
    for way, found in ways.items():
        assert [memory.model_dump(include=same) for memory in found] == [first.model_dump(include=same)], way  # type: ignore[union-attr]


def test_a_list_cuts_long_texts_and_an_export_does_not(group: str) -> None:
    me, long = Actor(group, "test"), "peanuts " * MAX_LISTED_CHARS
    long = long[: MAX_LISTED_CHARS + 100]
    actions.add_resource.perform(me, MemoryEntryInput(uri=URI, content=long))
    [listed] = questions.list_memories.perform(me, ListMemories(agent_id="mia")).rows
    assert len(listed.description) == len(listed.embedding_key) == MAX_LISTED_CHARS
    [exported] = actions.export.perform(me, OfAgents(agent_id="mia")).rows
    assert exported.description == long.strip()


def test_archived_memories_are_listed_without_with_or_alone(group: str) -> None:
    me = Actor(group, "test")
    for text in ("Mia eats no peanuts.", "Mia eats figs."):
        node_id = actions.add_resource.perform(me, MemoryEntryInput(uri=URI, content=text)).id
    archive.perform(me, ByIds(ids=[node_id]))

    def listed(archived: Any) -> list[str]:
        return [
            memory.description
            for memory in questions.list_memories.perform(
                me, ListMemories(agent_id="mia", archived=archived)
            ).rows
        ]

    assert listed("without") == ["Mia eats no peanuts."]
    assert listed("with") == ["Mia eats figs.", "Mia eats no peanuts."]
    assert listed("only") == ["Mia eats figs."]
