"""Long texts become parts that say which they are, under ids that follow from the whole's."""

from __future__ import annotations

from unittest.mock import create_autospec
from uuid import UUID

import pytest

from jiyi import Client
from jiyi.client.steps import Transport
from jiyi.errors import InvalidEvent
from jiyi.protocol.event_bodies import decode
from jiyi.protocol.event_requests import EventsBody
from jiyi.protocol.limits import MAX_DESCRIPTION_CHARS
from jiyi.protocol.parts import parts_of
from jiyi.settings import Settings

WHOLE = "01a20035-2f03-73d2-9c51-b4d066f789da"
ENGLISH = "\n\n".join(
    " ".join([f"Sentence {number} of this paragraph is here."] * 40) for number in range(40)
)
CHINESE = "\n\n".join("我今天去了图书馆，借了一本书。" * 100 for _ in range(40))


HEAD = {"type": "memory.observed", "event_id": WHOLE, "group_id": "g", "agent_id": "a"}


def event(text, **payload):
    return {**HEAD, "payload": {"description": text, "provenance": {"source": "diary"}, **payload}}


@pytest.mark.parametrize(
    "text", [ENGLISH, CHINESE, ENGLISH.replace("\n\n", " "), CHINESE.replace("\n\n", "")]
)
def test_a_long_text_ends_its_parts_with_paragraphs_else_sentences_and_loses_nothing(text):
    parts = parts_of(event(text))
    texts = [part["payload"]["description"] for part in parts]
    assert len(texts) > 1
    assert max(map(len, texts)) <= MAX_DESCRIPTION_CHARS
    assert "".join("".join(texts).split()) == "".join(text.split())
    assert {part[-1] for part in texts} <= {".", "。"}
    assert [part["payload"]["provenance"]["part"] for part in parts] == [
        {"number": number, "of": len(parts), "whole": WHOLE} for number in range(1, len(parts) + 1)
    ]
    assert {part["payload"]["provenance"]["source"] for part in parts} == {"diary"}
    assert {part["correlation_id"] for part in parts} == {WHOLE}


def test_ids_follow_from_the_wholes_and_the_first_part_has_it():
    ids = [part["event_id"] for part in parts_of(event(ENGLISH))]
    assert ids == [part["event_id"] for part in parts_of(event(ENGLISH))]
    assert (ids[0], len(set(ids))) == (WHOLE, len(ids))
    assert {UUID(each).version for each in ids} == {7}, "a UUIDv7's parts stay at its place in the order"
    other = parts_of({**event(ENGLISH), "event_id": "fd78082b-f674-548c-910f-2eb291874e5c"})
    assert not set(ids) & {part["event_id"] for part in other}
    assert parts_of({**event(ENGLISH), "correlation_id": "mine"})[1]["correlation_id"] == "mine"


def test_short_texts_and_other_events_stay_as_they_are_and_what_is_of_the_whole_is_not_repeated():
    others = {"type": "session.ended", "payload": {}}, {"type": 3}, {"payload": 1}
    for whole in (event("short"), *others, event(7)):
        assert parts_of(whole) == [whole]
    parts = parts_of(event(CHINESE, embedding_key="books", overview="a day", keywords=["书"], user_id="mia"))
    kept = {"description", "provenance", "keywords", "user_id"}
    assert all(part["payload"].keys() == kept for part in parts)
    with pytest.raises(InvalidEvent, match="vector"):
        parts_of(event(CHINESE, vector=[1.0], embedding_model="m"))


def test_a_body_is_split_where_it_asks_for_it_in_both_forms_and_refused_where_it_does_not():
    tiny = {"agent_id": "a", "description": "x", "split": True}
    short = {**tiny, "description": CHINESE, "event_id": WHOLE, "user_id": "mia"}
    events = EventsBody.model_validate(short).as_events("g")
    assert len(events) == len(parts_of(event(CHINESE)))
    assert (events[0].event_id, events[-1].payload.user_id) == (UUID(WHOLE), "mia")
    turn = {"type": "turn.recorded", "agent_id": "a", "session_id": "s", "split": True}
    said = {**turn, "payload": {"role": "user", "text": ENGLISH}}
    several = EventsBody.model_validate({"events": [tiny, said, short]}).as_events("g")
    assert [each.type for each in several][:2] == ["memory.observed", "turn.recorded"]
    assert len(several) == 1 + len(parts_of({**said, "event_id": WHOLE})) + len(events)
    assert len(EventsBody.model_validate(tiny).as_events("g")) == 1
    for wrong in ({"split": False}, {"agent_id": None}, {"description": 3}):
        with pytest.raises(ValueError, match=r"characters are more|agent_id|description"):
            EventsBody.model_validate({**short, **wrong})
    with pytest.raises(ValueError, match="events"):
        EventsBody.model_validate({"events": 3})


def test_a_client_splits_what_it_observes_where_it_is_asked_to_and_refuses_it_else():
    transport = create_autospec(Transport)
    client = Client("g", settings=Settings(), transport=transport)
    first = client.observe("a", ENGLISH, split=True, event_id=WHOLE)
    assert str(first) == WHOLE
    sent = decode(transport.publish.call_args.args[0]).events
    assert [part.payload.provenance["part"]["number"] for part in sent] == list(range(1, len(sent) + 1))
    client.add_turn("a", "user", CHINESE, "s", split=True)
    assert len(decode(transport.publish.call_args.args[0]).events) > 1
    pair = [{"agent_id": "a", "description": text} for text in (ENGLISH, "x")]
    assert len(client.observe_many(pair, split=True)) > 2
    with pytest.raises(InvalidEvent, match="characters are more than"):
        client.observe("a", ENGLISH)
