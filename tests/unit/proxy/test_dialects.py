"""Where memories go in a request, and what an answer says: whatever else is in it stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from jiyi.proxy.dialects import AnswerReader, Anthropic, OpenAI, Remembered, said

MEMORY = Remembered("STABLE", {1: "FIRST", 2: "SECOND"})
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "t"}]},
    {"role": "tool", "tool_call_id": "t", "content": "42"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}, {"type": "text", "text": "what is it?"}]},
]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ([], [{"role": "system", "content": "STABLE"}]),
        ([{"role": "developer", "content": "Be kind."}], [{"role": "developer", "content": "Be kind.\n\nSTABLE"}]),
        (
            [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}],
            [{"role": "system", "content": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "STABLE"}]}],
        ),
    ],
)
def test_a_chat_completion_has_each_memory_before_its_message(first: list[Any], expected: list[Any]) -> None:
    body = {"model": "m", "messages": [*first, *TALK], "seed": 1}
    changed = OpenAI().with_memory(body, MEMORY)
    *before, latest = TALK
    assert changed == {
        "model": "m",
        "seed": 1,
        "messages": [
            *expected,
            {"role": "user", "content": "FIRST\n\nhello"},
            *before[1:],
            {"role": "user", "content": [{"type": "text", "text": "SECOND"}, *latest["content"]]},
        ],
    }
    assert body["messages"] == [*first, *TALK]
    assert [message["text"] for message in said(body)] == ["hello", "hi", "what is it?"]


def test_a_message_of_anthropic_s_has_memory_in_its_system_text_and_is_cached_where_that_is() -> None:
    result = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}]}]
    body: Any = {"system": "Be kind.", "messages": [{"role": "user", "content": "hello"}, *result]}
    changed = Anthropic().with_memory(body, MEMORY)
    assert changed["system"] == [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "STABLE"}]
    assert changed["messages"] == [{"role": "user", "content": "FIRST\n\nhello"}, *result]
    mark = {"cache_control": {"type": "ephemeral"}}
    for marks, expected in ((1, True), (4, False)):
        body = {"system": [{"type": "text", "text": "x", **mark}] * marks, "messages": []}
        assert ("cache_control" in Anthropic().with_memory(body, MEMORY)["system"][-1]) is expected


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_is_read_however_its_bytes_come(size: int) -> None:
    lines = [
        b": a comment\r\n\r\n",
        'data: {"choices": [{"index": 0, "delta": {"content": "记住"}}]}\r\n\r\n'.encode(),
        b'data: {"choices": [{"index": 1, "delta": {"content": "another"}}, {"index": 0, "delta": {"content": "!"}}]}\n\n',
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
        (b'{"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}', "a\nb"),
        (b'{"content": "odd"}', ""),
        (b"\xff no json", ""),
    ],
)
def test_a_whole_answer_is_read(body: bytes, text: str) -> None:
    reader = AnswerReader(Anthropic(), streamed=False)
    reader.feed(body)
    assert reader.text() == text
