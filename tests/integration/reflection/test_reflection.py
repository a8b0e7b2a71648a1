"""Reflections: exactly one set of thoughts with its evidence, however often and however badly it goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from engine.providers import llms
from engine.providers.questions import FocalPoints, Insights, Poignancy, Question, Triple
from jiyi.errors import BadReply, LLMUnavailable, SettingsError
from jiyi.protocol import limits
from jiyi.protocol.base import OfAgent
from jiyi.protocol.events import build
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.work import ACCUMULATE, EMBED
from models.reflection import actions
from models.reflection.actions import request_reflection
from models.reflection.reflections import REFLECT, REFLECT_CONVERSATION
from tasks.framework import work as tasks
from tasks.framework.work import MAX_ATTEMPTS
from tasks.memory import accumulate, embed
from tasks.reflection import reflect, reflect_on_conversation
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import configured, execute, nodes, observed, owed, rows, save
from tests.llms import Scripted

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
#: Poignant enough that forty of them set off a reflection.
POIGNANCY = 4


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    made = Scripted()
    monkeypatch.setattr(llms, "llm", lambda: made)
    return made


def live(group: str, count: int, start: int = 0) -> list[UUID]:
    """Events of one agent, embedded and counted."""
    events = [
        observed(
            group, f"Klaus reads chapter {n}", poignancy=POIGNANCY, occurred_at=AT + timedelta(minutes=n)
        )
        for n in range(start, start + count)
    ]
    save(*events)
    tasks.run_until_idle(EMBED, embed)
    tasks.run_until_idle(ACCUMULATE, accumulate)
    return [event.event_id for event in events]


def counters(group: str) -> tuple[float, int]:
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    return agent["importance_trigger_curr"], agent["importance_ele_n"]


def thoughts(group: str) -> list[dict[str, Any]]:
    return [node for node in nodes(group) if node["type"] == "thought"]


def reflection_rows(group: str) -> list[dict[str, Any]]:
    return rows("SELECT * FROM reflections WHERE group_id = :g ORDER BY created_at", g=group)


def run(kind: str = REFLECT, handler: Callable[..., None] = reflect) -> int:
    execute("UPDATE pending_work SET due_at = now() WHERE kind = :k", k=kind)
    return tasks.run_due(tasks.KINDS[kind], handler)


def told(group: str, reflection_id: UUID) -> tuple[str, str | None]:
    with unit_of_work() as connection:
        found = actions.find_reflection(connection, group, reflection_id)
    assert found is not None
    return found.state, found.error


def configure(group: str, **settings: object) -> None:
    save(configured(group, **settings))


def test_poignant_events_become_thoughts_that_name_their_evidence(
    group: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The questions come in the original's order, about the latest memories."""
    ids = live(group, 40)
    (agent,) = rows("SELECT agent_key FROM agents WHERE group_id = :g", g=group)
    assert (REFLECT, agent["agent_key"]) in owed(group)
    for name, few in {"MAX_FOCAL_TEXTS": 1, "MAX_FOCAL_CHARS": 100}.items():  # these are for what clients ask
        monkeypatch.setattr(limits, name, few)
    stored: list[int] = []  # before all are retrieved for, no thought is there
    llm.before = lambda question: stored.append(len(thoughts(group)))
    assert run() == 1
    insight = [Triple, Poignancy, Triple]  # of the second, which is idle, the importance is known
    assert [type(question) for question in llm.asked] == [FocalPoints, *[Insights, *insight] * 3]
    assert llm.asked[0].statements == [f"Klaus reads chapter {n}" for n in range(40)]
    assert all(len(question.statements) == 30 for question in llm.asked if isinstance(question, Insights))
    made = thoughts(group)
    assert (set(stored), len(made)) == ({0}, 6)
    (row,) = reflection_rows(group)
    expected = {"state": "done", "trigger": "importance", "thoughts": 6, "llm": "scripted", "attempts": 1}
    assert {name: row[name] for name in expected} == expected
    assert row["focal_points"] == [f"What of Klaus reads chapter {n}?" for n in (37, 38, 39)]
    assert counters(group) == (get_settings().agent_defaults.importance_trigger_max, 0)
    assert REFLECT not in {kind for kind, _ in owed(group)}
    first, second = made[:2]
    now = AT + timedelta(minutes=39)
    assert (first["created_at"], first["expires_at"]) == (now, now + timedelta(days=30))
    assert (first["subject"], first["predicate"], first["object"]) == ("klaus", "thinks of", "books")
    assert first["keywords"] == ["klaus", "thinks of", "books"]
    assert (first["poignancy"], second["poignancy"]) == (7, 1)
    assert {UUID(node_id) for thought in made for node_id in thought["filling"]} <= set(ids)
    assert [len(thought["filling"]) for thought in made] == [2, 1] * 3
    assert {thought["depth"] for thought in made} == {1}
    assert first["provenance"] == {
        "reflection": str(row["reflection_id"]),
        "llm": "scripted",
        "prompt": "insights@2",
        "focal_point": "What of Klaus reads chapter 37?",
    }
    assert {kind for kind, subject in owed(group) if subject == first["node_id"]} >= {EMBED}
    with unit_of_work() as connection:
        before = actions.find_reflection(connection, group, row["reflection_id"])
        connection.execute(text("DELETE FROM events WHERE group_id = :g"), {"g": group})
        after = actions.find_reflection(connection, group, row["reflection_id"])
    assert before is not None and before.thoughts
    assert after == before, "it shows its thoughts after their events were pruned"


