"""Exhausting the web's memory with bodies that become many times their size.

Those that are refused before anything looks into them are cut off: a parser would find no JSON.
"""

from __future__ import annotations

import threading

import pytest

from jiyi.protocol import limits
from tests.integration.programs import Program
from web.api import bodies
from web.api.bodies import ROOM, BodyRoom

#: Seconds after which a test that waits has failed, and no time to wait.
PATIENCE, SOON = 60.0, 0.05
TEA = {"agent_id": "klaus", "description": "tea " * 4_000}


def test_a_body_of_more_than_a_megabyte_is_refused_before_it_is_looked_at(api: Program) -> None:
    body = b'{"x": [' + b"{}," * (5 * limits.BODY_BYTES)
    for method, address in (
        ("POST", "/retrieve"),
        ("POST", "/actions/agents.list"),
        ("POST", "/memory/query"),
        ("PATCH", "/agents/klaus/settings"),
    ):
        answer = api.ask(method, address, 413, data=body, content_type="application/json")
        assert "more than 1,048,576 bytes" in answer.json["detail"]


@pytest.mark.parametrize("piece", [b"{}", b"[]", b'{"a":{"b":[]}}'])
def test_a_body_of_many_small_objects_is_refused_before_they_are_made(api: Program, piece: bytes) -> None:
    body = b'{"x": [' + b",".join([piece] * limits.MAX_VALUES)
    assert len(body) < limits.MAX_MESSAGE_BYTES
    for address in ("/events", "/actions/memory_import", "/conversations/memory_import", "/retrieve"):
        answer = api.ask("POST", address, 413, data=body, content_type="application/json")
        assert "more than" in answer.json["detail"]


def test_a_body_that_is_nested_too_deeply_is_no_json(api: Program) -> None:
    body = b'{"x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    assert api.ask("POST", "/events", data=body, content_type="application/json").status_code in (400, 422)


def test_events_and_imports_may_be_large(api: Program) -> None:
    events = [{**TEA, "description": f"{number} {TEA['description']}"} for number in range(100)]
    assert api.post("/events", {"events": events})["accepted"] == len(events)


def test_large_bodies_are_read_one_after_the_other() -> None:
    room = BodyRoom(100)
    first = room.take(60, SOON)
    assert (first, room.take(60, SOON)) == (60, 0)
    second = room.take(40, SOON)
    room.give_back(first)
    assert (second, room.take(60, SOON)) == (40, 60)


def test_one_that_is_larger_than_the_room_has_it_for_itself() -> None:
    room = BodyRoom(100)
    taken = room.take(1_000, SOON)
    assert (taken, room.take(1, SOON)) == (100, 0)
    room.give_back(taken)
    assert room.take(1, SOON) == 1


def test_who_waits_for_room_gets_it() -> None:
    room, taken = BodyRoom(100), []
    room.take(100, SOON)
    thread = threading.Thread(target=lambda: taken.append(room.take(50, PATIENCE)))
    thread.start()
    room.give_back(100)
    thread.join(PATIENCE)
    assert taken == [50]


def test_without_room_a_large_body_is_refused_and_a_small_one_is_not(
    api: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_PATIENCE", SOON)
    taken = ROOM.take(limits.BODIES_BYTES, SOON)
    try:
        answer = api.ask("POST", "/events", 503, json={"events": [TEA] * 5})
        assert int(answer.headers["Retry-After"]) > 0
        api.post("/events", {"agent_id": "klaus", "description": "Klaus likes tea."})
    finally:
        ROOM.give_back(taken)


def test_room_is_given_back_whatever_happens(api: Program) -> None:
    events = [TEA] * 10
    for body, status in (
        ({"events": events}, 202),
        ({"events": [*events, {}]}, 422),
        ({"events": 3, "x": "x" * 100_000}, 422),
    ):
        api.ask("POST", "/events", status, json=body)
        assert ROOM.taken == 0
