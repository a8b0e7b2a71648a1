"""Erasure and conversations: what a turn told goes with it, and no note of it is left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from jiyi.protocol.conversation_commands import IndustryWords
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.recall import PromptLine
from models.conversations import actions, injections
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tests.integration.conversations.talk import hurry, nodes, run, say
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.memory.test_inbox import rows

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")

SMALL_TALK = ["Hello there.", "Nice weather.", "Well then."]


def noted(group: str, query: str, node_ids: list[Any]) -> None:
    request = ContextRequest(agent_id="helper", query=query, session_id="s1")
    line = {"kind": "knowledge", "score": 1.0, "tokens": 9, "why": "place 1"}
    lines = [PromptLine.model_construct(node_id=node_id, **line) for node_id in node_ids]
    with unit_of_work() as connection:
        injections.note(connection, (group, "helper"), request, "general", 9, lines)


def told(group: str, **signals: Any) -> None:
    with unit_of_work() as connection:
        injections.update_profile(connection, (group, "helper"), ProfileSignals(**signals), datetime.now(UTC))


def test_a_person_goes_from_all_that_is_kept_of_conversations(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    say(group, *SMALL_TALK, f"I work at {name} and sons.")
    run()
    noted(group, f"where is {name}?", [])
    told(group, preferred_tools=[f"{name}'s kiln"])
    words = IndustryWords(industry="pottery", keywords={"master": [name]})
    actions.load_industry_keywords.perform(Actor(group, "test"), words)
    report = erase(group, person=name)
    assert {"experiences", "extraction_cursors", "injections", "user_profiles", "industry_keywords"} <= set(
        report["looked_through"]["tables"]
    )
    assert places(name, group=group) == []


def test_what_was_superseded_stays_so_when_the_newer_is_erased(group: str) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    run()
    second = say(group, *SMALL_TALK, "I live in Lisbon.", session_id="s2")
    hurry()
    run()
    erase(group, node_ids=[second[3]])
    [old] = nodes(group, "knowledge")
    assert old["superseded_by"] is None
    assert old["superseded_at"] is not None


def test_what_a_turn_told_goes_with_it_and_an_agent_with_all_that_is_kept(group: str) -> None:
    said = say(group, *SMALL_TALK, "I am allergic to peanuts.")
    run()
    [fact] = nodes(group, "knowledge")
    noted(group, "what may I eat?", [fact["node_id"]])
    told(group, industry="pottery")
    erase(group, node_ids=[said[3]])
    assert [row["kind"] for row in nodes(group)] == ["session"] * 3
    assert rows("SELECT 1 FROM injections WHERE group_id = :g", g=group) == []
    assert rows("SELECT 1 FROM user_profiles WHERE group_id = :g", g=group) == []
    told(group, industry="pottery")
    noted(group, "where do I live?", [])
    erase(group, agent_id="helper")
    for table in ("memory_nodes", "extraction_cursors", "user_profiles", "injections", "experiences"):
        assert rows(f"SELECT 1 FROM {table} WHERE group_id = :g", g=group) == [], table
