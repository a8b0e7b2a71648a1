"""What people report of proxies that remember: requests that an upstream refuses, and words that nobody
said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

pytest.importorskip("starlette", reason="needs the extra `proxy`")

from engine.providers.guarded import ProviderClient, RetryLimits
from engine.providers.spec import parse, resolve
from jiyi.chat.hosts import own_words
from jiyi.chat.recording import Recorder, messages_of
from jiyi.cli import hook
from jiyi.cli.app import app
from jiyi.errors import LLMUnavailable
from jiyi.polling import poll
from jiyi.proxy.access import refuse_stored
from jiyi.proxy.app import MODES, ProxyConfig
from jiyi.proxy.dialects import (
    AnswerReader,
    Anthropic,
    ApiDialect,
    MemoryInjection,
    OpenAI,
    Responses,
    dialogue_of,
    with_memory,
)
from jiyi.proxy.memory import Conversation, KeyMemory
from tests.misbehaving import vendor

MEMORY = MemoryInjection("LASTING", {1: "RECALLED", 2: "LATER"})
HOUR, MINUTES = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
REMINDER = (
    "<system-reminder>\n# claudeMd\nI am allergic to penicillin. I live in Example City.\n</system-reminder>"
)


def user(content: Any) -> Any:
    return {"role": "user", "content": content}


def part(text: Any, **more: Any) -> Any:
    return {"type": "text", "text": text, **more}


def says(content: Any, **more: Any) -> Any:
    return {"role": "assistant", "content": content, **more}


def result(content: str) -> Any:
    return {"type": "tool_result", "tool_use_id": "t", "content": content}


def remembering(dialect: ApiDialect, body: Any, memory: MemoryInjection = MEMORY) -> Any:
    return json.loads(with_memory(dialect, json.dumps(body).encode(), memory))


def words(dialect: ApiDialect, body: Any) -> list[str]:
    return [message.text for message in dialogue_of(dialect, body)]


def test_results_of_tools_stay_first_in_a_message() -> None:
    """Anthropic refuses text before them: 'tool_result blocks must come first'."""
    called = says([{"type": "tool_use", "id": "t", "name": "f", "input": {}}])
    asked = user([result("ok"), part("And who is my sister?")])
    body = {"messages": [user("What must I not eat?"), called, asked]}
    content = remembering(Anthropic(), body)["messages"][2]["content"]
    texts = [part.get("text") or part["type"] for part in content]
    assert texts == ["tool_result", "LATER", "And who is my sister?"]


@pytest.mark.parametrize(
    "times", [(HOUR, HOUR), (HOUR, MINUTES), (MINUTES, MINUTES), (MINUTES, None), (HOUR, None)]
)
def test_an_added_mark_never_stands_before_one_that_lasts_longer(times: tuple[Any, Any]) -> None:
    """https://github.com/headroomlabs-ai/headroom/issues/2939: 'a ttl=1h block must not come after a ttl=5m
    block'.
    """
    of_system, of_message = times
    text = part("What must I not eat?", **({"cache_control": of_message} if of_message else {}))
    body = {"system": [part("S", cache_control=of_system)], "messages": [user([text])]}
    sent = remembering(Anthropic(), body)
    marks = [part.get("cache_control") for part in [*sent["system"], *sent["messages"][0]["content"]]]
    lasting = ["ttl" in mark for mark in marks if mark]
    assert len(lasting) == 2 + bool(of_message)
    assert lasting == sorted(lasting, reverse=True)


def test_a_mark_that_is_null_is_none() -> None:
    body = {"system": [part("S", cache_control=None)], "messages": [user("hi")]}
    assert "cache_control" not in remembering(Anthropic(), body)["system"][-1]


def test_a_request_changes_only_where_memory_goes_in() -> None:
    """Numbers, keys that come twice, escapes and signatures are the client's: a signed thought that is
    written anew is refused.
    """
    thought = r'{"type": "thinking", "thinking": "a\/b \u2028 \ud83d\ude00", "signature": "s+\/=="}'
    body = (
        '{ "max_tokens": 1e3, "temperature": 1.00000000000000000001, "top_p": 1, "top_p": 0.5, "seed":'
        ' 12345678901234567890123,\n  "messages" : [ {"role":"user","content" : "caf\\u00e9?"} ,'
        f' {{"role":"assistant","content":[{thought}, {{"type":"text","text":"yes"}}]}}, {{"content":['
        ' ],"role":"user","content":[{"text":"and tea?","type":"text"}]}  ], "x": 1e400 }'
    )
    sent = with_memory(Anthropic(), body.encode(), MEMORY).decode()
    stable, recalled, later = '"system":"LASTING",', r"RECALLED\n\n", '{"type": "text", "text": "LATER"},'
    assert stable in sent and recalled in sent and later in sent
    assert sent.replace(stable, "").replace(recalled, "").replace(later, "") == body
    assert with_memory(OpenAI(), b"no json", MEMORY) == b"no json"


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (OpenAI(), {"messages": [user("hi")]}),
        (Anthropic(), {"messages": [user("hi")]}),
        (Responses(), {"input": [user("hi")]}),
    ],
)
def test_a_model_s_own_system_prompt_can_be_kept(dialect: ApiDialect, body: Any) -> None:
    """Ollama drops the SYSTEM of a model's file once a request brings a system message."""
    sent = json.loads(with_memory(dialect, json.dumps(body).encode(), MEMORY, "user"))
    assert sent == json.loads(json.dumps(body).replace("hi", r"LASTING\n\nRECALLED\n\nhi"))