def test_a_bad_reply_keeps_nothing_and_the_next_attempt_makes_one_set(group: str, llm: Scripted) -> None:
    """An LLM that is away costs no attempt."""
    live(group, 40)
    before = counters(group)

    def fails_at(kind: type[Question[Any]], number: int) -> Callable[[Question[Any]], None]:
        places = count(1)

        def fail(question: Question[Any]) -> None:
            if isinstance(question, kind) and next(places) == number:
                raise BadReply(f"no use: {kind.__name__}")

        return fail

    for attempt, (kind, number) in enumerate(((FocalPoints, 1), (Poignancy, 2)), 1):
        llm.before = fails_at(kind, number)
        assert run() == 0
        (row,) = reflection_rows(group)
        assert (row["state"], row["error"]) == ("waiting", f"no use: {kind.__name__}")
        assert (row["attempts"], thoughts(group), counters(group)) == (attempt, [], before)
        assert rows("SELECT * FROM node_access WHERE group_id = :g AND access_count > 0", g=group) == []
    llm.before = Mock(side_effect=LLMUnavailable("no route"))
    for _ in range(MAX_ATTEMPTS + 2):
        assert run() == 0
    (pending,) = rows("SELECT * FROM pending_work WHERE group_id = :g AND kind = 'reflect'", g=group)
    assert (pending["attempts"], pending["last_error"]) == (2, "no route")
    assert reflection_rows(group)[0]["state"] == "waiting"
    llm.before = lambda question: None
    assert run() == 1
    (row,) = reflection_rows(group)
    assert (row["state"], row["error"]) == ("done", None)
    assert (len(thoughts(group)), counters(group)) == (6, (150, 0))


def test_bad_replies_for_ever_end_as_a_dead_letter(group: str, llm: Scripted) -> None:
    live(group, 40)
    llm.before = Mock(side_effect=BadReply("gibberish"))
    for _ in range(MAX_ATTEMPTS):
        run()
    (letter,) = rows("SELECT * FROM dead_letters WHERE group_id = :g", g=group)
    assert (letter["kind"], letter["state"]) == (REFLECT, "open")
    assert "gibberish" in letter["reason"]
    assert told(group, reflection_rows(group)[0]["reflection_id"])[0] == "given up"


