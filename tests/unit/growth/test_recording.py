"""Stages of growth: what a chat program did, each step once; and appointments that are taken down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from jiyi.chat.chain import Chain, Exchange
from jiyi.chat.steps import ANSWERED_WITHIN, ScheduleStage, SkillStage, StepRecorder, TrajectoryStage
from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.appointments import AskedSchedules
from jiyi.protocol.conversations import ChatMessage, InjectedSkill
from jiyi.protocol.recall import InjectedContext

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "invoice"}'}}
ASKED = ChatMessage(role="user", content="find the invoice")
CALLED = ChatMessage(role="assistant", tool_calls=[CALL])
RESULT, ANSWER = (
    ChatMessage(role="tool", tool_call_id="c1", content="one found"),
    ChatMessage(role="assistant", content="Here it is."),
)
CHAT = [ASKED, CALLED, RESULT, ANSWER]
INJECTED = InjectedContext(context="a memory", tokens=3, intent="general", memories=[])


def summaries(events: list[dict[str, Any]]) -> list[str]:
    """Of each step its number, type and tool."""
    told = [one["payload"] for one in events]
    return [" ".join([str(one["index"]), one["step_type"], *filter(None, [one.get("tool")])]) for one in told]


def recorder() -> StepRecorder:
    return StepRecorder("g", clock=lambda: 1.0)


def test_an_answer_is_its_calls_results_and_text() -> None:
    found = recorder().record_answer("a", "s", [], CHAT)
    expected = ["0 user_request", "1 tool_call search", "2 tool_result search", "3 generation"]
    assert summaries(found) == expected
    assert all(wire.build(one).type == "turn.step" for one in found)
    ids = [one["event_id"] for one in found]
    again = recorder().record_answer("a", "s", [], CHAT)
    assert ids == [one["event_id"] for one in again], "follow from what was done"
    assert len(set(ids)) == 4
    failed = [ASKED, CALLED, ChatMessage(role="tool", tool_call_id="c1", content="Error: no such file")]
    assert recorder().record_answer("a", "s", [], failed)[-1]["payload"]["ok"] is False


def test_what_was_told_already_is_not_told_again() -> None:
    one = recorder()
    asked = one.record_request("a", "s", "find the invoice", "2 memories")
    assert summaries(asked) == ["0 user_request", "1 retrieval"]
    answered = one.record_answer("a", "s", [], CHAT)
    assert summaries(answered) == ["2 tool_call search", "3 tool_result search", "4 generation"]
    # The whole conversation each time adds only what is new.
    one = recorder()
    one.record_answer("a", "s", [], CHAT)
    assert one.record_answer("a", "s", [], CHAT) == []
    longer = [*CHAT, ChatMessage(role="user", content="and send it"), ANSWER]
    assert summaries(one.record_answer("a", "s", [], longer)) == ["4 user_request", "5 generation"]
    at_once = " ".join(summaries(recorder().record_answer("a", "s", [], longer)))
    assert at_once.count("user_request") == 2


def test_only_the_new_messages_each_time_are_told_once_with_how_long_the_answer_took() -> None:
    moments = iter([1.0, 3.5, 4.0, 5.0, 6.0])
    one = StepRecorder("g", clock=lambda: next(moments))
    new = [ChatMessage(role="user", content="hi"), ChatMessage(role="assistant", content="ho")]
    one.record_request("a", "s", "hi")
    answer = one.record_answer("a", "s", [], new)
    assert (summaries(answer), answer[0]["payload"]["ms"]) == (["1 generation"], 2_500)
    assert one.record_answer("a", "s", [], new) == []
    one.record_request("a", "s", "hi")
    again = one.record_answer("a", "s", [], new)
    assert summaries(again) == ["3 generation"], "asked again it is a step again"


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"index": -1},
            {"index": "first"},
            {"step_type": "thought"},
            {"step_type": "tool_call"},
            {"ms": -5},
        ),
        *({"input": "x" * 1_000_000}, {"output": "x" * 1_000_000}),
    ],
)
def test_a_wrong_step_names_its_field(wrong: dict[str, Any]) -> None:
    event = recorder().step("a", "s", "generation")
    problem = r"index|step_type|tool|ms|payload.(in|out)put: .*20000 characters"
    with pytest.raises(InvalidEvent, match=problem):
        wire.build({**event, "payload": {**event["payload"], **wrong}})


def test_a_step_has_a_summary_of_a_megabyte_and_tells_of_a_compaction_before_it() -> None:
    one = recorder()
    one.compacted("a", "s")  # nothing to compress yet
    assert one.step("a", "s", "user_request")["payload"]["compacted"] is False
    one.compacted("a", "s")
    found = one.step("a", "s", "tool_result", tool="read", output="x" * 1_000_000, ok=True)
    assert wire.build(found).type == "turn.step"
    assert (len(found["payload"]["output"]), found["payload"]["compacted"]) == (200, True)
    assert one.step("a", "s", "generation")["payload"]["compacted"] is False


def test_skills_are_told_of_the_prompt_that_has_them() -> None:
    steps: list[tuple[Any, ...]] = []
    chain = Chain([SkillStage(lambda *where, **what: steps.append((*where, what["tool"])))])
    skill = InjectedSkill(id=UUID(int=1), name="printer")
    with_skill = Exchange("a", "", "it jams", "s1", injected=INJECTED.model_copy(update={"skills": [skill]}))
    without = Exchange("a", "", "hello", "s2", injected=INJECTED)
    for exchange in (with_skill, without, replace(with_skill, session_id=None)):
        chain.before(exchange)
    assert steps == [("a", "s1", "skill", str(skill.id))]


def test_the_stage_puts_and_waits_for_nothing() -> None:
    put: list[dict[str, Any]] = []
    chain = Chain([TrajectoryStage(put.append, "g")])
    chain.before(Exchange("a", "", "find the invoice", "s", injected=INJECTED))
    chain.after(Exchange("a", session_id="s", chat=tuple(CHAT)))
    recorded = ["user_request", "retrieval", "tool_call", "tool_result", "generation"]
    assert [one["payload"]["step_type"] for one in put] == recorded
    chain.before(Exchange("a", "", "find the invoice"))
    chain.after(Exchange("a", chat=tuple(CHAT)))
    assert len(put) == len(recorded), "without a session nothing is recorded"


def found(said: str, answer: str | Exception | None) -> tuple[Exchange, Mock]:
    """The exchange after the stage, whose service answers so."""
    asked = AskedSchedules(certainty="exact", confirmation=None if isinstance(answer, Exception) else answer)
    scheduling = Mock(side_effect=[answer if isinstance(answer, Exception) else asked])
    return Chain([ScheduleStage(scheduling)]).before(Exchange("小伴", "You are kind.", said, "s")), scheduling


def test_zc_95_what_asks_for_an_appointment_is_taken_down_and_confirmed() -> None:
    for said in ("每天早上9点提醒我查房", "What a story. " * 30 + "Remind me tomorrow at 9 to call Tom."):
        exchange, asked = found(said, "好的，已记下")
        request = asked.call_args.args[0]
        assert (request.agent_id, request.text, request.session_id) == ("小伴", said, "s")
        assert exchange.reply == "好的，已记下"
        assert exchange.system_prompt == 'You are kind.\n\n[schedule] "好的，已记下"'


@pytest.mark.parametrize(
    ("said", "answer", "calls"),
    [
        ("I get up at 6 every day", None, 1),
        ("每天早上9点提醒我查房", OSError("away"), 1),
        *((nothing, "asked", 0) for nothing in ("", " ", "\n")),
    ],
)
def test_what_asks_for_nothing_or_of_a_service_that_is_away_changes_nothing(
    said: str, answer: str | Exception | None, calls: int
) -> None:
    exchange, asked = found(said, answer)
    assert (exchange.system_prompt, exchange.reply) == ("You are kind.", None)
    assert asked.call_count == calls


def test_what_was_asked_back_goes_along_with_the_next_message_of_the_same_person_once() -> None:
    unclear = AskedSchedules(asked="new", certainty="unclear", confirmation="When shall I remind you?")
    scheduling = Mock(return_value=unclear)
    now = [0.0]
    stage = ScheduleStage(scheduling, clock=lambda: now[0])

    def says(text: str, user: str | None = "mia", session: str | None = "s") -> str | None:
        stage.before(Exchange("a", "", text, session, user_id=user))
        earlier: str | None = scheduling.call_args.args[0].completes
        return earlier

    assert says("remind me to buy milk") is None
    assert says("at six", "ben") is None
    assert says("at 25:00") == "remind me to buy milk"
    scheduling.return_value = AskedSchedules(asked="new", certainty="exact", confirmation="Noted")
    assert says("at 6pm") == "remind me to buy milk"
    assert says("at 7pm") is None

    scheduling.return_value = unclear
    says("remind me to buy bread")
    now[0] = ANSWERED_WITHIN + 1
    assert says("at 6pm") is None
    nobodys = [says(text, None, None) for text in ("remind me to buy bread", "at 6pm")]
    assert nobodys == [None, None], "nobody knows whose it is"
