"""Conversations that get too long: what stays, and what becomes a summary."""

from __future__ import annotations

from threading import Event, Timer

import pytest

from jiyi.chat.chain import Exchange
from jiyi.chat.compaction import PREVIOUS, CompactionStage, by_rules, check, compact, conversation_tokens
from jiyi.protocol.conversations import ChatMessage, Compacted, CompactionLimits, CompactMessages

SMALL = CompactionLimits(
    soft_tokens=300, hard_tokens=600, reserve_tokens=100, keep_recent=4, summary_max_tokens=100
)


def said(text: str, role: str = "user", **fields: object) -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "content": text, **fields})


def talk(count: int, words: int = 20) -> list[ChatMessage]:
    roles, more = ("user", "assistant"), "word " * words
    return [said(f"Message number {number}. {more}", roles[number % 2]) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "words", "urgency", "kept"),
    [
        (1, 20, "none", {1}),
        (10, 20, "soft", {4}),
        (40, 20, "hard", {1, 2, 3, 4}),
        (20, 100, "hard", {1, 2, 3}),
    ],
)
def test_the_more_urgent_the_fewer_stay(count: int, words: int, urgency: str, kept: set[int]) -> None:
    messages = talk(count, words)
    assert check(messages, SMALL).urgency == urgency
    done = compact(messages, SMALL)
    assert sum(message.role != "system" for message in done.messages) in kept
    if urgency == "none":
        assert (done.messages, done.mode, done.summarised) == (messages, "none", 0)


def test_the_latest_stay_and_the_older_become_a_summary() -> None:
    messages = [said("You are kind.", "system"), *talk(10)]
    done = compact(messages, SMALL)
    assert (done.messages[0], done.messages[-4:]) == (messages[0], messages[-4:])
    assert "Message number 0." in done.summary
    assert (done.mode, done.summarised) == ("rules", 6)
    assert done.tokens_after == conversation_tokens(done.messages) < done.tokens_before


def test_a_summary_keeps_the_previous_one_its_length_and_the_language() -> None:
    done = compact(talk(10), SMALL, "They agreed on blue glaze.")
    assert PREVIOUS in done.summary
    assert "blue glaze" in done.summary
    assert compact(talk(10), SMALL, done.summary).summary.count(PREVIOUS) == 1
    chinese = by_rules([said("窑到了一千二百度。" * 50)], "", 60)
    assert chinese.startswith("user: 窑到了一千二百度")
    assert conversation_tokens([said(chinese)]) <= 60 + 4
    by_llm = compact(talk(10), SMALL, "before", summarise=lambda *given: f"{len(given[0])} after {given[1:]}")
    assert (by_llm.mode, by_llm.summary) == ("llm", "6 after ('before', 100)")


def test_long_outputs_of_tools_are_cut() -> None:
    call = said("", "assistant", tool_calls=[{"id": "1", "type": "function"}])
    for length, kept in ((2_001, 501), (2_000, 2_000)):
        limits = SMALL.model_copy(update={"hard_tokens": 9_000})
        done = compact([*talk(10), call, said("x" * length, "tool", tool_call_id="1")], limits)
        assert len(done.messages[-1].content or "") == kept


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_a_call_and_its_result_are_never_parted(after: int) -> None:
    calls = [{"id": number, "type": "function"} for number in "12"]
    call = said("", "assistant", tool_calls=calls)
    results = [said("warm", "tool", tool_call_id="1"), said("dry", "tool", tool_call_id="2")]
    done = compact([*talk(10), call, *results, *talk(after)], SMALL)
    roles = [message.role for message in done.messages]
    assert roles.count("tool") in (0, 2)
    if "tool" in roles:
        assert done.messages[roles.index("tool") - 1].tool_calls is not None


def exchange(messages: list[ChatMessage]) -> Exchange:
    return Exchange("a", session_id="s", chat=tuple(messages))


def test_a_summary_by_the_services_llm_takes_the_place_of_the_rules() -> None:
    asked: list[CompactMessages] = []
    answered = Event()

    def service(request: CompactMessages) -> Compacted:
        asked.append(request)
        done = compact(request.messages, request.limits, summarise=lambda *_: "They agreed on blue glaze.")
        Timer(0, answered.set).start()
        return done

    stage = CompactionStage(SMALL, flush=print, ask=service)
    first = stage.before(exchange(talk(10))).chat
    assert "Message number 0." in (first[0].content or ""), "nobody waits for an LLM"
    assert answered.wait(10)
    while "blue glaze" not in (stage.before(exchange(talk(12))).chat[0].content or ""):
        pass
    assert (len(asked), asked[0].force, len(asked[0].messages)) == (1, True, 10)


def test_what_was_said_is_recorded_before_it_is_left_out_and_its_summary_stands_for_a_while() -> None:
    now, flushed = [0.0], list[Exchange]()
    stage = CompactionStage(SMALL, flush=flushed.append, clock=lambda: now[0])
    assert stage.before(exchange(talk(2))).chat == tuple(talk(2))
    assert flushed == []
    first = stage.before(exchange(talk(10))).chat
    now[0] = 29
    second = stage.before(exchange(talk(12))).chat
    assert (second[: len(first)], len(second), len(flushed)) == (first, len(first) + 2, 1)
    now[0] = 31
    assert len(stage.before(exchange(talk(14))).chat) == len(first) + 4  # only four new messages
    third = stage.before(exchange(talk(17))).chat
    assert len(flushed) == 2
    assert any(PREVIOUS in (message.content or "") for message in third)
    # Another conversation of the same name begins anew.
    assert stage.before(exchange(talk(2))).chat == tuple(talk(2))
