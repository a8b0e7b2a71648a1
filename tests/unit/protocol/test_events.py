"""jiyi.protocol.events: what is accepted, what is refused and how that is said, and the form on the wire."""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.memory import derive
from jiyi.errors import InvalidEvent
from jiyi.protocol import event_bodies, limits
from jiyi.protocol import events as wire

MISSING = object()


def observed(*, envelope: dict[str, Any] | None = None, **payload: Any) -> dict[str, Any]:
    """A good event, with fields of it replaced, added or (MISSING) left out."""
    head = {"type": "memory.observed", "event_id": str(uuid4()), "group_id": "g", "agent_id": "klaus"}
    event = head | {"payload": {"description": "a cup"} | payload} | (envelope or {})
    return {name: value for name, value in event.items() if value is not MISSING}


def configured(**payload: Any) -> dict[str, Any]:
    return observed(envelope={"type": "agent.configured", "payload": payload})


def body_of(event: Any) -> bytes:
    return json.dumps(event).encode()


def packed(*values: float) -> str:
    return base64.b64encode(np.array(values, "<f4").tobytes()).decode()


def nested(depth: int, **envelope: Any) -> bytes:
    """A good event whose provenance holds lists in lists."""
    body = body_of(observed(envelope=envelope, provenance={"deep": "HERE"}))
    return body.replace(b'"HERE"', b"[" * depth + b"]" * depth)


BAD = [
    (observed(envelope={"type": "memory.imagined"}), "type", "memory.imagined"),
    (observed(envelope={"type": MISSING}), "type", "required"),
    (observed(envelope={"event_id": "not-a-uuid"}), "event_id", ""),
    (observed(envelope={"occurred_at": "2026-03-02T07:15:00"}), "occurred_at", "timezone"),
    (observed(node_type="dream"), "payload.node_type", "thought"),
    (observed(description=" \n\u3000"), "payload.description", "blank"),
    (observed(description="记" * 20_001), "payload.description", "20,001"),
    (observed(description="a\0b"), "payload.description", "NUL"),
    (observed(description="a\ud83d"), "payload.description", "nicode"),
    (observed(embedding_key=" "), "payload.embedding_key", "blank"),
    (observed(keywords=[f"k{i}" for i in range(65)]), "payload.keywords", "64"),
    (observed(keywords="tea"), "payload.keywords", "list"),
    (observed(poignancy=0), "payload.poignancy", "1"),
    (observed(evidence=["node_1"]), "payload.evidence.0", "UUID"),
    (observed(evidence=[str(UUID(int=1))] * 1_001), "payload.evidence", "1,000"),
    (observed(utterances=[["Klaus"]]), "payload.utterances.0", ""),
    (observed(expires_at="2026-03-02T07:15:00"), "payload.expires_at", "timezone"),
    (observed(vector=[1, 2]), "payload", "embedding_model"),
    (observed(vector=[1, math.nan], embedding_model="m"), "payload.vector", "finite"),
    (observed(vector=packed(0, 0), embedding_model="m"), "payload.vector", "zero"),
    (observed(provenance={"x": "y" * 8_192}), "payload.provenance", "8,192"),
    (observed(provenance={"x": ["a\0"]}), "payload.provenance", "NUL"),
    (observed(provenance={"a\0": 1}), "payload.provenance", "NUL"),
    (observed(provenance={"x": math.nan}), "payload.provenance", ""),
    (observed(provenance={"x": "\ud83d"}), "payload.provenance", "surrogate"),
    (observed(provenance=[1]), "payload.provenance", ""),
    (configured(mood="good"), "payload.mood", "unknown option"),
    (configured(dedupe="fuzzy"), "payload.dedupe", "exact"),
    (configured(recency_w=float("nan")), "payload.recency_w", "finite"),
    (configured(recency_decay=1.01), "payload.recency_decay", "1"),
    (configured(counters={"importance_trigger_curr": 5}), "payload.counters.importance_ele_n", "required"),
    (
        configured(counters={"importance_trigger_curr": 5, "importance_ele_n": 1, "x": 1}),
        "payload.counters.x",
        "",
    ),
]


