"""The loop around each answer: stages in order, nothing raised or waited for, secrets masked, one budget."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from jiyi.chat.chain import Chain, Exchange
from jiyi.chat.loop import ConversationLoop, GuardStage, MemoryStage
from jiyi.chat.recording import Recorder, messages_of
from jiyi.chat.secrets import MASK, masked
from jiyi.errors import BrokerUnavailable, InvalidEvent
from jiyi.protocol.appointments import AskedSchedules
from jiyi.protocol.conversations import ContextRequest, Message
from jiyi.protocol.recall import InjectedContext
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import quoted
from tests.unit.text.labelled import labelled


class Note:
    """A stage that notes when it is called."""

    def __init__(self, name: str, priority: int, calls: list[str], *, fails: bool = False) -> None:
        self.name, self.priority, self._calls, self._fails = name, priority, calls, fails

    def missing(self) -> str:
        return "everything" if self._fails else ""

    def before(self, exchange: Exchange) -> Exchange:
        self._calls.append(f"before {self.name}")
        if self._fails:
            raise RuntimeError("no")
        return replace(exchange, system_prompt=exchange.system_prompt + self.name)

    def after(self, exchange: Exchange) -> Exchange:
        self._calls.append(f"after {self.name}")
        return exchange


def test_stages_come_by_priority_and_afterwards_the_other_way_round() -> None:
    calls: list[str] = []
    chain = Chain([Note("c", 500, calls), Note("a", 100, calls), Note("b", 150, calls)])
    assert chain.before(Exchange("x")).system_prompt == "abc"
    chain.after(Exchange("x"))
    assert calls == ["before a", "before b", "before c", "after c", "after b", "after a"]


def test_a_stage_that_fails_or_hangs_is_left_out() -> None:
    calls: list[str] = []
    chain = Chain([Note("a", 1, calls, fails=True), Note("b", 2, calls)])
    assert chain.before(Exchange("x", "p")).system_prompt == "pb"
    assert chain.readiness() == {"a": "everything", "b": ""}
    late = Exchange("x", "p", deadline=time.monotonic() + 0.05)
    slow = Mock(priority=1, before=lambda _: time.sleep(0.5))
    assert Chain([slow]).before(late).system_prompt == "p"


def test_a_service_that_does_not_answer_is_not_ready() -> None:
    client = Mock(group="g")
    client.within.return_value = client
    with ConversationLoop(client, growth=False) as loop:
        assert set(loop.readiness().values()) == {""}
        client.agents.list.side_effect = BrokerUnavailable("nobody listens at redis://10.0.0.1")
        assert "nobody listens" in loop.readiness()["memory"]


def memories(context: str) -> Mock:
    def inject(request: ContextRequest, _seconds: float) -> InjectedContext:
        prompt = f"{request.base_prompt}\n\n{context}" if context else request.base_prompt
        return InjectedContext(context=context, tokens=1, intent="general", memories=[], prompt=prompt)

    return Mock(side_effect=inject)


@pytest.mark.parametrize(
    ("context", "said", "prompt"),
    [
        ("tea", "what do I like?", "Be kind.\n\ntea"),
        ("", "what do I like?", "Be kind."),
        *(("x", short, "Be kind.") for short in ("", " ", "a", " 猫 ")),
    ],
)
def test_the_prompt_gets_what_is_remembered_which_takes_two_characters(
    context: str, said: str, prompt: str
) -> None:
    asked, known = Exchange("a", "Be kind.", said), memories(context)
    assert MemoryStage(known, print, "g").before(asked).system_prompt == prompt
    assert known.call_count == (len(said.strip()) > 1)


def test_after_an_answer_each_message_is_published_and_one_that_repeats_itself_is_dropped() -> None:
    put: list[Any] = []
    said = (Message(role="user", text="hi"), Message(role="assistant", text="hello"))
    MemoryStage(memories(""), put.append, "g").after(Exchange("a", session_id="s", messages=said))
    assert [event["payload"]["text"] for event in put] == ["hi", "hello"]
    text = "I will now check the kiln once more and tell you how hot the glaze is, as I said before, Mia."
    said = tuple(Message(role="assistant", text=text) for _ in range(4))
    kept = [len(GuardStage().after(Exchange("a", messages=said[:count])).messages) for count in (4, 2)]
    assert kept == [3, 2]


def test_messages_come_as_chat_apis_have_them() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    given = {"developer": "Be kind.", "human": "hi", "model": parts, "assistant": None}
    found = messages_of([{"role": role, "content": content} for role, content in given.items()])
    read = [(message.role, message.text) for message in found]
    assert read == [("system", "Be kind."), ("user", "hi"), ("assistant", "a\nb")]
    said = {"content": "x"}
    for wrong in (said, {"role": "poet", **said}, {"role": "user", **said, "at": "noon"}):
        with pytest.raises(InvalidEvent, match=r"messages\.0"):
            messages_of([wrong])


def ids(recorder: Recorder, *texts: str) -> list[str]:
    messages = [Message(role="user", text=text) for text in texts]
    return [event["event_id"] for event in recorder.events("g", "a", "s", messages)]


def test_a_message_has_one_id_and_what_is_said_again_is_another_message() -> None:
    whole, new, other = Recorder(), Recorder(), Recorder()
    first = ids(whole, "a", "b")
    assert ids(new, "a", "b") == first
    latest = ids(new, "c", "d")
    assert ids(new, "c", "d") == latest  # of a call that is repeated
    assert ids(whole, "a", "b", "c", "d") == [*first, *latest]
    assert ids(other, "a", "b") == first  # another process
    again = [*ids(whole, "yes", "no"), *ids(whole, "yes"), *ids(whole, "yes")]
    assert len(set(again)) == 4
    assert len(set(ids(Recorder(), "yes", "yes"))) == 2


def test_a_message_keeps_its_time_and_a_long_one_is_cut_and_says_so() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    unrecorded = Message(role="system", text="x"), Message(role="tool", text="y")
    long = Message(role="user", text="z" * 200_000, at=at)
    [event] = Recorder().events("g", "a", "s", [*unrecorded, long])
    assert event["occurred_at"] == "2026-05-01T00:00:00Z"
    assert event["payload"]["provenance"] == {"truncated_from": 200_000}
    assert len(event["payload"]["text"]) < 20_000


@labelled
def test_secrets_are_masked_and_other_words_and_numbers_stay(text: str, *, masks: bool) -> None:
    said = f"Here it is {text} and that is all"
    found = masked(said)
    assert found.startswith("Here it is")
    assert found.endswith("and that is all")
    assert (MASK in found, text not in found, found != said) == (masks, masks, masks)


HINT = '[A skill was learned: "watering". About: "the ferns". If it fits, ask the user once.]'
NOTED = "Noted: water the ferns, every day at 09:00. Next: 2026-11-24 09:00 (Asia/Shanghai)."
REMEMBERED = "Mia waters the ferns. 米娅每周给蕨类植物浇水。 " * 400
ASKS, ONLY_TELLS = "Remind me every day at 9 to water the ferns", "What did I say about the ferns?"


class Service:
    """A client whose every answer takes as much room as it may."""

    group = "g"

    def __init__(self) -> None:
        self.conversations = self.appointments = self.evolution = self
        self.most: list[int] = []

    def within(self, _seconds: float) -> Service:
        return self

    def context(self, *, base_prompt: str, max_tokens: int, **_: Any) -> InjectedContext:
        self.most.append(max_tokens)
        context = cut_to_tokens(REMEMBERED, max_tokens)
        tokens, prompt = estimate_tokens(context), f"{base_prompt}\n\n{context}".strip()
        return InjectedContext(context=context, tokens=tokens, intent="general", memories=[], prompt=prompt)

    def hint(self, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(text=HINT)

    def ask(self, *, text: str, **_: Any) -> AskedSchedules:
        return AskedSchedules(certainty="exact", confirmation=NOTED if text == ASKS else None)

    def observe_many(self, observations: Any, /) -> list[object]:
        return []


@pytest.mark.parametrize("budget", [1, 2, 10, 40, 100, 500, 2_000])
@pytest.mark.parametrize("said", [ASKS, ONLY_TELLS])
def test_hint_memories_and_confirmation_share_the_budget(said: str, budget: int) -> None:
    service: Any = Service()
    with ConversationLoop(service, max_tokens=budget, seconds=30) as loop:
        prompt = loop.before_completion("mia", "", said, session_id="s")
    assert estimate_tokens(prompt) <= budget
    if budget >= 500:
        assert HINT in prompt
        assert "蕨类植物" in prompt
        assert (f"[schedule] {quoted(NOTED)}" in prompt) == (said == ASKS)


def test_without_growth_nothing_of_it_is_asked_for_or_published_and_memories_have_all_the_room() -> None:
    service: Any = Service()
    with ConversationLoop(service, max_tokens=500, seconds=30) as loop:
        loop.before_completion("mia", "You are kind.", ONLY_TELLS)
    assert service.most == [500]  # without a session there is no hint, and nothing is asked for
    published: list[Any] = []
    service.observe_many = published.extend
    service.appointments = service.evolution = None
    with ConversationLoop(service, growth=False, seconds=30) as loop:
        prompt = loop.before_completion("mia", "", ASKS, session_id="s")
        loop.step("mia", "s", "tool_call", tool="search")
        said = [{"role": "user", "content": ASKS}, {"role": "assistant", "content": "Done."}]
        loop.after_completion("mia", said, "s")
    assert "蕨类植物" in prompt
    assert HINT not in prompt
    assert {event["type"] for event in published} == {"turn.recorded"}
