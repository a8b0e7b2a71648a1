"""Two groups use the same ids for their events: each is stored, and nobody notices the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi.protocol.events import Event, build
from jiyi.protocol.retrieval import RetrievalRequest
from models.memory import access
from models.memory.work import ACCUMULATE, EMBED, STRENGTHEN
from models.reflection.reflections import REFLECT_CONVERSATION
from models.tiers.quarantine import INGRESS
from tests.integration.memory.test_inbox import observed, rows, save
from tests.integration.programs import Program
from tests.integration.retrieval.asking import answered
from tests.integration.tiers.outputs import TEXTS, output

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

SAID = {
    "a": "Klaus keeps his savings in the blue teapot on the shelf",
    "b": "Maria sells tomatoes at the market every morning",
}


@pytest.fixture
def pair(group: str) -> tuple[str, str]:
    return f"{group}-a", f"{group}-b"


def of(table: str, group: str, **where: Any) -> list[dict[str, Any]]:
    conditions = "".join(f" AND {name} = :{name}" for name in where)
    return rows(f"SELECT * FROM {table} WHERE group_id = :g {conditions}", g=group, **where)  # type: ignore[return-value]


def do(kind: str) -> None:
    """All due work of a kind, in this process."""
    module = {
        EMBED: "memory",
        STRENGTHEN: "memory",
        ACCUMULATE: "memory",
        INGRESS: "tiers",
        REFLECT_CONVERSATION: "reflection",
    }[kind]
    handler = {EMBED: "embed", REFLECT_CONVERSATION: "reflect_on_conversation"}.get(kind, kind)
    work = import_module("tasks.framework.work")
    work.run_until_idle(kind, getattr(import_module(f"tasks.{module}"), handler))


def same_id(pair: tuple[str, str], **fields: Any) -> tuple[Event, Event]:
    event_id = uuid4()
    a, b = (
        observed(group, SAID[name], event_id=event_id, **fields)
        for group, name in zip(pair, "ab", strict=True)
    )
    return a, b


def test_what_is_derived_of_one_text_is_not_the_others(pair: tuple[str, str]) -> None:
    a, b = same_id(pair)
    save(a, b)
    save(b)
    save(a)
    assert [len(of("events", group)) for group in pair] == [1, 1]
    (mine,), (theirs,) = (of("memory_nodes", group) for group in pair)
    assert (mine["description"], theirs["description"]) == (SAID["a"], SAID["b"])
    assert "teapot" in mine["tokens"]
    assert "teapot" not in theirs["tokens"]
    assert mine["content_hash"] != theirs["content_hash"]


def test_an_id_that_one_group_has_erased_is_free_for_the_other(pair: tuple[str, str]) -> None:
    a, b = same_id(pair)
    save(a)
    rows("UPDATE events SET outcome = 'erased' WHERE group_id = :g RETURNING 1", g=pair[0])
    save(b, observed(pair[1], "it follows", node_type="thought", evidence=[a.event_id]))
    assert {row["outcome"] for row in of("events", pair[1])} == {"stored"}


def test_each_gets_the_vector_of_its_own_text_the_counts_of_its_own_words_and_its_own_importance(
    pair: tuple[str, str],
) -> None:
    a, b = same_id(pair)
    save(a)
    for kind in (STRENGTHEN, ACCUMULATE):
        do(kind)
    save(b)  # while the other's is done, and while both are owed
    for kind in (EMBED, STRENGTHEN, ACCUMULATE):
        do(kind)
    (mine,), (theirs,) = (of("memory_nodes", group) for group in pair)
    assert mine["embedding"] is not None
    assert theirs["embedding"] is not None
    assert mine["embedding"] != theirs["embedding"]
    for group in pair:
        assert {row["strength"] for row in of("kw_strength", group)} == {1}
        assert of("agents", group)[0]["importance_ele_n"] == 1
        assert not of("pending_work", group)


def test_over_http_the_second_is_accepted_and_there(
    pair: tuple[str, str], program: Callable[..., Program]
) -> None:
    taken = observed(pair[0], SAID["a"])
    save(taken)
    api = program(pair[1])
    done = api.post(
        "/events", {"agent_id": "klaus", "description": SAID["b"], "event_id": str(taken.event_id)}
    )
    assert (done["accepted"], done["repeated"]) == (1, 0)
    assert SAID["a"] not in str(api.get(f"/events/{taken.event_id}"))
    assert of("memory_nodes", pair[1])[0]["description"] == SAID["b"]


def test_an_access_moves_the_time_of_the_group_that_asked(pair: tuple[str, str]) -> None:
    at = datetime(2026, 3, 1, 8, tzinfo=UTC)
    save(*same_id(pair, occurred_at=at))
    found = answered(
        RetrievalRequest(group_id=pair[1], agent_id="klaus", queries=["market"], relevance="lexical")
    )
    assert len(found["groups"][0]["retrieved_nodes"]) == 1  # its own, and once
    access.flush()
    assert [of("node_access", group)[0]["access_count"] for group in pair] == [0, 1]
    assert of("node_access", pair[0])[0]["last_accessed"] == at


def test_outputs_of_workflows_are_screened_each_by_itself(pair: tuple[str, str]) -> None:
    entry_id = uuid4()
    save(
        *(
            output(group, said, event_id=entry_id, confidence=0.9)
            for group, said in zip(pair, TEXTS, strict=False)
        )
    )
    do(INGRESS)
    (mine,), (theirs,) = (of("quarantine_logs", group) for group in pair)
    assert (mine["content"], theirs["content"]) == (TEXTS[0], TEXTS[1])
    assert mine["screened_at"] is not None
    assert theirs["screened_at"] is not None
    assert mine["embedding"] != theirs["embedding"]


def test_conversations_that_end_with_the_same_id_have_a_reflection_each(pair: tuple[str, str]) -> None:
    ending = uuid4()
    for group, name in zip(pair, "ab", strict=True):
        chat = observed(
            group,
            "a conversation",
            session_id="s",
            node_type="chat",
            utterances=[["Klaus", SAID[name]], ["Maria", "I see"]],
        )
        event: dict[str, Any] = {
            "type": "session.ended",
            "event_id": ending,
            "group_id": group,
            "agent_id": "klaus",
            "session_id": "s",
        }
        save(chat, build(event))
    do(REFLECT_CONVERSATION)
    for group in pair:
        (reflection,) = of("reflections", group)
        assert (reflection["reflection_id"], reflection["state"]) == (ending, "done")
        thoughts = of("memory_nodes", group, type="thought")
        assert len(thoughts) == reflection["thoughts"] > 0
    texts = {
        group: " ".join(node["description"] for node in of("memory_nodes", group, type="thought"))
        for group in pair
    }
    assert "tomatoes" not in texts[pair[0]]
    assert "teapot" not in texts[pair[1]]


def test_a_failed_attempt_counts_for_the_group_whose_it_was(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(*same_id(pair))
    work = import_module("tasks.framework.work")
    seen: list[UUID] = []

    def handler(batch: Any) -> None:
        seen.extend(batch.subject_ids)
        if batch.scope.groups == (pair[0],):
            raise ValueError("no")
        with batch.finish():
            pass

    work.run_due(work.Kind(STRENGTHEN, "upkeep", 10), handler)
    assert len(seen) == 2
    assert of("pending_work", pair[0], kind=STRENGTHEN)[0]["attempts"] == 1
    assert not of("pending_work", pair[1], kind=STRENGTHEN)
