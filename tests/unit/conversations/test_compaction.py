"""Conversations that get too long: what stays, what becomes a summary, and that calls and results stay
together.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    ("messages", "urgency", "fewest", "most"),
    [
        (talk(1), "none", 1, 1),
        (talk(10), "soft", 4, 4),
        (talk(40), "hard", 1, 4),
        (talk(20, words=100), "hard", 1, 3),
    ],
)
def test_the_more_urgent_the_fewer_stay(
    messages: list[ChatMessage], urgency: str, fewest: int, most: int
) -> None:
    assert check(messages, SMALL).urgency == urgency
    done = compact(messages, SMALL)
    assert fewest <= sum(message.role != "system" for message in done.messages) <= most
    if urgency == "none":
        assert (done.messages, done.mode, done.summarised) == (messages, "none", 0)


def test_the_latest_stay_and_the_older_become_a_summary() -> None:
    system = said("You are kind.", "system")
    messages = [system, *talk(10)]
    done = compact(messages, SMALL)
    assert done.messages[0] == system
    assert done.messages[-4:] == messages[-4:]
    assert "Message number 0." in done.summary
    assert (done.mode, done.summarised) == ("rules", 6)
    assert done.tokens_after == conversation_tokens(done.messages) < done.tokens_before


def test_a_summary_keeps_the_previous_one_its_length_and_the_language() -> None:
    done = compact(talk(10), SMALL, "They agreed on blue glaze.")
    assert PREVIOUS in done.summary
    assert "blue glaze" in done.summary
    again = compact(talk(10), SMALL, done.summary)
    assert again.summary.count(PREVIOUS) == 1
    chinese = by_rules([said("窑到了一千二百度。" * 50)], "", 60)
    assert chinese.startswith("user: 窑到了一千二百度")
    assert conversation_tokens([said(chinese)]) <= 60 + 4

    def summarise(messages: Sequence[ChatMessage], previous: str, most: int) -> str:
        return f"{len(messages)} after {previous!r}, at most {most}"

    by_llm = compact(talk(10), SMALL, "before", summarise=summarise)
    assert (by_llm.mode, by_llm.summary) == ("llm", "6 after 'before', at most 100")


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


# The stage


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


def exchange(messages: list[ChatMessage]) -> Exchange:
    return Exchange("a", session_id="s", chat=tuple(messages))


def test_what_was_said_is_recorded_before_it_is_left_out() -> None:
    flushed: list[Exchange] = []
    stage = CompactionStage(SMALL, flush=flushed.append)
    assert stage.before(exchange(talk(2))).chat == tuple(talk(2))
    assert flushed == []
    stage.before(exchange(talk(10)))
    assert len(flushed) == 1
    assert stage.before(exchange(talk(2))).chat == tuple(talk(2)), (
        "another conversation of the same name begins anew"
    )


def test_between_two_compactions_the_summary_stands_for_what_it_was_made_of() -> None:
    now = [0.0]
    flushed: list[Exchange] = []
    stage = CompactionStage(SMALL, flush=flushed.append, clock=lambda: now[0])
    first = stage.before(exchange(talk(10))).chat
    now[0] = 29
    second = stage.before(exchange(talk(12))).chat
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2
    assert len(flushed) == 1
    now[0] = 31
    assert len(stage.before(exchange(talk(14))).chat) == len(first) + 4  # only four new messages
    third = stage.before(exchange(talk(17))).chat
    assert len(flushed) == 2
    assert any(PREVIOUS in (message.content or "") for message in third)