@pytest.mark.parametrize(
    ("mode", "meanwhile", "lowered", "expected"),
    [
        ("recent", 40, None, (-10, 40)),  # enough: the next one is owed at once
        ("recent", 0, 50, (50, 0)),  # a trigger that is set lower calls for no second reflection
        ("stanford", 3, None, (150, 0)),  # as the original does
    ],
)
def test_what_happens_meanwhile_counts_towards_the_next_reflection(
    group: str, llm: Scripted, mode: str, meanwhile: int, lowered: int | None, expected: tuple[float, int]
) -> None:
    configure(group, mode=mode)
    live(group, 40)

    def happens(question: Question[Any]) -> None:
        if isinstance(question, FocalPoints) and len(nodes(group)) == 40:
            live(group, meanwhile, start=100)
            if lowered is not None:
                configure(group, importance_trigger_max=lowered)

    llm.before = happens
    assert run() == 1
    assert counters(group) == expected
    again = REFLECT in {kind for kind, _ in owed(group)}
    assert again == (expected[0] <= 0)
    if again:
        assert run() == 1
        assert [row["state"] for row in reflection_rows(group)] == ["done", "done"]
        assert len(thoughts(group)) > 6


def test_an_attempt_that_was_taken_for_dead_writes_nothing(group: str, llm: Scripted) -> None:
    live(group, 40)
    inner: list[int] = []

    def stalls(question: Question[Any]) -> None:
        if isinstance(question, Insights) and not inner:
            inner.append(0)
            inner[0] = run()  # its lease has run out: another worker does all of it

    llm.before = stalls
    run()
    assert inner == [1]
    assert len(thoughts(group)) == 6
    (row,) = reflection_rows(group)
    assert (row["state"], row["attempts"]) == ("done", 2)


