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
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]},
    {"role": "tool", "tool_call_id": "t", "content": "42"},
    {"role": "assistant", "content": "hi"},
    {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "data:"}},
            {"type": "text", "text": "what is it?"},
        ],
    },
]


def changed(dialect: ApiDialect, body: Any, memory: MemoryInjection = MEMORY, **more: Any) -> Any:
    return json.loads(with_memory(dialect, json.dumps(body).encode(), memory, **more))


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ([], [{"role": "system", "content": "STABLE"}]),
        (
            [{"role": "developer", "content": "Be kind."}],
            [{"role": "developer", "content": "Be kind.\n\nSTABLE"}],
        ),
        (
            [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}],
            [
                {
                    "role": "system",
                    "content": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "STABLE"}],
                }
            ],
        ),
    ],
)
def test_a_chat_completion_has_each_memory_before_its_message(first: list[Any], expected: list[Any]) -> None:
    body = {"model": "m", "messages": [*first, *TALK], "seed": 1}
    *before, latest = TALK
    talk = [
        {"role": "user", "content": "FIRST\n\nhello"},
        *before[1:],
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
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
        {"role": "user", "content": "and now?"},
    ]
    after = changed(Responses(), {"input": items, "instructions": "Be kind."})
    assert after["instructions"] == "Be kind.\n\nSTABLE"
    assert after["input"][1]["content"] == [
        {"type": "input_text", "text": "FIRST"},
        {"type": "input_text", "text": "hello"},
    ]
    assert after["input"][-1]["content"] == "SECOND\n\nand now?"
    assert after["input"][2:6] == items[2:6]
    assert [message.text for message in dialogue_of(Responses(), {"input": items})] == [
        "hello",
        "hi",
        "and now?",
    ]
    assert changed(Responses(), {"input": "hello"}) == {"instructions": "STABLE", "input": "FIRST\n\nhello"}
    stored = {"input": "hello", "prompt": {"id": "p"}}  # whose instructions are not ours to replace
    assert changed(Responses(), stored) == {**stored, "input": "STABLE\n\nFIRST\n\nhello"}
    begun = MemoryInjection("STABLE", {1: "FIRST"}, begun=True)
    assert changed(Responses(), {"input": "hello"}, begun, where="user") == {"input": "FIRST\n\nhello"}


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_is_read_however_its_bytes_come(size: int) -> None:
    lines = [
        b": a comment\r\n\r\n",
        'data: {"choices": [{"index": 0, "delta": {"content": "记住"}}]}\r\n\r\n'.encode(),
        (
            b'data: {"choices": [{"index": 1, "delta": {"content": "another"}}, {"index": 0, "delta":'
            b' {"content": "!"}}]}\n\n'
        ),
        b'data: {"choices": [{"delta": "odd"}, 1]}\n\ndata: [1]\n\ndata: {\n\ndata: [DONE]\n\n',
    ]
    reader = AnswerReader(OpenAI(), streamed=True)
    content = b"".join(lines)
    for at in range(0, len(content), size):
        reader.feed(content[at : at + size])
    assert reader.text() == "记住!"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            (
                b'{"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}, {"type":'
                b' "text", "text": "b"}]}'
            ),
            "a\nb",
        ),
        (b'{"content": 1}', ""),
        (b"\xff no json", ""),
    ],
)
def test_a_whole_answer_is_read(body: bytes, text: str) -> None:
    reader = AnswerReader(Anthropic(), streamed=False)
    reader.feed(body)
    assert reader.text() == text


def test_the_events_of_a_response_are_read_with_deltas_and_without() -> None:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    message = {
        "type": "message",
        "content": [{"type": "output_text", "text": "one"}, {"type": "output_text", "text": "two"}],
    }
    created = event("response.created", response={"id": "resp_1", "output": []})
    deltas = [
        event("response.output_item.added", output_index=1, item={"type": "message", "content": []}),
        *(
            event("response.output_text.delta", output_index=1, content_index=0, delta=delta)
            for delta in ("o", "ne")
        ),
        event("response.output_text.delta", output_index=1, content_index=1, delta="two"),
        event("response.output_text.done", output_index=1, content_index=1, text="two"),
    ]
    reasoning = event("response.output_item.done", output_index=0, item={"type": "reasoning", "summary": []})
    done = event("response.output_item.done", output_index=1, item=message)
    completed = event("response.completed", response={"id": "resp_1", "output": [message]})
    for events in ([created, reasoning, *deltas, done, completed], [created, reasoning, done, completed]):
        reader = AnswerReader(Responses(), streamed=True)
        reader.feed("".join(events).encode())
        assert (reader.text(), reader.id) == ("one\ntwo", "resp_1")
    whole = AnswerReader(Responses(), streamed=False)
    whole.feed(
        json.dumps(
            {"id": "resp_2", "object": "response", "output": [{"type": "reasoning"}, message]}
        ).encode()
    )
    assert (whole.text(), whole.id) == ("one\ntwo", "resp_2")