def test_where_lasting_memories_go_is_an_option_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ProxyConfig] = []
    monkeypatch.setattr("jiyi.proxy.app.make_app", started.append)
    monkeypatch.setattr("jiyi.cli.service.serve", lambda *_: None)
    for options in ([], ["--in", "user"]):
        assert CliRunner().invoke(app, ["proxy", *options]).exit_code == 0
    assert [config.where for config in started] == ["system", "user"]


@pytest.mark.parametrize(
    ("written", "own"),
    [
        (REMINDER, ""),
        (f"{REMINDER}\nI moved to Faro.", "I moved to Faro."),
        (f"我搬到了杭州。\n\n{REMINDER}", "我搬到了杭州。"),
        ("<command-name>/clear</command-name>\n  <command-message>clear</command-message>", ""),
        ("<local-command-stdout>cut off without an", ""),
        ("What does <system-reminder> mean?", "What does <system-reminder> mean?"),
        ("1 < 2, and <b>bold</b> <skills>none</skills>", "1 < 2, and <b>bold</b> <skills>none</skills>"),
        ("<environment_context>\n<cwd>/tmp</cwd>\n</environment_context>", ""),
        ("# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>\nI am Ann.\n</INSTRUCTIONS>", ""),
        (
            "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix it.",
            "Fix it.",
        ),
        ("<user_info>OS: linux</user_info>\n<user_query>\nI live in Faro.\n</user_query>", "I live in Faro."),
        ("<task>\n写一首诗\n</task>\n<environment_details>x</environment_details>", "写一首诗"),
        ("[Request interrupted by user for tool use]", ""),
        ("[Request interrupted by user]\nno, use tabs", "no, use tabs"),
        (
            (
                "This session is being continued from a previous conversation that ran out of context. I live"
                " in X."
            ),
            "",
        ),
        ("quota", ""),
        (
            "Please write a 5-10 word title for the following conversation:\n\nUser: I live in Example City.",
            "",
        ),
        (
            (
                "### Task:\nGenerate a concise, 3-5 word title summarizing the chat history.\n<chat_history>I"
                " am Ann</chat_history>"
            ),
            "",
        ),
        ("### Task:\nSummarise my week in Faro.", "### Task:\nSummarise my week in Faro."),
        ("My quota is used up.", "My quota is used up."),
    ],
)
def test_what_a_host_writes_is_not_what_its_user_said(written: str, own: str) -> None:
    """Coding hosts put reminders, files and requests of their own into messages of their users."""
    assert own_words(written) == own
    assert own_words(own) == own
    events: list[Any] = Recorder().events("g", "a", "s", messages_of([user(written), says("Fine.")]))
    assert [event["payload"]["text"] for event in events] == [*filter(None, [own]), "Fine."]


