"""What people report of proxies that remember: requests that an upstream refuses, and words that nobody
said.
"""

from __future__ import annotations

import asyncio
import json
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
from jiyi.protocol.wire.signatures import new_key
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
from jiyi.proxy.memory import Conversation, KeyMemory, Memories
from tests.misbehaving import vendor

MEMORY = MemoryInjection("LASTING", {1: "RECALLED", 2: "LATER"})
HOUR, MINUTES = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
REMINDER = (
    "<system-reminder>\n# claudeMd\nI am allergic to penicillin. I live in Example City.\n</system-reminder>"
)


def remembering(dialect: ApiDialect, body: Any, memory: MemoryInjection = MEMORY) -> Any:
    return json.loads(with_memory(dialect, json.dumps(body).encode(), memory))


def words(dialect: ApiDialect, body: Any) -> list[str]:
    return [message.text for message in dialogue_of(dialect, body)]


def test_results_of_tools_stay_first_in_a_message() -> None:
    """Anthropic refuses text before them: 'tool_result blocks must come first'."""
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    asked = {"role": "user", "content": [result, {"type": "text", "text": "And who is my sister?"}]}
    body = {"messages": [{"role": "user", "content": "What must I not eat?"}, called, asked]}
    content = remembering(Anthropic(), body)["messages"][2]["content"]
    assert [part.get("text") or part["type"] for part in content] == [
        "tool_result",
        "LATER",
        "And who is my sister?",
    ]


@pytest.mark.parametrize(
    "times", [(HOUR, HOUR), (HOUR, MINUTES), (MINUTES, MINUTES), (MINUTES, None), (HOUR, None)]
)
def test_an_added_mark_never_stands_before_one_that_lasts_longer(times: tuple[Any, Any]) -> None:
    """https://github.com/headroomlabs-ai/headroom/issues/2939: 'a ttl=1h block must not come after a ttl=5m
    block'.
    """
    of_system, of_message = times
    text = {
        "type": "text",
        "text": "What must I not eat?",
        **({"cache_control": of_message} if of_message else {}),
    }
    body = {
        "system": [{"type": "text", "text": "S", "cache_control": of_system}],
        "messages": [{"role": "user", "content": [text]}],
    }
    sent = remembering(Anthropic(), body)
    marks = [part.get("cache_control") for part in [*sent["system"], *sent["messages"][0]["content"]]]
    lasting = ["ttl" in mark for mark in marks if mark]
    assert len(lasting) == 2 + bool(of_message)
    assert lasting == sorted(lasting, reverse=True)


def test_a_mark_that_is_null_is_none() -> None:
    body = {
        "system": [{"type": "text", "text": "S", "cache_control": None}],
        "messages": [{"role": "user", "content": "hi"}],
    }
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
        (OpenAI(), {"messages": [{"role": "user", "content": "hi"}]}),
        (Anthropic(), {"messages": [{"role": "user", "content": "hi"}]}),
        (Responses(), {"input": [{"role": "user", "content": "hi"}]}),
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
    dialogue = [{"role": "user", "content": written}, {"role": "assistant", "content": "Fine."}]
    events: list[Any] = Recorder().events("g", "a", "s", messages_of(dialogue))
    assert [event["payload"]["text"] for event in events] == [*filter(None, [own]), "Fine."]


def test_an_element_without_an_end_costs_no_time() -> None:
    text = "x" + "<skill>" * 100_000 + " " * 100_000
    assert own_words(text) == text.strip()