def assert_names(reason: str, field: str, words: str) -> None:
    assert re.match(rf"({re.escape(field)}(\.[^:]+)?|unknown option '{re.escape(field)}'): ", reason), reason
    assert words in reason
    assert len(reason) < 400, "a message must not repeat megabytes"


@pytest.mark.parametrize(("event", "field", "words"), BAD)
def test_a_bad_event_is_refused_and_in_a_message_rejected_with_the_field_and_the_reason(
    event: Any, field: str, words: str
) -> None:
    with pytest.raises(InvalidEvent) as caught:
        wire.build(event)
    assert len(caught.value.problems) == 1, caught.value.problems
    assert_names(caught.value.problems[0], field, words)
    decoded = event_bodies.decode(body_of(event))
    assert decoded.events == []
    ((body, reason),) = decoded.rejected
    assert_names(reason, field, words)
    assert_can_be_buried(body, reason)


def assert_can_be_buried(body: str, reason: str) -> None:
    """PostgreSQL's text takes neither NUL nor half a surrogate pair; a dead letter needs both columns."""
    for text in (body, reason):
        assert "\0" not in text
        text.encode()


def test_names_cannot_spoil_the_dead_letter_of_their_event() -> None:
    names = ("a\0b", "a\ud83d", "记忆", "x" * 5_000)
    bad = observed(provenance={"a\0": "b\0", "c\ud83d": "d\ud83d"})
    for event in (bad, *(configured(**{name: 1}) for name in names)):
        decoded = event_bodies.decode(body_of(event))
        assert decoded.events == []
        assert_can_be_buried(*decoded.rejected[0])


@pytest.mark.parametrize(
    "event",
    [
        observed(description="记" * 20_000),
        observed(keywords=[f"k{i}" for i in range(64)], poignancy=1),
        observed(keywords=[], poignancy=10),
        observed(vector=[1.0] * 4_096, embedding_model="m"),
        observed(evidence=[str(UUID(int=i)) for i in range(1_000)]),
        observed(provenance={"path": r"C:\u0000\logs"}),
        observed(envelope={"agent_id": "x" * 200, "session_id": None}),
        configured(),
        configured(recency_decay=1, recency_w=0, relevance_w=100),
        configured(mode=None),
    ],
)
def test_what_is_just_within_the_limits_is_accepted(event: dict[str, Any]) -> None:
    assert wire.build(event)
    decoded = event_bodies.decode(body_of(event))
    assert decoded.rejected == []
    assert len(decoded.events) == 1


def test_an_event_gets_an_id_and_a_time_when_it_brings_none() -> None:
    before = datetime.now(UTC)
    bare = observed(envelope={"event_id": MISSING})
    first, second = wire.build(bare), wire.build(bare)
    assert first.event_id != second.event_id
    assert first.event_id.version == 7
    assert before <= first.occurred_at <= datetime.now(UTC)


def test_unknown_fields_are_ignored_at_every_level_of_an_observation() -> None:
    event = observed(envelope={"priority": 3}, mood="good")
    decoded = event_bodies.decode(body_of(event))
    assert decoded.rejected == []
    assert "mood" not in decoded.events[0].payload.model_dump()
    assert "priority" not in decoded.events[0].model_dump()


def test_what_limits_who_reads_it_is_refused_beside_a_payload() -> None:
    for name in ("user_id", "visibility", "origin", "trust"):
        ((_, reason),) = event_bodies.decode(body_of(observed(envelope={name: "ann"}))).rejected
        assert f"{name}: belongs inside payload" in reason
        assert not event_bodies.decode(body_of(observed(envelope={name: None}))).rejected


def test_several_wrong_fields_are_all_named_in_one_reason() -> None:
    event = observed(envelope={"agent_id": ""}, poignancy=0, node_type="dream")
    with pytest.raises(InvalidEvent) as caught:
        wire.build(event)
    ((_, reason),) = event_bodies.decode(body_of(event)).rejected
    for problem, field in zip(
        sorted(caught.value.problems), ("agent_id", "payload.node_type", "payload.poignancy"), strict=True
    ):
        assert problem.startswith(f"{field}: ")
        assert problem in reason