def test_an_element_without_an_end_costs_no_time() -> None:
    text = "x" + "<skill>" * 100_000 + " " * 100_000
    assert own_words(text) == text.strip()


def test_requests_that_a_host_makes_for_itself_are_no_conversation() -> None:
    talk: list[Any] = [user([part(REMINDER), part("Please fix the flaky test")])]
    assert words(Anthropic(), {"messages": talk}) == ["Please fix the flaky test"]
    titled = "Analyze if this message indicates a new conversation topic. If it does, …"
    generator = "You are a title generator. You output ONLY a thread title."
    suggested = user("[SUGGESTION MODE: Suggest what the user might naturally type next.]")
    for dialect, own in (
        (Anthropic(), {"messages": [user("quota")], "max_tokens": 1}),
        (Anthropic(), {"messages": talk, "system": [part(titled)]}),
        (OpenAI(), {"messages": [{"role": "system", "content": generator}, *talk]}),
        (Anthropic(), {"messages": [*talk, says("Done."), suggested]}),
    ):
        assert words(dialect, own) == []
    came = user([result("x"), part(REMINDER)])
    called = says([part("I look."), {"type": "tool_use", "id": "t"}])
    body = {"messages": [*talk, called, came]}
    assert words(Anthropic(), body) == ["Please fix the flaky test", "I look."]
    sent = remembering(Anthropic(), body)["messages"]
    assert sent[0]["content"][0]["text"] == "RECALLED"
    assert sent[2] == came  # a loop of tools is one turn of the user's


def test_what_codex_sends_is_lent_the_key_and_read() -> None:
    passed = {"internal_chat_message_metadata_passthrough": {"turn_id": "t1", "content_item_kinds": ["user"]}}
    opening = [
        "<environment_context>\n<cwd>/repo</cwd>\n</environment_context>",
        "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>x</INSTRUCTIONS>",
    ]

    def message(role: str, *texts: str, **more: Any) -> Any:
        content = [{"type": "input_text", "text": text} for text in texts]
        return {"type": "message", "role": role, "content": content, **more}

    call = {"call_id": "call_1", **passed}
    items: list[Any] = [
        message("developer", "<permissions instructions>"),
        message("user", *opening),
        message("user", "Fix the flaky test", **passed),
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": None,
            "encrypted_content": "gAAA",
            **passed,
        },
        {"type": "function_call", "name": "exec_command", "arguments": "{}", **call},
        {"type": "function_call_output", "output": "ok", **call},
    ]
    body = {
        "model": "m", "instructions": "You are Codex.", "input": items, "store": False, "stream": True, "prompt_cache_key": "c1",
        "include": ["reasoning.encrypted_content"], "client_metadata": {"session_id": "s-9", "thread_id": "t-9"},
    }  # fmt: skip
    refuse_stored(json.dumps(body).encode(), body)
    assert words(Responses(), body) == ["Fix the flaky test"]
    sent = remembering(Responses(), body)
    assert sent["instructions"] == "You are Codex.\n\nLASTING"
    assert sent["input"][2]["content"][0] == {"type": "input_text", "text": "RECALLED"}
    assert [*sent["input"][:2], *sent["input"][3:]] == [*items[:2], *items[3:]]