def test_requests_that_a_host_makes_for_itself_are_no_conversation() -> None:
    parts = [{"type": "text", "text": REMINDER}, {"type": "text", "text": "Please fix the flaky test"}]
    talk: list[Any] = [{"role": "user", "content": parts}]
    assert words(Anthropic(), {"messages": talk}) == ["Please fix the flaky test"]
    assert words(Anthropic(), {"messages": [{"role": "user", "content": "quota"}], "max_tokens": 1}) == []
    titled = "Analyze if this message indicates a new conversation topic. If it does, …"
    assert words(Anthropic(), {"messages": talk, "system": [{"type": "text", "text": titled}]}) == []
    assert (
        words(
            OpenAI(),
            {
                "messages": [
                    {
                        "role": "system",
                        "content": "You are a title generator. You output ONLY a thread title.",
                    },
                    *talk,
                ]
            },
        )
        == []
    )
    suggested = {
        "role": "user",
        "content": "[SUGGESTION MODE: Suggest what the user might naturally type next.]",
    }
    assert (
        words(Anthropic(), {"messages": [*talk, {"role": "assistant", "content": "Done."}, suggested]}) == []
    )
    result = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "x"},
            {"type": "text", "text": REMINDER},
        ],
    }
    called = {
        "role": "assistant",
        "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t"}],
    }
    body = {"messages": [*talk, called, result]}
    assert words(Anthropic(), body) == ["Please fix the flaky test", "I look."]
    sent = remembering(Anthropic(), body)["messages"]
    assert [sent[0]["content"][0]["text"], sent[2]] == [
        "RECALLED",
        result,
    ]  # a loop of tools is one turn of the user's


def test_what_codex_sends_is_lent_the_key_and_read() -> None:
    passed = {"internal_chat_message_metadata_passthrough": {"turn_id": "t1", "content_item_kinds": ["user"]}}
    opening = [
        "<environment_context>\n<cwd>/repo</cwd>\n</environment_context>",
        "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>x</INSTRUCTIONS>",
    ]
    items: list[Any] = [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions instructions>"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text} for text in opening],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Fix the flaky test"}],
            **passed,
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": None,
            "encrypted_content": "gAAA",
            **passed,
        },
        {"type": "function_call", "call_id": "call_1", "name": "exec_command", "arguments": "{}", **passed},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok", **passed},
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
    parts = [
        {"type": "text", "text": None},
        {"type": "text", "text": "I live in Porto"},
        {"type": "image_url", "image_url": {}},
    ]
    assert words(OpenAI(), {"messages": [{"role": "user", "content": parts}]}) == ["I live in Porto"]
    assert messages_of([{"role": "user", "content": [{"type": "text", "text": None}]}]) == []
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    message = {"role": "assistant", "content": [thinking, {"type": "text", "text": "Porto is lovely."}]}
    whole, streamed = AnswerReader(OpenAI(), streamed=False), AnswerReader(OpenAI(), streamed=True)
    whole.feed(json.dumps({"choices": [{"index": 0, "message": message}]}).encode())
    assert whole.text() == "Porto is lovely."
    for content in ([thinking], [{"type": "text", "text": "Porto "}], "is lovely."):
        streamed.feed(
            f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': content}}]})}\n\n".encode()
        )
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


class _Outbox:
    """Keeps what would be published."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def put(self, *events: Any) -> None:
        self.events += events

    @property
    def turns(self) -> list[tuple[str, str, str]]:
        return [
            (event["session_id"], event["payload"]["role"], event["payload"]["text"]) for event in self.events
        ]


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> tuple[KeyMemory, _Outbox]:
    memory = Memories("http://127.0.0.1:9", max_tokens=100, seconds=1).of(str(new_key()), None)
    outbox = _Outbox()
    monkeypatch.setattr(memory, "_outbox", outbox)
    return memory, outbox


class _Asked:
    """Answers what is recalled, and keeps with which numbers of messages it was asked."""

    def __init__(self) -> None:
        self.conversations, self.turns, self.recalled = self, list[int | None](), "fact 1"

    def within(self, _seconds: float) -> _Asked:
        return self

    async def context(self, *, turn: int | None, **_: Any) -> Any:
        self.turns.append(turn)
        return SimpleNamespace(stable="LASTING", recalled=self.recalled, earlier=[])


def test_what_was_recalled_for_a_first_message_stays_before_it(
    recording: tuple[KeyMemory, _Outbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the upstream's prompt cache is of no use from the second message on."""
    memory, _ = recording
    asking = _Asked()
    monkeypatch.setattr(memory, "_reader", asking)

    def ask(talk: list[Any]) -> dict[int, str]:
        dialogue = dialogue_of(OpenAI(), {"messages": talk})
        shown = dict(asyncio.run(memory.recall(Conversation("mia"), dialogue)).recalled)
        memory.record(Conversation("mia"), dialogue, "Well.")
        return shown

    first = {"role": "user", "content": "What must I not eat?"}
    answer = {"role": "assistant", "content": "Well."}
    again = {"role": "user", "content": "And what else?"}
    called: list[Any] = [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "x"},
    ]
    assert ask([first]) == {1: "fact 1"}
    assert ask([first, *called]) == {1: "fact 1"}  # nobody is asked between calls of tools
    assert ask([first, answer, again]) == {1: "fact 1"}  # what stands there is not repeated
    asking.recalled = "fact 2"
    assert ask([first, answer, again, answer, again]) == {1: "fact 1", 3: "fact 2"}
    asking.recalled = "fact 3"
    late = {"role": "system", "content": "Agents: none."}  # as Claude Code sends
    assert ask([first, late]) == {
        1: "fact 3"
    }  # the same question in a new conversation, after something new was told
    assert asking.turns == [None, 2, 3, None]


