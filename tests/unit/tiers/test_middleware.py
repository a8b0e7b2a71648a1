"""jiyi.tiers.middleware: outputs are published beside the workflow, which never notices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from jiyi.client.outbox import MAX_WAITING, Outbox
from jiyi.errors import BrokerUnavailable, InvalidEvent
from jiyi.protocol.events import NodeExecuted
from jiyi.tiers.middleware import MemoryMiddleware, event_of

#: Seconds that a test waits at most; the thread is done long before.
PATIENCE = 30


class Broker:
    """Takes events, or fails as a broker does."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.events: list[NodeExecuted] = []
        self.calls: list[int] = []

    def observe_many(self, observations: Iterable[dict[str, Any]], /) -> list[Any]:
        events = [NodeExecuted.model_validate(event) for event in observations]
        self.calls.append(len(events))
        if self.failures:
            raise self.failures.pop(0)
        self.events += events
        return events


def of(output: Any, **fields: Any) -> NodeExecuted | None:
    made = event_of("judge", output, **({"group_id": "council"} | fields))
    return None if made is None else NodeExecuted.model_validate(made)


def event(output: Any, **fields: Any) -> NodeExecuted:
    made = of(output, **fields)
    assert made is not None
    return made


def test_the_event_says_who_where_and_how_sure() -> None:
    """The original writes the metadata before it adds the node's id, and has no group."""
    metadata = {"agent_id": "林岚", "confidence": 0.9, "model": "m"}
    output = {"content": "裁决：烧一次", "metadata": metadata, "other": 1}
    made = event(output, session_id="s1", node_type="vote", provenance={"run": 7})
    assert (made.group_id, made.agent_id, made.session_id) == ("council", "林岚", "s1")
    node: dict[str, Any] = {
        "node_id": "judge",
        "node_type": "vote",
        "node_name": None,
        "flags": [],
        "depth": 0,
    }
    said = {"output": "裁决：烧一次", "confidence": 0.9, "metadata": {"model": "m"}, "provenance": {"run": 7}}
    assert made.payload.model_dump() == node | said


@pytest.mark.parametrize(
    "output", [None, 7, " \n", {}, {"content": None}, {"content": 7}, {"content": " "}, ["x"], "\x00"]
)
def test_outputs_without_text_are_skipped(output: Any) -> None:
    assert of(output) is None


def test_somebody_always_speaks() -> None:
    options: tuple[dict[str, Any], ...] = (
        {},
        {"node_name": "The judge"},
        {"metadata": {"agent_id": "Ann"}},
        {"agent_id": "Bo"},
    )
    assert [event("x", **fields).agent_id for fields in options] == ["judge", "The judge", "Ann", "Bo"]


@pytest.mark.parametrize(
    ("metadata", "confidence", "left"),
    [
        ({"confidence": 0}, 0.0, {}),
        ({"confidence_score": 1}, 1.0, {}),
        ({"confidence": 85}, None, {"confidence": 85}),
        ({"confidence": "high"}, None, {"confidence": "high"}),
        ({"confidence": True}, None, {"confidence": True}),
        ({}, None, {}),
    ],
)
def test_a_confidence_that_is_none_leaves_the_output_unscored_and_verify_pending_becomes_a_flag(
    metadata: Any, confidence: Any, left: Any
) -> None:
    given = {**metadata, "verify_pending": bool(confidence)}
    made = event("fire once", metadata=given, flags=["reviewed"]).payload
    assert (made.output, made.confidence, made.metadata) == ("fire once", confidence, left)
    assert made.flags == ["reviewed", *(["verify_pending"] if confidence else [])]