def test_content_is_text_or_parts_and_null_is_nothing() -> None:
    parts = [part(None), part("I live in Porto"), {"type": "image_url", "image_url": {}}]
    assert words(OpenAI(), {"messages": [user(parts)]}) == ["I live in Porto"]
    assert messages_of([user([part(None)])]) == []
    thinking = {"type": "thinking", "thinking": [part("hm")]}
    message = says([thinking, part("Porto is lovely.")])
    whole, streamed = AnswerReader(OpenAI(), streamed=False), AnswerReader(OpenAI(), streamed=True)
    whole.feed(json.dumps({"choices": [{"index": 0, "message": message}]}).encode())
    assert whole.text() == "Porto is lovely."
    for content in ([thinking], [part("Porto ")], "is lovely."):
        delta = json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]})
        streamed.feed(f"data: {delta}\n\n".encode())
    assert streamed.text() == "Porto is lovely."


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_an_event_may_stand_on_several_lines_however_they_end(end: str, size: int) -> None:
    event = '{"choices": [{"index": 0,\n"delta": {"content": "记住"}}]}'
    lines = [
        ": hello",
        *(f"data: {line}" for line in event.split("\n")),
        "",
        "data:{broken",
        "",
        "event: x",
        f"data: {json.dumps(json.loads(event))}",
        "",
        "",
    ]
    reader, content = AnswerReader(OpenAI(), streamed=True), end.join(lines).encode()
    for at in range(0, len(content), size):
        reader.feed(content[at : at + size])
    assert reader.text() == "记住记住"


class Service:
    """Keeps what is published; answers what is recalled, and keeps with which numbers of messages it was
    asked.
    """

    group = "g"

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.conversations, self.turns, self.recalled = self, list[int | None](), "fact 1"

    def observe_many(self, events: Any) -> list[object]:
        self.events += events
        return []

    def texts(self, count: int) -> list[str]:
        """As soon as there are so many."""
        poll(lambda: len(self.events), lambda found: found >= count, 60)
        return [event["payload"]["text"] for event in self.events]

    @property
    def sessions(self) -> set[str]:
        return {event["session_id"] for event in self.events}

    def within(self, _seconds: float) -> Service:
        return self

    async def context(self, *, turn: int | None, **_: Any) -> Any:
        self.turns.append(turn)
        return SimpleNamespace(stable="LASTING", recalled=self.recalled, earlier=[])


@pytest.fixture
def recording() -> Iterator[tuple[KeyMemory, Service]]:
    service: Any = Service()
    memory = KeyMemory(service, service, max_tokens=100, seconds=1)
    yield memory, service
    asyncio.run(memory.close())


def talked(talk: list[Any]) -> Any:
    return dialogue_of(OpenAI(), {"messages": talk})


def test_what_was_recalled_for_a_first_message_stays_before_it(recording: tuple[KeyMemory, Service]) -> None:
    """Else the upstream's prompt cache is of no use from the second message on."""
    memory, service = recording

    def ask(*talk: Any) -> dict[int, str]:
        dialogue = talked([*talk])
        shown = dict(asyncio.run(memory.recall(Conversation("mia"), dialogue)).recalled)
        memory.record(Conversation("mia"), dialogue, "Well.")
        return shown

    first, answer, again = user("What must I not eat?"), says("Well."), user("And what else?")
    called: list[Any] = [says(None, tool_calls=[]), {"role": "tool", "content": "x"}]
    assert ask(first) == {1: "fact 1"}
    assert ask(first, *called) == {1: "fact 1"}  # nobody is asked between calls of tools
    assert ask(first, answer, again) == {1: "fact 1"}  # what stands there is not repeated
    service.recalled = "fact 2"
    assert ask(first, answer, again, answer, again) == {1: "fact 1", 3: "fact 2"}
    service.recalled = "fact 3"
    late = {"role": "system", "content": "Agents: none."}  # as Claude Code sends
    # The same question in a new conversation, after something new was told.
    assert ask(first, late) == {1: "fact 3"}
    assert service.turns == [None, 2, 3, None]


