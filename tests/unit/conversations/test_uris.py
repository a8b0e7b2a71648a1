"""Addresses of memories, limits of what is extracted, and answers seen against the messages."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from engine.conversations.notes import Notes
from engine.providers.llm_prompts import block_of
from engine.providers.questions import Extraction, KnownFact
from engine.rules.provider import Rules
from jiyi.cli.transfer import EventTarget, address_of
from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.conversations import (
    ExtractedExperience,
    ExtractedMemory,
    Message,
    ProfileSignals,
    parse_uri,
    uri_of,
)
from jiyi.protocol.event_requests import EventsBody

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name.strip() != ""
)


@given(agent=NAMES, path=st.lists(NAMES, max_size=3))
def test_an_address_has_the_parts_that_it_was_made_of(agent: str, path: list[str]) -> None:
    assert parse_uri(uri_of(agent, "knowledge", *path)) == (agent, "knowledge", tuple(path))


def test_names_stay_readable_and_a_final_slash_counts_for_nothing() -> None:
    assert uri_of("小伴", "preference", "饮食") == "agent://小伴/preference/饮食"
    assert uri_of("a/b", "session", "s 1") == "agent://a%2Fb/session/s%201"
    assert parse_uri("agent://a/") == ("a", None, ())
    assert parse_uri("agent://a/experience/") == ("a", "experience", ())


WRONG = """a/knowledge/x agent:// agent://%20/knowledge agent://a/../b agent://a/./knowledge agent://a//knowledge
    agent://a/secrets/x agent://a/knowledge/x?y agent://a/knowledge/%2"""


@pytest.mark.parametrize("wrong", ["", *WRONG.split(), "agent://a/knowledge/" + "x" * 1_000])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="agent"):
        parse_uri(wrong)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "knowledge"}, "kind and uri belong together"),
        ({"uri": "agent://a/knowledge/x"}, "kind and uri belong together"),
        ({"kind": "knowledge", "uri": "agent://a/preference/x"}, "no address of the kind knowledge"),
        ({"kind": "knowledge", "uri": "agent://a/../b"}, "no segment may be"),
        ({"kind": "knowledge", "uri": "agent://b/knowledge/x"}, "an address of another agent"),
    ],
)
def test_an_event_names_an_address_of_its_agent_and_kind_and_a_turn_its_session(
    fields: dict[str, str], problem: str
) -> None:
    seen = {"description": "x", **fields}
    with pytest.raises(InvalidEvent, match=problem):
        wire.made("memory.observed", ("g", "a"), DAY, seen)
    for body in (seen, {"type": "memory.observed", "payload": seen}):  # bug M3: the API took it
        with pytest.raises(ValidationError, match=problem):
            EventsBody.model_validate({"agent_id": "a", **body})
    with pytest.raises(InvalidEvent, match="session_id: required"):
        wire.made("turn.recorded", ("g", "a"), DAY, {"role": "user", "text": "x"})


def test_an_import_for_another_agent_takes_the_addresses_along() -> None:
    payload = {"description": "x", "kind": "knowledge", "uri": "agent://a/knowledge/food%2Fnuts"}
    event = {"event_id": str(uuid4()), "type": "memory.observed", "agent_id": "a", "payload": payload}
    placed = EventTarget(default_group="g", agent="b").place(event)
    assert placed["payload"]["uri"] == "agent://b/knowledge/food%2Fnuts"
    assert [address_of("b", other) for other in ("no address", 7)] == ["no address", 7]


DAY = datetime(2026, 5, 1, 9, tzinfo=UTC)
LIVED = {"pain_pattern": "p", "solution_steps": [], "outcome": "partial", "confidence": 1, "turns": [0]}


@pytest.mark.parametrize(
    ("model", "fields", "wrong"),
    [
        (ExtractedMemory, {"content": "x", "turns": []}, "turns"),
        (ExtractedMemory, {"content": "x", "importance": 0, "turns": [0]}, "importance"),
        (ExtractedMemory, {"content": "x", "importance": 10.5, "turns": [0]}, "importance"),
        (ExtractedExperience, {**LIVED, "outcome": "fine"}, "outcome"),
        (ProfileSignals, {"communication_style": "poetic"}, "communication_style"),
    ],
)
def test_an_answer_out_of_bounds_is_refused(
    model: type[BaseModel], fields: dict[str, object], wrong: str
) -> None:
    with pytest.raises(ValidationError, match=wrong):
        model.model_validate(fields)


def test_the_block_says_who_when_what_is_known_and_what_is_new_of_which_alone_the_rules_answer() -> None:
    question = Extraction(
        agent_id="helper",
        messages=[
            Message(role="user", text="My name is Anna.", at=DAY),
            Message(role="user", text="I moved to Porto.", name="Anna"),
        ],
        since=1,
        known=[
            KnownFact(content="Anna lives in Lisbon.", subject="Anna", attribute="home", single_valued=True)
        ],
    )
    text = block_of(Notes(**dict(question)), 10_000).text
    for line in (
        'about: "new are the lines from L1 on"',
        'S0: "Anna lives in Lisbon."',
        'L0: "user (user, 2026-05-01): My name is Anna."',
        'L1: "Anna (user): I moved to Porto."',
    ):
        assert line in text
    [memory] = Rules().ask(question).memories
    assert (memory.subject, memory.attribute, memory.turns) == ("Anna", "home", [1])
    assert memory.single_valued