@pytest.mark.parametrize(
    "metadata", [{"x": "y" * 9_000}, {"x": float("nan")}, {"x": "\x00"}, {"x": object()}, {"x": "\ud800"}]
)
def test_a_text_is_not_lost_for_its_metadata_its_length_or_a_character(metadata: dict[str, Any]) -> None:
    made = event({"content": "fi\x00re\ud800", "metadata": metadata})
    assert made.payload.output == "fire"
    assert made.payload.metadata["left_out"].startswith("metadata: ")
    made = event("x" * 100_001)
    assert (len(made.payload.output), made.payload.metadata) == (100_000, {"truncated_from": 100_001})


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"group_id": " "}, "group_id"),
        ({"colour": 1}, "unknown option 'colour': "),
        ({"flags": ["A b"]}, "flags.0"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidEvent, match=problem):
        of("fire once", **fields)


@pytest.mark.parametrize("failures", [0, 1])
def test_outputs_are_published_in_order_though_the_broker_was_away_and_given_back_as_they_are(
    failures: int,
) -> None:
    broker = Broker(*[BrokerUnavailable("away")] * failures)
    with MemoryMiddleware(broker) as memory:
        for number in range(250):
            output = {"content": f"said {number}"}
            assert memory.after_node("n", output, group_id="g") is output
        assert memory.after_node("n", None, group_id="g") is None
        assert memory.flush(PATIENCE)
    assert [made.payload.output for made in broker.events] == [f"said {number}" for number in range(250)]
    assert len({made.event_id for made in broker.events}) == 250
    counts = memory.counts
    assert (counts.published, counts.skipped, counts.refused, counts.lost) == (250, 1, 0, 0)


def test_the_workflow_does_not_wait_for_a_broker_that_hangs() -> None:
    begun, release = threading.Event(), threading.Event()

    class Hanging(Broker):
        def observe_many(self, observations: Iterable[dict[str, Any]], /) -> list[Any]:
            begun.set()
            release.wait(PATIENCE)
            return super().observe_many(observations)

    broker = Hanging()
    memory = MemoryMiddleware(broker)
    memory.after_node("n", "said first", group_id="g")
    assert begun.wait(PATIENCE)
    memory.after_node("n", "said meanwhile", group_id="g")
    assert not memory.flush(0.01)
    assert broker.events == []
    release.set()
    assert memory.flush(PATIENCE)
    assert memory.counts.published == 2
    memory.close()


def test_one_wrong_output_does_not_take_the_others_along() -> None:
    class Strict(Broker):
        def observe_many(self, observations: Iterable[dict[str, Any]], /) -> list[Any]:
            given = list(observations)
            if any(made["payload"]["output"] == "bad" for made in given):
                raise InvalidEvent(["0.payload.output: bad"])
            return super().observe_many(given)

    broker, said = Strict(), list[str]()
    with MemoryMiddleware(broker, on_failure=said.append) as memory:
        for text in ("good", "bad", "better"):
            memory.after_node("n", text, group_id="g")
    assert [made.payload.output for made in broker.events] == ["good", "better"]
    assert memory.counts.refused == 1
    assert said == ["an output is not remembered: 0.payload.output: bad"]


def test_a_wrong_call_is_counted_and_raises_nothing() -> None:
    def fail(sentence: str) -> None:
        raise RuntimeError(sentence)

    callbacks: list[Callable[[str], object] | None] = [None, fail]
    for on_failure in callbacks:
        memory = MemoryMiddleware(Broker(), on_failure=on_failure)
        assert memory.after_node("n", "text", group_id=" ") == "text"
        assert memory.after_node("n", "text", group_id="g", metadata=7) == "text"
        assert memory.counts.refused == 2


def test_what_finds_no_room_or_no_time_is_counted_as_lost() -> None:
    said: list[str] = []
    waiting = Outbox(Broker(*[BrokerUnavailable("away")] * 9), "an output", "outputs", on_failure=said.append)
    waiting.put(*[event("x").model_dump()] * (MAX_WAITING + 1))
    waiting.put(event("x").model_dump())
    waiting.close(0.05)
    waiting.put(event("too late").model_dump())
    assert waiting.counts.published == 0
    assert waiting.counts.lost - MAX_WAITING in (2, 3)  # what is tried just then is not counted
    assert (said[0], said[-1]) == ("an output is lost: 10,000 wait already", "an output is lost: closed")
