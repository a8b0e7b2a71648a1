"""The recorder: what a chat program did, from its messages; each step once, none waited for."""

from __future__ import annotations

from typing import Any

import pytest

from jiyi.chat.chain import Chain, Exchange
from jiyi.chat.steps import StepRecorder, TrajectoryStage
from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.conversations.compaction import ChatMessage

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "invoice"}'}}
ASKED = ChatMessage(role="user", content="find the invoice")
CHAT = [
    ASKED,
    ChatMessage(role="assistant", tool_calls=[CALL]),
    ChatMessage(role="tool", tool_call_id="c1", content="one found"),
    ChatMessage(role="assistant", content="Here it is."),
]


def told(events: list[dict[str, Any]]) -> list[tuple[int, str, str | None]]:
    return [(one["payload"]["index"], one["payload"]["step_type"], one["payload"].get("tool")) for one in events]


def recorder() -> StepRecorder:
    return StepRecorder("g", clock=lambda: 1.0)


def test_an_answer_is_its_calls_results_and_text() -> None:
    found = recorder().answered("a", "s", [], CHAT)
    assert told(found) == [(0, "user_request", None), (1, "tool_call", "search"), (2, "tool_result", "search"), (3, "generation", None)]
    assert all(wire.build(one).type == "turn.step" for one in found)


def test_a_request_that_was_told_before_the_answer_is_not_told_again() -> None:
    one = recorder()
    assert told(one.asked("a", "s", "find the invoice", "2 memories")) == [(0, "user_request", None), (1, "retrieval", None)]
    assert told(one.answered("a", "s", [], CHAT)) == [(2, "tool_call", "search"), (3, "tool_result", "search"), (4, "generation", None)]


def test_the_whole_conversation_each_time_adds_only_what_is_new() -> None:
    one = recorder()
    one.answered("a", "s", [], CHAT)
    longer = [*CHAT, ChatMessage(role="user", content="and send it"), ChatMessage(role="assistant", content="Sent.")]
    assert told(one.answered("a", "s", [], longer)) == [(4, "user_request", None), (5, "generation", None)]


def test_a_whole_conversation_at_once_is_all_its_exchanges() -> None:
    talk = [*CHAT, ChatMessage(role="user", content="and send it"), ChatMessage(role="assistant", content="Sent.")]
    assert [step_type for _, step_type, _ in told(recorder().answered("a", "s", [], talk))].count("user_request") == 2


def test_only_the_new_messages_each_time_are_told_once() -> None:
    one = recorder()
    one.answered("a", "s", [], CHAT)
    one.asked("a", "s", "and send it")
    new = [ChatMessage(role="user", content="and send it"), ChatMessage(role="assistant", content="Sent.")]
    assert told(one.answered("a", "s", [], new)) == [(5, "generation", None)]
    assert one.answered("a", "s", [], new) == []


def test_what_is_asked_again_is_a_step_again() -> None:
    one = recorder()
    for _ in range(2):
        one.asked("a", "s", "hi")
        one.answered("a", "s", [], [ChatMessage(role="user", content="hi"), ChatMessage(role="assistant", content="ho")])
    assert one.step("a", "s", "retrieval")["payload"]["index"] == 4


def test_the_same_call_again_adds_nothing() -> None:
    one = recorder()
    one.answered("a", "s", [], CHAT)
    assert one.answered("a", "s", [], CHAT) == []


def test_ids_follow_from_what_was_done() -> None:
    first, second = recorder().answered("a", "s", [], CHAT), recorder().answered("a", "s", [], CHAT)
    assert [one["event_id"] for one in first] == [one["event_id"] for one in second]
    assert len({one["event_id"] for one in first}) == 4


def test_a_result_that_is_an_error_did_not_work() -> None:
    failed = [*CHAT[:2], ChatMessage(role="tool", tool_call_id="c1", content="Error: no such file")]
    assert recorder().answered("a", "s", [], failed)[-1]["payload"]["ok"] is False


def test_the_time_of_an_answer_is_measured() -> None:
    moments = iter([1.0, 3.5])
    one = StepRecorder("g", clock=lambda: next(moments))
    one.asked("a", "s", "hi")
    assert (
        one.answered("a", "s", [], [ChatMessage(role="user", content="hi"), ChatMessage(role="assistant", content="ho")])[0]["payload"][
            "ms"
        ]
        == 2_500
    )


def test_a_megabyte_becomes_a_summary() -> None:
    found = recorder().step("a", "s", "tool_result", tool="read", output="x" * 1_000_000, ok=True)
    assert len(found["payload"]["output"]) == 200
    wire.build(found)


@pytest.mark.parametrize("field", ["input", "output"])
def test_a_megabyte_that_is_published_as_it_is_is_refused_with_its_field(field: str) -> None:
    event = recorder().step("a", "s", "generation")
    with pytest.raises(InvalidEvent, match=f"payload.{field}: .*20000 characters"):
        wire.build({**event, "payload": {**event["payload"], field: "x" * 1_000_000}})


@pytest.mark.parametrize("wrong", [{"index": -1}, {"index": "first"}, {"step_type": "thought"}, {"step_type": "tool_call"}, {"ms": -5}])
def test_a_wrong_step_names_its_field(wrong: dict[str, Any]) -> None:
    event = recorder().step("a", "s", "generation")
    with pytest.raises(InvalidEvent, match=r"index|step_type|tool|ms"):
        wire.build({**event, "payload": {**event["payload"], **wrong}})


def test_compaction_is_told_with_the_next_step() -> None:
    one = recorder()
    one.compacted("a", "s")  # nothing to compress yet
    assert one.step("a", "s", "user_request")["payload"]["compacted"] is False
    one.compacted("a", "s")
    assert [one.step("a", "s", "generation")["payload"]["compacted"] for _ in range(2)] == [True, False]


def test_the_stage_puts_and_waits_for_nothing() -> None:
    put: list[dict[str, Any]] = []
    stage = TrajectoryStage(put.append, "g", retrieved=lambda: "3 memories")
    chain = Chain([stage])
    chain.before(Exchange("a", "", "find the invoice", "s"))
    chain.after(Exchange("a", session_id="s", chat=tuple(CHAT)))
    assert [one["payload"]["step_type"] for one in put] == ["user_request", "retrieval", "tool_call", "tool_result", "generation"]
    assert (stage.priority, stage.missing(), TrajectoryStage(None, "g").missing()) == (650, "", "recording")


def test_without_a_session_nothing_is_recorded() -> None:
    put: list[dict[str, Any]] = []
    chain = Chain([TrajectoryStage(put.append, "g")])
    chain.before(Exchange("a", "", "find the invoice"))
    chain.after(Exchange("a", chat=tuple(CHAT)))
    assert put == []