def test_on_the_wire_an_event_needs_an_id_or_a_second_delivery_would_be_a_second_event() -> None:
    both = {"events": [observed(envelope={"event_id": MISSING}), good := observed()]}
    for body in (body_of(both), json.dumps(both, separators=(",", ":")).encode()):
        decoded = event_bodies.decode(body)
        assert [event.event_id for event in decoded.events] == [UUID(good["event_id"])]
        assert "event_id: required" in decoded.rejected[0][1]


def test_a_list_of_events_is_read_however_it_is_spaced() -> None:
    sent = [observed(description="甲"), observed(description="乙")]
    (alone,) = event_bodies.decode(body_of(sent[0])).events
    for form in ('{"events":%s}', ' { "events" : %s }\n', '{"sender":"x","events":%s,"y":1}'):
        found = event_bodies.decode((form % json.dumps(sent, ensure_ascii=False)).encode()).events
        assert [event.payload.description for event in found] == ["甲", "乙"]
        assert found[0].event_id == alone.event_id
        empty = event_bodies.decode((form % "[]").encode())
        assert (empty.events, empty.rejected) == ([], [])


def test_one_bad_event_of_three_does_not_take_the_others_along() -> None:
    events = [observed(description="first"), observed(description=""), observed(description="third")]
    decoded = event_bodies.decode(body_of({"events": events}))
    assert [event.payload.description for event in decoded.events] == ["first", "third"]
    ((body, reason),) = decoded.rejected
    assert body == json.dumps(events[1])  # kept as it came
    assert reason.startswith("payload.description: ")


NO_MESSAGES = {
    "not JSON": {
        "empty": b"",
        "cut off": "{记忆".encode(),
        "bytes": b"\xff\xfe\x00",
        "broken inside": b'{"events":[{]}',
        "closed by the wrong bracket": b'{"events":[%s]]' % body_of(observed()),
        "a number of 5,000 digits": b"1" * 5_000,
        "100,000 brackets": b"[" * 100_000,
        "100,000 braces, closed": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "100,000 brackets as events": b'{"events":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    },
    "value: ": {"a number": b"7", "null": b"null", "a list of a good event": b"[%s]" % body_of(observed())},
    "type: ": {"an empty object": b"{}"},
    "events: ": {"events an object": b'{"events":{"0":{}}}', "events null": b'{"events":null}'},
}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(body, words, id=name)
        for words, bodies in NO_MESSAGES.items()
        for name, body in bodies.items()
    ],
)
def test_what_is_no_message_is_rejected_whole(body: bytes, words: str) -> None:
    decoded = event_bodies.decode(body)
    assert decoded.events == []
    ((text, reason),) = decoded.rejected
    assert reason.startswith(words)
    assert_can_be_buried(text, reason)


@pytest.mark.parametrize("form", [b'{"events":[%s]}', b'{ "events": [%s] }'])
def test_too_many_events_in_a_message_are_refused(form: bytes) -> None:
    most = limits.MAX_EVENTS_PER_MESSAGE
    assert len(event_bodies.decode(form % b",".join([body_of(observed())] * most)).events) == most
    decoded = event_bodies.decode(form % b",".join([body_of(observed())] * (most + 1)))
    assert decoded.events == []
    assert decoded.rejected[0][1].startswith(f"events: {most + 1} are more than {most}")


@pytest.mark.parametrize("depth", [5, 190, *range(240, 262), 500, 950, 2_000, 100_000])
def test_however_deep_the_nesting_what_is_accepted_can_be_passed_on(depth: int) -> None:
    decoded = event_bodies.decode(nested(depth))
    assert len(decoded.events) + len(decoded.rejected) == 1
    for event in decoded.events:
        assert event_bodies.decode(event_bodies.encode([event])).events == [event]
    bad = event_bodies.decode(nested(depth, agent_id=""))
    assert bad.events == []
    assert_can_be_buried(*bad.rejected[0])


@pytest.mark.parametrize(
    "occurred_at", ["9999-12-31T23:59:59Z", "9999-12-15T00:00:00+00:00", "0001-01-01T00:00:00Z"]
)
def test_a_thought_at_the_end_of_time_is_refused_or_can_be_stored(occurred_at: str) -> None:
    """Thirty days later must not fall off the calendar inside the intake."""
    thought = observed(envelope={"occurred_at": occurred_at}, node_type="thought")
    decoded = event_bodies.decode(body_of(thought))
    for event in decoded.events:
        expires_at = derive(event).expires_at
        assert expires_at is not None
        assert expires_at >= event.occurred_at
    for _, reason in decoded.rejected:
        assert reason.startswith("occurred_at: ")


