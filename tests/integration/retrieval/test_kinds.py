"""What conversations left is found beside all else, turns only if asked; an empty answer says what its
filters left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.db.connection import unit_of_work
from tasks.retrieval import retrieve as retrieval
from tests.integration.conversations.talk import nodes, run, say
from tests.integration.memory.test_inbox import observed, save
from tests.integration.programs import Program

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")
SAID = ["I am allergic to peanuts.", "Hello there.", "Nice weather.", "我对虾过敏。"]


def ask(group: str, **options: Any) -> Answer:
    asked = {
        "group_id": group,
        "agent_id": "helper",
        "queries": ["allergic to peanuts 过敏"],
        "relevance": "lexical",
        "touch": False,
    }
    answer = retrieval.retrieve(RetrievalRequest(**{**asked, **options}))
    assert isinstance(answer, Answer)
    return answer


def kinds_of(answer: Answer) -> set[str]:
    return {node.kind or "memory" for node in answer.retrieved_nodes}


def test_what_conversations_left_is_found_and_an_empty_answer_says_what_was_left_out(
    group: str, api: Program
) -> None:
    say(group, *SAID)
    empty = ask(group)
    assert (empty.status, empty.debug.left_out) == ("no_candidates", {"kinds.session": 4})
    assert empty.message == "no candidate memories for this agent; left out: 4 of the kind session (kinds)"
    run()
    facts = nodes(group, "knowledge", "preference")
    assert len(facts) == 2, "one of each language"
    save(observed(group, "Mia carries peanuts", agent_id="helper"))
    assert kinds_of(ask(group)) == {"memory", *(fact["kind"] for fact in facts)}
    assert kinds_of(ask(group, filters={"kinds": ["session"]})) == {"session"}
    assert kinds_of(ask(group, mode="stanford", relevance=None, filters={"kinds": ["memory"]})) == set(), (
        "nothing is embedded yet"
    )
    listed = api.get("/nodes", agent_id="helper")["rows"]
    assert {node["kind"] for node in listed} == {None, *(fact["kind"] for fact in facts)}
    assert len(api.get("/nodes", agent_id="helper", kinds="session")["rows"]) == len(SAID)
    assert api.get("/nodes", 422, agent_id="helper", kinds="dream")["errors"][0]["field"] == "kinds.0"


def test_every_filter_says_how_many_it_leaves_out(group: str) -> None:
    then = datetime(2026, 3, 1, tzinfo=UTC)
    memories = [
        observed(group, f"cup {number}", agent_id="helper", occurred_at=then, session_id="s1", **fields)
        for number, fields in enumerate(
            [{}, {"expires_at": then}, {"node_type": "chat"}, {}, {"predicate": "is", "object": "idle"}]
        )
    ]
    save(*memories)
    with unit_of_work() as connection:
        archived = {"group": group, "id": memories[3].event_id}
        connection.execute(
            text("UPDATE memory_nodes SET archived_at = now() WHERE group_id = :group AND node_id = :id"),
            archived,
        )
    filters = {"created_after": datetime(2027, 1, 1, tzinfo=UTC), "session_id": "s2", "keywords": ["kettle"]}
    left_out = ask(group, filters=filters).debug.left_out
    others = {"types.chat": 1, "include_expired": 1, "include_archived": 1, "idle": 1}
    assert left_out == {"created_after": 4, "session_id": 4, "keywords": 4, **others}
    unlikely = ask(group, relevance=None, min_probability=1.0)
    assert unlikely.debug.left_out in ({"min_probability": 1}, {}), "an embedder that is away judges nothing"
