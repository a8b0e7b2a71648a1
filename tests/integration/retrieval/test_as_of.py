"""What was known at a time of the past: questions about it, lists of it, and past retrievals that are asked
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from engine.providers.embedders import embedder
from jiyi.protocol.base import ById, ByIds, OfAgents
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.recall import InjectedContext, ListMemories, UpdateMemory
from jiyi.protocol.retrieval import RetrievalRequest
from models.actions import ACTIONS
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import access
from models.retrieval import index_cache, records
from tasks.conversations.injection import build
from tasks.retrieval.context import ask_again
from tests.integration.memory.test_inbox import execute, observed, rows, save
from tests.integration.retrieval.asking import answered

pytestmark = pytest.mark.usefixtures("own_valkey", "nothing_owed")
THINGS = ("kiln", "teapot", "invoice", "garden", "窑炉", "茶壶", "发票", "花园")
RETRIEVALS = 200


@pytest.fixture(autouse=True)
def _no_retrieval_stays(group: str, own_valkey: None) -> Iterator[None]:
    yield
    execute("DELETE FROM retrievals WHERE group_id = :g", g=group)  # older than any that are kept


def remember(group: str, *texts: str, **fields: Any) -> list[UUID]:
    vectors = embedder().passages(list(texts))
    own = [
        {"vector": vector.tolist(), "embedding_model": embedder().model, "agent_id": "mia", **fields}
        for vector in vectors
    ]
    events = [observed(group, words, **mine) for words, mine in zip(texts, own, strict=True)]
    save(*events)
    return [event.event_id for event in events]


def ask(group: str, question: str, **options: Any) -> dict[str, Any]:
    """The answer, with its accesses written and itself noted."""
    request = RetrievalRequest(group_id=group, agent_id="mia", queries=[question], **options)
    value = answered(request, "key:a1")
    access.flush()
    group_: dict[str, Any] = value["groups"][0]
    return group_


def found(group: str, question: str, **options: Any) -> list[str]:
    return [node["description"] for node in ask(group, question, touch=False, **options)["retrieved_nodes"]]


def a_month_passes(group: str) -> None:
    """All that has happened is a month ago."""
    with unit_of_work() as connection:
        for table, columns in (
            ("memory_nodes", ("stored_at", "superseded_since", "archived_at", "expires_at", "created_at")),
            ("node_access", ("last_accessed",)),
            ("retrievals", ("asked_at",)),
        ):
            moved = ", ".join(f"{column} = {column} - interval '30 days'" for column in columns)
            connection.execute(text(f"UPDATE {table} SET {moved} WHERE group_id = :g"), {"g": group})
        recent = (
            "(SELECT coalesce(array_agg(t - interval '30 days' ORDER BY t), '{}') FROM unnest(recent) AS t)"
        )
        connection.execute(
            text(f"UPDATE node_access SET recent = {recent} WHERE group_id = :g"), {"g": group}
        )
    index_cache.forget_all()


@pytest.mark.long
def test_past_retrievals_give_the_same_memories_after_a_month_of_changes(group: str) -> None:
    soon = datetime.now(UTC) + timedelta(days=10)
    first = [
        node
        for thing in THINGS
        for node in remember(group, *(f"Mia's {thing} number {n} stands in room {n}" for n in range(5)))
    ]
    remember(group, *(f"a voucher for the {thing}" for thing in THINGS), expires_at=soon)
    for number in range(RETRIEVALS):
        thing = THINGS[number % len(THINGS)]
        if number % 10 == 5:  # there are changes between them, too
            remember(group, f"the {thing} was moved on day {number}")
        if number % 40 == 15:
            change = UpdateMemory(id=first[number // 40], description=f"Mia sold the {thing} number {number}")
            ACTIONS["memory.update"].perform(Actor(group), change)
        ask(group, f"where is the {thing} {number}?", top_k=10, touch=number % 20 == 0)
    assert records.flush() == RETRIEVALS
    a_month_passes(group)
    for node_id in first[5:15]:
        ACTIONS["memory.update"].perform(
            Actor(group), UpdateMemory(id=node_id, description=f"this is no longer so: {node_id}")
        )
    ACTIONS["archive.archive"].perform(Actor(group), ByIds(ids=first[15:25]))
    remember(group, *(f"where is the {thing} now? {n}" for thing in THINGS for n in range(10)))
    for thing in THINGS:
        ask(group, thing)  # touches
    page, same, changed = None, 0, 0
    while page is None or page.next:
        page = records.list_retrievals.perform(
            Actor(group), OfAgents(agent_id="mia", cursor=page and page.next, limit=100)
        )
        for row in page.rows:
            again = ask_again(Actor(group), ById(id=row.retrieval_id))
            ids = [node.node_id for node in again.then.retrieved_nodes]
            same += again.same and ids == [memory.node_id for memory in row.results[0]]
            changed += set(ids) != {node.node_id for node in again.now.retrieved_nodes}
    assert (same, changed) == (RETRIEVALS, RETRIEVALS)


def test_what_was_superseded_archived_or_expired_since_was_known_then(group: str) -> None:
    before = datetime.now(UTC) - timedelta(days=60)
    home, cat, _ = remember(group, "Mia lives in Porto", "Mia has a cat", "米娅喜欢绿茶")
    remember(group, "Mia has a voucher", expires_at=datetime.now(UTC) + timedelta(days=1))
    a_month_passes(group)
    then = datetime.now(UTC) - timedelta(days=29, hours=12)
    ACTIONS["memory.update"].perform(Actor(group), UpdateMemory(id=home, description="Mia lives in Lyon"))
    ACTIONS["archive.archive"].perform(Actor(group), ByIds(ids=[cat]))
    assert set(found(group, "Mia 米娅", relevance="lexical")) == {"Mia lives in Lyon", "米娅喜欢绿茶"}
    known = {"Mia lives in Porto", "Mia has a cat", "米娅喜欢绿茶", "Mia has a voucher"}
    assert set(found(group, "Mia 米娅", relevance="lexical", as_of=then)) == known
    assert found(group, "where does Mia live?", as_of=then, top_k=1) == ["Mia lives in Porto"]
    listed = ACTIONS["memory.list"].perform(Actor(group), ListMemories(agent_id="mia", as_of=then)).rows
    assert {row.description for row in listed} == known
    answer = ask(group, "Mia", as_of=then)
    assert all(node["superseded_by"] is None for node in answer["retrieved_nodes"])
    touched = rows("SELECT sum(access_count) AS n FROM node_access WHERE group_id = :g", g=group)
    assert touched[0]["n"] == 0, "a question about the past is no access"
    empty = ask(group, "Mia", as_of=before)
    assert (empty["status"], empty["debug"]["left_out"]) == ("no_candidates", {"as_of": 5})
    assert "5 not known yet (as_of)" in empty["message"]
    with pytest.raises(ValidationError, match=r"as_of[\s\S]*is in the future: give a time that has passed"):
        ask(group, "Mia", as_of=datetime.now(UTC) + timedelta(days=1))


def test_the_context_of_a_prompt_as_it_was_then(group: str) -> None:
    home, _ = remember(
        group,
        "Mia lives in Porto.",
        "Mia likes green tea.",
        kind="knowledge",
        uri="agent://mia/knowledge/told",
    )
    a_month_passes(group)
    then = datetime.now(UTC) - timedelta(days=29, hours=12)
    ACTIONS["memory.update"].perform(Actor(group), UpdateMemory(id=home, description="Mia lives in Lyon."))

    def context(**fields: Any) -> InjectedContext:
        return build(Actor(group), ContextRequest(agent_id="mia", query="Where does Mia live?", **fields))

    past, now = context(as_of=then), context()
    assert "Porto" in past.context and "Lyon" not in past.context
    assert "Lyon" in now.context
    assert (past.injection_id, now.injection_id is not None) == (None, True), (
        "a question about the past is not noted"
    )
    assert context(as_of=then - timedelta(days=90)).context == ""
    with pytest.raises(ValidationError, match="as_of: a session's prompt and the tiers are of now"):
        context(as_of=then, split=True)
