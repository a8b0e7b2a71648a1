"""The APIs of LLMs that pass through the proxy: where a request has its messages, where memories go, and what an answer says.

Two are known: OpenAI's ``POST /v1/chat/completions`` and Anthropic's ``POST /v1/messages``. Whatever else is sent passes as it is.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import from_json

from jiyi.chat.recording import with_text
from jiyi.protocol.base import JsonObject

#: Characters of an answer that are remembered; turns are cut at fewer.
MAX_ANSWER_CHARS = 100_000
#: Characters of one event of a stream; a longer one is no text.
MAX_LINE_CHARS = 1_000_000
#: Anthropic's bound on marks of what is to be cached in one request.
MAX_CACHE_MARKS = 4

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Remembered:
    """What goes into a request.

    Attributes:
        stable: what stays the same through the conversation; it stands behind the system prompt.
        recalled: what was recalled for each of the user's messages, by their numbers, from 1. It stays before its message in later
            requests, too, so that each begins as the one before did, and the upstream's prompt cache can keep that.
    """

    stable: str = ""
    recalled: Mapping[int, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.stable or any(self.recalled.values()))


class Dialect(Protocol):
    """One API."""

    @property
    def name(self) -> str: ...

    def with_memory(self, body: JsonObject, remembered: Remembered) -> JsonObject:
        """The request with memories: the stable part behind the system prompt, each recalled one before its message."""
        ...

    def delta(self, event: Mapping[str, Any]) -> str:
        """The text that an event of a stream adds to the answer."""
        ...

    def answer(self, body: Mapping[str, Any]) -> str:
        """The text of a whole answer."""
        ...

    def error(self, message: str, kind: str) -> JsonObject:
        """A refusal of the proxy's own in the API's form."""
        ...


def messages_of(body: Mapping[str, Any]) -> Messages:
    """The messages of a request; empty if it has none in the form of the API."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return []
    return messages


def said(body: Mapping[str, Any]) -> Messages:
    """What people and the assistant said, oldest first: role and text of each message that has one."""
    texts = (with_text(message) for message in messages_of(body))
    return [
        {"role": message["role"], "text": message["text"].strip()}
        for message in texts
        if message.get("role") in ("user", "assistant") and isinstance(message["text"], str) and message["text"].strip()
    ]


def _recalling(messages: Messages, recalled: Mapping[int, str]) -> Messages:
    """The messages with what was recalled at the beginning of the user's; results of tools are none of them."""
    result, turn = [], 0
    for message in messages:
        content = message.get("content")
        if message.get("role") == "user" and str(with_text(message)["text"]).strip():
            turn += 1
            if (text := recalled.get(turn)) and isinstance(content, str):
                content = f"{text}\n\n{content}"
            elif text and isinstance(content, list):
                content = [{"type": "text", "text": text}, *content]
        result.append(message if content is message.get("content") else {**message, "content": content})
    return result


class OpenAI:
    """Chat completions, as OpenAI's API and those that follow it have them."""

    name = "openai"

    def with_memory(self, body: JsonObject, remembered: Remembered) -> JsonObject:
        messages = _recalling(messages_of(body), remembered.recalled)
        if remembered.stable:
            first = messages[0] if messages else {}
            if first.get("role") in ("system", "developer") and isinstance(first.get("content"), str):
                messages = [{**first, "content": f"{first['content']}\n\n{remembered.stable}".strip()}, *messages[1:]]
            elif first.get("role") in ("system", "developer") and isinstance(first.get("content"), list):
                messages = [{**first, "content": [*first["content"], {"type": "text", "text": remembered.stable}]}, *messages[1:]]
            else:
                messages = [{"role": "system", "content": remembered.stable}, *messages]
        return {**body, "messages": messages}

    def delta(self, event: Mapping[str, Any]) -> str:
        return "".join(_text(choice.get("delta"), "content") for choice in _first(event.get("choices")))

    def answer(self, body: Mapping[str, Any]) -> str:
        return "".join(_text(choice.get("message"), "content") for choice in _first(body.get("choices")))

    def error(self, message: str, kind: str) -> JsonObject:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


class Anthropic:
    """Messages, as Anthropic's API has them."""

    name = "anthropic"

    def with_memory(self, body: JsonObject, remembered: Remembered) -> JsonObject:
        result: JsonObject = {**body, "messages": _recalling(messages_of(body), remembered.recalled)}
        if remembered.stable:
            system: Any = body.get("system") or []
            blocks = [{"type": "text", "text": system}] if isinstance(system, str) else list(system)
            block: JsonObject = {"type": "text", "text": remembered.stable}
            marks = _cache_marks(body)
            if any("cache_control" in block for block in blocks) and marks < MAX_CACHE_MARKS:
                block["cache_control"] = {"type": "ephemeral"}  # who caches the system prompt caches this, too
            result["system"] = [*blocks, block]
        return result

    def delta(self, event: Mapping[str, Any]) -> str:
        if event.get("type") == "content_block_start":  # blocks of text stand on lines of their own, as in a whole answer
            return "\n" if _text(event.get("content_block"), "type") == "text" else ""
        delta = event.get("delta") if event.get("type") == "content_block_delta" else None
        return _text(delta, "text") if _text(delta, "type") == "text_delta" else ""

    def answer(self, body: Mapping[str, Any]) -> str:
        blocks = body.get("content")
        blocks = blocks if isinstance(blocks, list) else []
        return "\n".join(_text(block, "text") for block in blocks if _text(block, "type") == "text")

    def error(self, message: str, kind: str) -> JsonObject:
        return {"type": "error", "error": {"type": kind, "message": message}}


def _text(value: object, field: str) -> str:
    """A field of something that may be anything; empty if it is no text."""
    text = value.get(field) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""


def _first(choices: object) -> Iterator[Mapping[str, Any]]:
    """The first of several answers that were asked for at once: the one that a program shows."""
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, Mapping) and choice.get("index", 0) == 0:
            yield choice


def _cache_marks(value: object) -> int:
    """How often a request marks what is to be cached."""
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(_cache_marks, value.values()))
    return sum(map(_cache_marks, value)) if isinstance(value, list) else 0


class AnswerReader:
    """Puts together what an answer says, from the bytes as they pass: JSON, or server-sent events.

    Reading must never disturb what passes: what it does not understand it leaves out.
    """

    def __init__(self, dialect: Dialect, streamed: bool) -> None:
        self._dialect, self._streamed = dialect, streamed
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._line = ""
        self._parts: list[str] = []
        self._chars = 0

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        text = self._decoder.decode(chunk)
        if not self._streamed:
            if len(self._line) <= MAX_LINE_CHARS * 8:
                self._line += text
            return
        *lines, self._line = f"{self._line}{text}".split("\n")
        for line in lines:
            self._read(line)
        if len(self._line) > MAX_LINE_CHARS:
            self._line = ""

    def text(self) -> str:
        """What the answer says so far."""
        if self._streamed:
            return "".join(self._parts)
        body = _json(self._line)
        return self._dialect.answer(body)[:MAX_ANSWER_CHARS] if isinstance(body, dict) else ""

    def _read(self, line: str) -> None:
        field, _, value = line.rstrip("\r").partition(":")
        event = _json(value) if field == "data" else None
        added = self._dialect.delta(event) if isinstance(event, dict) else ""
        if added and self._chars < MAX_ANSWER_CHARS:
            self._parts.append(added)
            self._chars += len(added)


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