EXAMPLES = [
    "林岚在渡口的书店读一本关于城市更新的书",
    "🧠💭 记忆",
    "👩‍👩‍👧 café",
    '"quoted" \\ and /',
    "ＡＢＣ",
]
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40),
    st.sampled_from(EXAMPLES),
).filter(lambda text: text.strip() != "")
times = st.datetimes(
    datetime(1900, 1, 1),
    datetime(2500, 1, 1),
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
vectors = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=5).filter(
    lambda values: any(abs(v) > 1e-3 for v in values)
)


@st.composite
def observations(draw: st.DrawFn) -> dict[str, Any]:
    optional = dict.fromkeys(("embedding_key", "subject", "predicate", "object"), texts) | {
        "node_type": st.sampled_from(["event", "thought", "chat"]),
        "keywords": st.lists(texts, max_size=3),
        "poignancy": st.floats(1, 10),
        "evidence": st.lists(st.uuids(), max_size=3),
        "utterances": st.lists(st.tuples(texts, texts), max_size=3),
        "expires_at": times,
        "historic": st.booleans(),
        "provenance": st.dictionaries(texts, json_values, max_size=2),
    }
    fields = st.fixed_dictionaries({"description": texts}, optional=optional)
    payload = draw(fields)
    if draw(st.booleans()):
        payload |= {"vector": draw(vectors), "embedding_model": draw(texts)}
    return {"type": "memory.observed", "payload": payload}


configurations = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["recent", "elapsed", "stanford"]),
        "recency_w": st.floats(0, 100),
        "recency_decay": st.floats(0, 1, exclude_min=True),
        "dedupe": st.sampled_from(["off", "exact"]),
        "importance_trigger_max": st.integers(1, 1_000_000),
        "counters": st.fixed_dictionaries(
            {"importance_trigger_curr": st.floats(-1e6, 1e6), "importance_ele_n": st.integers(0, 9)}
        ),
    },
).map(lambda payload: {"type": "agent.configured", "payload": payload})
envelopes = st.fixed_dictionaries(
    {"group_id": texts, "agent_id": texts},
    optional={"event_id": st.uuids(), "occurred_at": times, "session_id": texts, "correlation_id": texts},
)
any_event = st.builds(
    lambda event, envelope: wire.build(event | envelope), observations() | configurations, envelopes
)


@given(st.lists(any_event, min_size=1, max_size=4))
def test_what_is_encoded_is_decoded_again(events: list[wire.Event]) -> None:
    decoded = event_bodies.decode(event_bodies.encode(events))
    assert decoded.rejected == []
    assert decoded.events == events


@given(
    st.binary(max_size=60)
    | json_values.map(body_of)
    | json_values.map(lambda value: body_of({"events": [value]}))
)
def test_decode_never_raises(body: bytes) -> None:
    decoded = event_bodies.decode(body)
    assert decoded.events == []
    for text, reason in decoded.rejected:
        assert_can_be_buried(text, reason)


def test_retention_needs_the_whole_triple_it_compares() -> None:
    triple = {"subject": "a", "predicate": "b", "object": "c"}
    assert wire.build(observed(**triple, retention=5)).payload.retention == 5
    for missing in triple:
        with pytest.raises(InvalidEvent, match="retention compares"):
            wire.build(observed(**{**triple, missing: ""}, retention=5))


@pytest.mark.parametrize("events", [1, 2])
def test_what_an_event_says_is_not_kept_by_the_reader_of_json(events: int) -> None:
    body = event_bodies.encode([wire.build(observed(description="Anna has asthma")) for _ in range(events)])
    said, again = (event_bodies.decode(body).events[0] for _ in range(2))
    assert isinstance(said, wire.MemoryObserved) and isinstance(again, wire.MemoryObserved)
    assert said.payload.description == again.payload.description
    assert said.payload.description is not again.payload.description