def test_words_that_are_said_again_in_a_conversation_are_recorded_again(
    recording: tuple[KeyMemory, _Outbox],
) -> None:
    memory, outbox = recording
    talk: list[Any] = [{"role": "user", "content": "Find it."}]
    for _ in range(5):  # the client closes after each call of a tool, and sends the conversation so far
        memory.record(Conversation("mia"), dialogue_of(OpenAI(), {"messages": talk}), "Let me look. ")
        talk += [
            {"role": "assistant", "content": "Let me look. ", "tool_calls": []},
            {"role": "tool", "content": "nothing"},
        ]
    memory.record(Conversation("mia"), dialogue_of(OpenAI(), {"messages": talk}), "")
    assert [text for _, _, text in outbox.turns] == ["Find it.", *["Let me look."] * 5]
    assert len({session for session, *_ in outbox.turns}) == 1
    assert len({UUID(event["event_id"]) for event in outbox.events}) == 6


def test_what_a_program_leaves_out_makes_no_turn_come_twice(recording: tuple[KeyMemory, _Outbox]) -> None:
    memory, outbox = recording
    talk: list[Any] = []
    for number in range(6):  # of which the program sends the latest three messages
        talk.append({"role": "user", "content": f"question {number}"})
        memory.record(
            Conversation("mia", None, "s"), dialogue_of(OpenAI(), {"messages": talk[-3:]}), f"answer {number}"
        )
        talk.append({"role": "assistant", "content": f"answer {number}"})
    assert [text for *_, text in outbox.turns] == [message["content"] for message in talk]


def test_a_conversation_that_the_upstream_keeps_is_one_session(recording: tuple[KeyMemory, _Outbox]) -> None:
    memory, outbox = recording

    def exchange(asked: str, answer: str, answer_id: str, **kept: str) -> None:
        body = {"input": asked, **kept}
        memory.record(
            Conversation("mia", None, None, *Responses().kept(body)),
            dialogue_of(Responses(), body),
            answer,
            answer_id,
        )

    exchange("I live in Porto.", "Noted.", "r1")
    exchange("yes", "Good.", "r2", previous_response_id="r1")
    exchange("yes", "Good.", "r3", previous_response_id="r2")
    exchange("yes", "Good.", "r3", previous_response_id="r2")  # tried again
    assert [text for *_, text in outbox.turns] == [
        "I live in Porto.",
        "Noted.",
        "yes",
        "Good.",
        "yes",
        "Good.",
    ]
    assert len({session for session, *_ in outbox.turns}) == 1
    for answer_id in ("r4", "r5"):
        exchange("go on", "Well.", answer_id, conversation="conv_1")
    assert len(outbox.turns) == 10
    assert len({session for session, *_ in outbox.turns}) == 2


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
        [{"type": "text", "text": REMINDER}, {"type": "text", "text": "I moved to Faro."}],
        [{"type": "text", "text": None}, {"type": "text", "text": f"{REMINDER}\n我喜欢喝茶。"}],
        "<command-name>/clear</command-name>",
    ]
    lines = [
        json.dumps({"type": "user", "uuid": "u", "message": {"content": content}}).encode()
        for content in contents
    ]
    turns = [turn for line in lines for turn in hook.turns_of(line, "s", "mia")]
    assert [turn["payload"]["text"] for turn in turns] == ["I moved to Faro.", "我喜欢喝茶。"]
