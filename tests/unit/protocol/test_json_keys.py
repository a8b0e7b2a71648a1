"""jiyi.protocol.wire.json_checks: an object that says something twice is refused, wherever it stands."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from jiyi.protocol import event_bodies
from jiyi.protocol.wire.json_checks import gives_each_once, keys_in, load, repeated_in, repeated_key


def test_a_key_that_is_given_twice_is_found() -> None:
    twice = '{"a": 1, "a": 2}'
    for text, key in {
        twice: "a",
        '{"a": 1, "\\u0061": 2}': "a",  # the same key, written otherwise
        '[1, {"b": {"c": [{"x": 1, "y": 2, "x": 1}]}}]': "x",
        '{"书": 1, "书": 1}': "书",
        '{"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]}': None,
        '{"a": "\\"a\\": 1, \\"a\\": 2"}': None,
        "no JSON": None,
        "[" * 100_000: None,
        "[" * 900 + twice + "]" * 900: "a",
    }.items():
        assert repeated_key(text) == repeated_key(text.encode()) == key
        try:
            value = load(text)
        except (ValueError, RecursionError):
            assert key is None
        else:
            assert repeated_in(value) == key


def event(**fields: object) -> str:
    head = {"type": "memory.observed", "event_id": str(uuid4()), "group_id": "g", "agent_id": "a"}
    return json.dumps({**head, **fields})


def test_of_a_message_only_the_event_that_repeats_a_key_is_refused() -> None:
    good = event(payload={"description": "fine"})
    bad = event(payload={"description": "mine"})[:-1] + ', "group_id": "another"}'
    worse = event(payload={"description": "x", "metadata": {"a": 1}}).replace('"a": 1', '"a": 1, "a": 2')
    found = event_bodies.decode(f'{{"events": [{good}, {bad}, {worse}]}}'.encode())
    assert [one.payload.description for one in found.events] == ["fine"]  # type: ignore[union-attr]
    assert [reason.split(":")[0] for _, reason in found.rejected] == ["group_id", "a"]
    alone = event_bodies.decode(bad.encode())
    assert (alone.events, alone.rejected[0][0]) == ([], bad)  # kept as it came
    frame = event_bodies.decode(f'{{"events": [{good}], "events": []}}'.encode())
    assert (frame.events, len(frame.rejected)) == ([], 1)


def written(value: Any, gap: str) -> str:
    """A JSON text in which objects are lists of (key, value), so that they may give a key twice."""
    if isinstance(value, tuple):
        return "{" + ",".join(f"{json.dumps(key)}{gap}:{written(item, gap)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, gap) for item in value) + "]"
    return json.dumps(value)


names = st.sampled_from(["a", "b", 'a"', '":', 'a":1', "\\", "\\u0041", " :"])
leaves = names | st.integers(0, 3) | st.none()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(names, inner), max_size=3).map(tuple),
)


@given(values, st.sampled_from(["", " ", "\n\t"]))
def test_what_is_said_to_give_each_key_once_does(value: Any, gap: str) -> None:
    text = written(value, gap).encode()
    if gives_each_once(text, keys_in(json.loads(text))):
        assert repeated_key(text) is None