def test_what_stops_a_reflection_before_or_after_the_llm_is_told_too(
    group: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(group, 1)
    reflection_id = request_reflection.perform(Actor(group), OfAgent(agent_id="klaus")).id
    assert told(group, reflection_id) == ("owed", None)
    with monkeypatch.context() as patch:
        patch.setattr(llms, "llm", Mock(side_effect=SettingsError("JIYI_LLM: unknown provider 'openia'")))
        run()
    assert told(group, reflection_id) == ("owed", "JIYI_LLM: unknown provider 'openia'")
    monkeypatch.setattr("tasks.reflection.store", Mock(side_effect=RuntimeError("the disk is full")))
    run()
    assert told(group, reflection_id) == ("running", "RuntimeError: the disk is full")
    for _ in range(MAX_ATTEMPTS):
        run()
    assert told(group, reflection_id) == ("given up", "RuntimeError: the disk is full")


def test_nothing_but_idle_memories_is_nothing_to_think_about(group: str, llm: Scripted) -> None:
    save(*[observed(group, "desk is idle", poignancy=10) for _ in range(15)])
    tasks.run_until_idle(ACCUMULATE, accumulate)
    assert run() == 1
    (row,) = reflection_rows(group)
    assert (row["state"], row["error"]) == ("nothing", "there are no memories to think about")
    assert counters(group) == (150, 0)
    assert llm.asked == []


# Conversations


def ended(group: str, **fields: Any) -> UUID:
    payload = {name: fields.pop(name) for name in ("partner", "chat_ids") if name in fields}
    envelope = {
        "type": "session.ended",
        "group_id": group,
        "agent_id": "klaus",
        "occurred_at": AT + timedelta(hours=1),
    }
    event = build({**envelope, **fields, "payload": payload})
    save(event)
    return event.event_id


def chat(group: str, words: str, partner: str = "Maria", session: str = "s1", **fields: Any) -> UUID:
    event = observed(
        group,
        f"klaus and {partner} talk",
        node_type="chat",
        session_id=session,
        utterances=[["klaus", "Hi"], [partner, words]],
        **fields,
    )
    save(event)
    return event.event_id


def converse() -> int:
    return run(REFLECT_CONVERSATION, reflect_on_conversation)


def test_a_conversation_leaves_two_thoughts_and_the_counters_as_they_are(group: str, llm: Scripted) -> None:
    live(group, 3)
    before = counters(group)
    chat_id = chat(group, "bring the map")
    event_id = ended(group, session_id="s1", partner="Maria")
    assert (REFLECT_CONVERSATION, event_id) in owed(group)
    assert converse() == 1
    planning, memo = thoughts(group)
    assert planning["description"] == "For klaus's planning: should bring Maria the map on Friday."
    assert memo["description"] == "klaus found the map interesting."
    assert planning["filling"] == memo["filling"] == [str(chat_id)]
    check_fields(planning, session_id="s1", depth=1, created_at=AT + timedelta(hours=1))
    assert planning["provenance"]["prompt"] == "planning@2"
    assert counters(group) == before
    (row,) = reflection_rows(group)
    check_fields(row, reflection_id=event_id, trigger="conversation", state="done", thoughts=2)
    ended(group, session_id="s1", event_id=event_id)  # again
    assert REFLECT_CONVERSATION not in {kind for kind, _ in owed(group)}


def test_a_chinese_conversation_leaves_chinese_thoughts(group: str, llm: Scripted) -> None:
    save(
        observed(
            group,
            "林岚和小满聊排班",
            "林岚",
            node_type="chat",
            session_id="s",
            utterances=[["小满", "周六全天都行"]],
        )
    )
    ended(group, session_id="s", agent_id="林岚")
    assert converse() == 1
    assert [thought["description"] for thought in thoughts(group)] == [
        "林岚接下来要记着：should bring 小满 the map on Friday.",
        "林岚found the map interesting.",
    ]
    assert {question.language for question in llm.asked[:1]} == {"zh"}


def test_only_the_chats_with_the_partner_count_or_those_named(group: str, llm: Scripted) -> None:
    with_maria, with_adam = chat(group, "one"), chat(group, "two", "Adam")
    other_session = chat(group, "three", session="s2")
    evidence = []
    for conversation in (
        {"session_id": "s1", "partner": "Adam"},
        {"session_id": "s1"},
        {"chat_ids": [str(other_session)]},
    ):
        ended(group, **conversation)
        assert converse() == 1
        evidence.append([thought["filling"] for thought in thoughts(group)[-2:]])
    expected = [[with_adam], [with_maria, with_adam], [other_session]]
    assert evidence == [[list(map(str, ids))] * 2 for ids in expected]


def test_a_session_without_a_chat_or_without_words_is_told_and_does_no_harm(
    group: str, llm: Scripted
) -> None:
    live(group, 1)
    event_id = ended(group, session_id="s1", partner="Maria")
    assert converse() == 1
    (row,) = reflection_rows(group)
    assert (row["state"], row["error"]) == ("nothing", "the session s1 has no memory of type chat with Maria")
    assert (REFLECT_CONVERSATION, event_id) not in owed(group)
    # No utterances.
    save(observed(group, "klaus and Maria talk", node_type="chat", session_id="s1", evidence=[str(uuid4())]))
    ended(group, session_id="s1", partner="Maria")
    assert converse() == 1
    assert [(row["state"], row["thoughts"]) for row in reflection_rows(group)] == [("nothing", 0)] * 2
    assert llm.asked == []
    said = chat(group, "bring the map")
    ended(group, session_id="s1", partner="Maria")
    assert converse() == 1
    assert [thought["filling"] for thought in thoughts(group)] == [[str(said)]] * 2


def test_chats_that_were_named_and_are_late_are_waited_for(group: str, llm: Scripted) -> None:
    live(group, 1)
    chat_id = uuid4()
    ended(group, chat_ids=[str(chat_id)])
    assert converse() == 0
    assert "no such chat" in reflection_rows(group)[0]["error"]
    chat(group, "late", event_id=chat_id)
    assert converse() == 1
    assert len(thoughts(group)) == 2