def test_words_that_are_said_again_in_a_conversation_are_recorded_again(
    recording: tuple[KeyMemory, Service],
) -> None:
    memory, service = recording
    talk: list[Any] = [user("Find it.")]
    for _ in range(5):  # the client closes after each call of a tool, and sends the conversation so far
        memory.record(Conversation("mia"), talked(talk), "Let me look. ")
        talk += [says("Let me look. ", tool_calls=[]), {"role": "tool", "content": "nothing"}]
    memory.record(Conversation("mia"), talked(talk), "")
    asyncio.run(memory.close())
    assert service.texts(6) == ["Find it.", *["Let me look."] * 5]
    assert len(service.sessions) == 1
    assert len({UUID(event["event_id"]) for event in service.events}) == 6


def test_what_a_program_leaves_out_makes_no_turn_come_twice(recording: tuple[KeyMemory, Service]) -> None:
    memory, service = recording
    talk: list[Any] = []
    for number in range(6):  # of which the program sends the latest three messages
        talk.append(user(f"question {number}"))
        memory.record(Conversation("mia", None, "s"), talked(talk[-3:]), f"answer {number}")
        talk.append(says(f"answer {number}"))
    asyncio.run(memory.close())
    assert service.texts(12) == [message["content"] for message in talk]


def test_a_conversation_that_the_upstream_keeps_is_one_session(recording: tuple[KeyMemory, Service]) -> None:
    memory, service = recording

    def exchange(asked: str, answer: str, answer_id: str, **kept: str) -> None:
        body = {"input": asked, **kept}
        conversation = Conversation("mia", None, None, *Responses().kept(body))
        memory.record(conversation, dialogue_of(Responses(), body), answer, answer_id)

    exchange("I live in Porto.", "Noted.", "r1")
    for answer_id, before in (("r2", "r1"), ("r3", "r2"), ("r3", "r2")):  # the last is tried again
        exchange("yes", "Good.", answer_id, previous_response_id=before)
    assert service.texts(6) == ["I live in Porto.", "Noted.", "yes", "Good.", "yes", "Good."]
    assert len(service.sessions) == 1
    for answer_id in ("r4", "r5"):
        exchange("go on", "Well.", answer_id, conversation="conv_1")
    asyncio.run(memory.close())
    assert len(service.texts(10)) == 10
    assert len(service.sessions) == 2


def test_a_heading_of_memories_that_a_model_repeats_is_no_answer() -> None:
    given = MemoryInjection("", {1: "## Said earlier\n1. User: I live in Porto."})
    assert given.is_echoed_by("## Said earlier\n2")
    assert not given.is_echoed_by("## Porto\nA lovely town.")
    assert not given.is_echoed_by("I live in Porto.")


def test_what_the_service_asks_an_llm_is_remembered_by_no_proxy() -> None:
    """Else memories that are quoted in its prompts come back as words of its users."""
    with vendor() as server:
        endpoint = resolve(
            parse("openai:m", "JIYI_LLM"), "chat", "JIYI_LLM", server.base_url, SecretStr("sk-x")
        )
        ProviderClient(endpoint, LLMUnavailable).chat({"model": "m", "messages": []}, RetryLimits(call=30))
    assert MODES[server.requests[0].headers["x-jiyi-memory"]] == (False, False)


def test_a_hook_records_what_was_said_beside_a_reminder() -> None:
    contents: list[Any] = [
        [part(REMINDER), part("I moved to Faro.")],
        [part(None), part(f"{REMINDER}\n我喜欢喝茶。")],
        "<command-name>/clear</command-name>",
    ]
    lines = [{"type": "user", "uuid": "u", "message": {"content": content}} for content in contents]
    turns = [turn for line in lines for turn in hook.turns_of(json.dumps(line).encode(), "s", "mia")]
    assert [turn["payload"]["text"] for turn in turns] == ["I moved to Faro.", "我喜欢喝茶。"]
