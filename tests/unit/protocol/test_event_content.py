"""jiyi.protocol.event_bodies: item 16, whether two events of one id say the same."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic_core import from_json

from jiyi.protocol.event_bodies import content, content_of, decode, digest, digests_of, encode, payload_json
from jiyi.protocol.events import Event, build

ID = UUID("01978c00-0000-7000-8000-000000000001")


def configured(**payload: Any) -> Event:
    return observed(type="agent.configured", payload=payload)


ENVELOPE = {"type", "agent_id", "session_id", "occurred_at", "correlation_id", "payload"}


def observed(**fields: Any) -> Event:
    """An event; fields of its envelope by their names, and what else is given in its payload."""
    head = {"type": "memory.observed", "event_id": ID, "group_id": "g", "agent_id": "klaus"}
    payload = {name: value for name, value in fields.items() if name not in ENVELOPE}
    head["payload"] = {"description": "Klaus reads", "poignancy": 3, **payload}
    return build(head | {name: value for name, value in fields.items() if name in ENVELOPE})


def says(event: Event) -> str:
    return digest(content_of(event))


def as_stored(event: Event) -> str:
    """After PostgreSQL had it: other keys first, numbers as they are kept there."""
    kept = json.loads(
        payload_json(event), parse_float=lambda text: int(float(text)) if float(text) > 1e15 else float(text)
    )
    return digest(content(event.type, event.agent_id, event.session_id, dict(reversed(kept.items()))))


def test_16_the_same_again_says_the_same_and_anything_else_something_else() -> None:
    same: list[dict[str, Any]] = [
        {},
        {"occurred_at": "2026-03-02T09:00:00Z"},
        {"correlation_id": "attempt 2"},
        {"node_type": "event"},
        {"vector": [0.1, 0.2], "embedding_model": "m"},
    ]
    other: list[dict[str, Any]] = [
        {"description": "Klaus sleeps"},
        {"poignancy": 4},
        {"agent_id": "maria"},
        {"session_id": "s"},
        {"node_type": "thought"},
        {"keywords": ["book"]},
        {"provenance": {"page": 2}},
        {"evidence": [uuid4()]},
    ]
    for fields in same + other:
        assert (says(observed(**fields)) == says(observed())) is (fields in same), fields
    assert says(observed(keywords=["a", "b"])) == says(observed(keywords=["b", "a"]))  # they are a set
    taken_back = {says(configured(**{name: None})) for name in ("mode", "recency_w")}
    assert len(taken_back) == 2  # null takes a setting back, which is not nothing


BOOK = {"z": 1e22, "a": 0.1, "n": None, "yes": True, "whole": 10**400, "text": "书"}


@pytest.mark.parametrize(
    "event",
    [
        observed(provenance=BOOK, keywords=["书", "k"]),
        configured(mode=None, recency_w=2),
        observed(type="session.ended", session_id="s", payload={}),
        observed(type="node.executed", payload={"node_id": "n", "output": "o"}),
    ],
    ids=lambda event: str(event.type),
)
def test_16_it_is_the_same_on_the_wire_and_in_the_database(event: Event) -> None:
    (arrived,) = decode(encode([event])).events
    assert says(arrived) == says(event) == as_stored(event)
    assert from_json(payload_json(arrived)) == from_json(payload_json(event))


def test_16_only_ids_that_somebody_chose_can_be_another_events() -> None:
    mine = observed()
    made = build(
        {"type": "memory.observed", "group_id": "g", "agent_id": "a", "payload": {"description": "x"}}
    )
    exported = observed(provenance={"appraised": {"poignancy": "p"}})
    assert digests_of([mine, made]) == {ID: says(mine)}
    assert digests_of([exported]) == {}
