"""jiyi.protocol.events.content: item 16, whether two events of one id say the same."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic_core import from_json

from jiyi.protocol.events import Event, build, decode, encode
from jiyi.protocol.events.content import content, content_of, digest, digests_of, payload_json

ID = UUID("01978c00-0000-7000-8000-000000000001")


def observed(**fields: Any) -> Event:
    envelope = {name: fields.pop(name) for name in ("agent_id", "session_id", "occurred_at", "correlation_id") if name in fields}
    payload = {"description": "Klaus reads", "poignancy": 3, **fields}
    return build({"type": "memory.observed", "event_id": ID, "group_id": "g", "agent_id": "klaus", **envelope, "payload": payload})


def says(event: Event) -> str:
    return digest(content_of(event))


def as_stored(event: Event) -> str:
    """After PostgreSQL had it: other keys first, numbers as they are kept there."""
    kept = json.loads(payload_json(event), parse_float=lambda text: int(float(text)) if float(text) > 1e15 else float(text))
    return digest(content(event.type, event.agent_id, event.session_id, dict(reversed(kept.items()))))


SAME = [
    {},
    {"occurred_at": "2026-03-02T09:00:00Z"},
    {"correlation_id": "attempt 2"},
    {"vector": [0.1, 0.2], "embedding_model": "m"},
    {"node_type": "event"},
]
OTHER = [
    {"description": "Klaus sleeps"},
    {"poignancy": 4},
    {"agent_id": "maria"},
    {"session_id": "s"},
    {"node_type": "thought"},
    {"keywords": ["book"]},
    {"provenance": {"page": 2}},
    {"evidence": [uuid4()]},
]


@pytest.mark.parametrize("fields", SAME)
def test_16_the_same_again_says_the_same(fields: dict[str, Any]) -> None:
    assert says(observed(**fields)) == says(observed())


@pytest.mark.parametrize("fields", OTHER)
def test_16_anything_else_says_something_else(fields: dict[str, Any]) -> None:
    assert says(observed(**fields)) != says(observed())


def test_16_keywords_are_a_set() -> None:
    assert says(observed(keywords=["a", "b"])) == says(observed(keywords=["b", "a"]))


@pytest.mark.parametrize(
    "event",
    [
        observed(provenance={"z": 1e22, "a": 0.1, "n": None, "yes": True, "whole": 10**400, "text": "书"}, keywords=["书", "k"]),
        build({"type": "agent.configured", "event_id": ID, "group_id": "g", "agent_id": "a", "payload": {"mode": None, "recency_w": 2}}),
        build({"type": "session.ended", "event_id": ID, "group_id": "g", "agent_id": "a", "session_id": "s"}),
        build({"type": "node.executed", "event_id": ID, "group_id": "g", "agent_id": "a", "payload": {"node_id": "n", "output": "o"}}),
    ],
    ids=lambda event: str(event.type),
)
def test_16_it_is_the_same_on_the_wire_and_in_the_database(event: Event) -> None:
    (arrived,) = decode(encode([event])).events
    assert says(arrived) == says(event) == as_stored(event)
    assert from_json(payload_json(arrived)) == from_json(payload_json(event))


def test_16_null_takes_a_setting_back_which_is_not_nothing() -> None:
    def configured(**payload: Any) -> Event:
        return build({"type": "agent.configured", "group_id": "g", "agent_id": "a", "payload": payload})

    assert says(configured(mode=None)) != says(configured(recency_w=None))


def test_16_only_ids_that_somebody_chose_can_be_another_events() -> None:
    mine = observed()
    made = build({"type": "memory.observed", "group_id": "g", "agent_id": "a", "payload": {"description": "x"}})
    exported = observed(provenance={"appraised": {"poignancy": "p"}})
    assert digests_of([mine, made]) == {ID: says(mine)}
    assert digests_of([exported]) == {}
