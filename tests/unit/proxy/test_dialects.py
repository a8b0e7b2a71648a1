"""Where memories go in a request, and what an answer says: whatever else is in it stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

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

MEMORY = MemoryInjection("STABLE", {1: "FIRST", 2: "SECOND"})
WHAT = {"type": "text", "text": "what is it?"}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]},
    {"role": "tool", "tool_call_id": "t", "content": "42"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}, WHAT]},
]


def changed(dialect: ApiDialect, body: Any, memory: MemoryInjection = MEMORY, **more: Any) -> Any:
    return json.loads(with_memory(dialect, json.dumps(body).encode(), memory, **more))


KIND, STABLE = {"type": "text", "text": "Be kind."}, {"type": "text", "text": "STABLE"}


@pytest.mark.parametrize(
    ("role", "before", "after"),
    [
        ("system", None, "STABLE"),
        ("developer", "Be kind.", "Be kind.\n\nSTABLE"),
        ("system", [KIND], [KIND, STABLE]),
    ],
)
def test_a_chat_completion_has_each_memory_before_its_message(role: str, before: Any, after: Any) -> None:
    first = [] if before is None else [{"role": role, "content": before}]
    expected = [{"role": role, "content": after}]
    body = {"model": "m", "messages": [*first, *TALK], "seed": 1}
    *earlier, latest = TALK
    talk = [
        {"role": "user", "content": "FIRST\n\nhello"},
        *earlier[1:],
        {"role": "user", "content": [{"type": "text", "text": "SECOND"}, *latest["content"]]},
    ]
    assert changed(OpenAI(), body) == {"model": "m", "seed": 1, "messages": [*expected, *talk]}
    talk[0] = {"role": "user", "content": "STABLE\n\nFIRST\n\nhello"}
    assert changed(OpenAI(), body, where="user") == {"model": "m", "seed": 1, "messages": [*first, *talk]}
    assert [message.text for message in dialogue_of(OpenAI(), body)] == ["hello", "hi", "what is it?"]


def test_a_message_of_anthropic_s_has_memory_in_its_system_text_and_is_cached_where_that_is() -> None:
    result = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}]}]
    body: Any = {"system": "Be kind.", "messages": [{"role": "user", "content": "hello"}, *result]}
    after = changed(Anthropic(), body)
    assert after["system"] == [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "STABLE"}]
    assert after["messages"] == [{"role": "user", "content": "FIRST\n\nhello"}, *result]
    mark = {"cache_control": {"type": "ephemeral"}}
    for marks, expected in ((1, True), (4, False)):
        body = {"system": [{"type": "text", "text": "x", **mark}] * marks, "messages": []}
        assert ("cache_control" in changed(Anthropic(), body)["system"][-1]) is expected
    nothing: dict[str, Any]
    for nothing in ({}, {"system": ""}, {"system": []}):
        assert "STABLE" in json.dumps(changed(Anthropic(), {**nothing, "messages": []})["system"])


def test_a_response_has_memory_in_its_instructions_and_before_its_messages() -> None:
    def message(role: str, text: str, kind: str = "input_text") -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    items = [
        message("developer", "Be brief."),
        message("user", "hello"),
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        message("assistant", "hi", "output_text"),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
        {"role": "user", "content": "and now?"},
    ]
    after = changed(Responses(), {"input": items, "instructions": "Be kind."})
    assert after["instructions"] == "Be kind.\n\nSTABLE"
    first = {"type": "input_text", "text": "FIRST"}
    assert after["input"][1]["content"] == [first, *items[1]["content"]]
    assert after["input"][-1]["content"] == "SECOND\n\nand now?"
    assert after["input"][2:6] == items[2:6]
    said = [one.text for one in dialogue_of(Responses(), {"input": items})]
    assert said == ["hello", "hi", "and now?"]
    assert changed(Responses(), {"input": "hello"}) == {"instructions": "STABLE", "input": "FIRST\n\nhello"}
    stored = {"input": "hello", "prompt": {"id": "p"}}  # whose instructions are not ours to replace
    assert changed(Responses(), stored) == {**stored, "input": "STABLE\n\nFIRST\n\nhello"}
    begun = MemoryInjection("STABLE", {1: "FIRST"}, begun=True)
    assert changed(Responses(), {"input": "hello"}, begun, where="user") == {"input": "FIRST\n\nhello"}


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_is_read_however_its_bytes_come(size: int) -> None:
    another = b'{"index": 1, "delta": {"content": "another"}}'
    lines = [
        b": a comment\r\n\r\n",
        'data: {"choices": [{"index": 0, "delta": {"content": "记住"}}]}\r\n\r\n'.encode(),
        b'data: {"choices": [%s, {"index": 0, "delta": {"content": "!"}}]}\n\n' % another,
        b'data: {"choices": [{"delta": "odd"}, 1]}\n\ndata: [1]\n\ndata: {\n\ndata: [DONE]\n\n',
    ]
    reader = AnswerReader(OpenAI(), streamed=True)
    content = b"".join(lines)
    for at in range(0, len(content), size):
        reader.feed(content[at : at + size])
    assert reader.text() == "记住!"


def test_a_whole_answer_is_read() -> None:
    parts = [
        {"type": "thinking", "thinking": "x"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    whole = json.dumps({"content": parts}).encode()
    for body, text in ((whole, "a\nb"), (b'{"content": 1}', ""), (b"\xff no json", "")):
        reader = AnswerReader(Anthropic(), streamed=False)
        reader.feed(body)
        assert reader.text() == text


def test_the_events_of_a_response_are_read_with_deltas_and_without() -> None:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    message = {
        "type": "message",
        "content": [{"type": "output_text", "text": text} for text in ("one", "two")],
    }
    created = event("response.created", response={"id": "resp_1", "output": []})
    at, text = {"output_index": 1}, "response.output_text"
    deltas = [
        event("response.output_item.added", **at, item={"type": "message", "content": []}),
        *(event(f"{text}.delta", **at, content_index=0, delta=delta) for delta in ("o", "ne")),
        event(f"{text}.delta", **at, content_index=1, delta="two"),
        event(f"{text}.done", **at, content_index=1, text="two"),
    ]
    reasoning = event("response.output_item.done", output_index=0, item={"type": "reasoning", "summary": []})
    done = event("response.output_item.done", output_index=1, item=message)
    completed = event("response.completed", response={"id": "resp_1", "output": [message]})
    for events in ([created, reasoning, *deltas, done, completed], [created, reasoning, done, completed]):
        reader = AnswerReader(Responses(), streamed=True)
        reader.feed("".join(events).encode())
        assert (reader.text(), reader.id) == ("one\ntwo", "resp_1")
    whole = AnswerReader(Responses(), streamed=False)
    body = {"id": "resp_2", "object": "response", "output": [{"type": "reasoning"}, message]}
    whole.feed(json.dumps(body).encode())
    assert (whole.text(), whole.id) == ("one\ntwo", "resp_2")
