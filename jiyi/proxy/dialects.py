"""The APIs of LLMs that pass through the proxy: where messages are, where memories go, and what is answered.

Three are known: OpenAI's ``POST /v1/chat/completions`` and ``POST /v1/responses``, and Anthropic's
``POST /v1/messages``. Whatever else is sent passes unchanged.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic_core import from_json

from jiyi.chat.hosts import is_errand, own_words, texts
from jiyi.chat.recording import ROLES
from jiyi.protocol.base import JsonObject
from jiyi.proxy.splice import JsonText, Path

#: Characters of an answer that are remembered; turns are cut at fewer.
MAX_ANSWER_CHARS = 100_000
#: Characters of one event of a stream; a longer one is no text.
MAX_EVENT_CHARS = 1_000_000
#: Characters of a whole answer, in which images may be.
MAX_BODY_CHARS = 8_000_000
#: Messages of people and the assistant in a request that is read, and characters of them all: half a million
#: tokens.
MOST_MESSAGES, MOST_CHARS = 10_000, 2_000_000
#: Anthropic's bound on marks of what is to be cached in one request.
MAX_CACHE_MARKS = 4
#: Where what stays the same through a conversation is put: behind the system prompt, or before the user's
#: first message.
Where = Literal["system", "user"]

Messages = list[dict[str, Any]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryInjection:
    """What goes into a request.

    Attributes:
        stable: what stays the same through the conversation.
        recalled: what was recalled for each of the user's messages, by their numbers in the request, from 1.
            It stays before its message in later requests, too, so that each begins as the one before did, and
            the upstream's prompt cache can keep that.
        begun: the upstream has the conversation's first messages, and what was put into them; the request has
            later ones alone.
    """

    stable: str = ""
    recalled: Mapping[int, str] = field(default_factory=dict)
    begun: bool = False

    def __bool__(self) -> bool:
        return bool(self.stable or any(self.recalled.values()))

    def is_echoed_by(self, answer: str) -> bool:
        """Whether an answer begins with a heading of what was put in: a weak model repeats its prompt."""
        first = answer.strip().partition("\n")[0].strip()
        injected = "\n".join([self.stable, *self.recalled.values()])
        return first.startswith("#") and first in map(str.strip, injected.splitlines())


class RequestMessage(NamedTuple):
    """A message of people or of the assistant: its role, its own words, its content, and where that is."""

    role: str
    text: str
    content: Any
    path: Path
    #: Nothing comes after it but perhaps a system message: no call of a tool, and no result.
    latest: bool = False


class ApiDialect(ABC):
    """One API."""

    name: ClassVar[str]
    #: Where a request has its messages.
    messages_field: ClassVar[str] = "messages"

    def messages(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Any, Path]]:
        """Role, content and its place of each message, oldest first; nothing of a list in another form."""
        messages = body.get(self.messages_field)
        if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
            for place, message in enumerate(messages):
                if message.get("type") in (None, "message") and isinstance(message.get("role"), str):
                    yield message["role"], message.get("content"), (self.messages_field, place, "content")

    @abstractmethod
    def instructions(self, body: Mapping[str, Any]) -> str:
        """The system prompt."""

    @abstractmethod
    def put_stable(self, request: JsonText, body: Mapping[str, Any], text: str) -> None:
        """Put what stays the same through the conversation behind the system prompt."""

    def part(self, text: str) -> JsonObject:
        """A text as one of the parts of a message of the user's."""
        return {"type": "text", "text": text}

    @abstractmethod
    def delta(self, event: Mapping[str, Any]) -> str:
        """The text that an event of a stream adds to the answer."""

    @abstractmethod
    def answer(self, body: Mapping[str, Any]) -> str:
        """The text of a whole answer."""

    def answer_id(self, _body: Mapping[str, Any]) -> str:
        """The id by which a later request may mean this answer, of it or of an event; empty without."""
        return ""

    def kept(self, _body: Mapping[str, Any]) -> tuple[str, str]:
        """Of a conversation that the upstream keeps: ids of the answer before and of itself; or empty."""
        return "", ""

    @abstractmethod
    def error(self, message: str, kind: str) -> JsonObject:
        """A refusal of the proxy's own in the API's form."""


def dialogue_of(dialect: ApiDialect, body: Mapping[str, Any]) -> list[RequestMessage]:
    """What people and the assistant said, oldest first; nothing of what a program asks for itself.

    A request with more than :data:`MOST_MESSAGES` or :data:`MOST_CHARS` is not read: nothing of it is
    remembered.
    """
    read = [(ROLES.get(role, role), content, path) for role, content, path in dialect.messages(body)]
    messages = [(role, content, path) for role, content, path in read if role in ("user", "assistant")]
    size = sum(len(text) for _, content, _ in messages for text in texts(content))
    if len(messages) > MOST_MESSAGES or size > MOST_CHARS:
        log.warning(
            "nothing is remembered of a request with %d messages of %d characters", len(messages), size
        )
        return []
    result, last, latest = [], "", _last_place(body)
    for role, content, path in messages:
        parts = texts(content)
        if role == "user":
            last = "\n".join(parts) or last
            text = "\n".join(filter(None, map(own_words, parts)))
        else:
            text = "\n".join(parts).strip()
        if text:
            result.append(RequestMessage(role, text, content, path, latest=path[1:2] in ((), (latest,))))
    return [] if is_errand(last, dialect.instructions(body)) else result


def _last_place(body: Mapping[str, Any]) -> int:
    """Of what a request lists, the place of the last that is no system message; -1 without any."""
    lists = (body[key] for key in ("messages", "input") if isinstance(body.get(key), list))
    items: list[Any] = next(lists, [])
    places = reversed(range(len(items)))
    return next((place for place in places if not _is_system(_text(items[place], "role"))), -1)


def with_memory(
    dialect: ApiDialect, content: bytes, injection: MemoryInjection, where: Where = "system"
) -> bytes:
    """The request with memories: the stable part where it belongs, each recalled one before its message.

    Nothing else in it changes. What cannot be read stays unchanged.
    """
    try:
        body, request = from_json(content), JsonText(content)
    except (ValueError, RecursionError):
        return content
    stable, before = injection.stable, dict(injection.recalled)
    if isinstance(dialect, Responses) and body.get("prompt"):  # whose own instructions would be replaced
        where = "user"
    if stable and where == "user":
        if not injection.begun:
            before[1] = "\n\n".join(filter(None, [stable, before.get(1)]))
    elif stable:
        dialect.put_stable(request, body, stable)
    users = [message for message in dialogue_of(dialect, body) if message.role == "user"]
    for turn, message in enumerate(users, 1):
        text = before.get(turn)
        if text and isinstance(message.content, str):
            request.prepend(message.path, f"{text}\n\n")
        elif text:
            request.insert(message.path, _after_results(message.content), dialect.part(text))
    return request.content()


def _after_results(parts: list[Any]) -> int:
    """Before which part of a message text may stand: Anthropic's API demands results of tools first."""
    return max((at for at, part in enumerate(parts, 1) if _text(part, "type") == "tool_result"), default=0)


class OpenAI(ApiDialect):
    """Chat completions, as OpenAI's API and those that follow it have them."""

    name = "openai"

    def instructions(self, body: Mapping[str, Any]) -> str:
        system = (content for role, content, _ in self.messages(body) if _is_system(role))
        return "\n".join(text for content in system for text in texts(content))

    def put_stable(self, request: JsonText, body: Mapping[str, Any], text: str) -> None:
        first = next(self.messages(body), None)
        role, content, path = first or ("", None, ("messages", 0, "content"))
        if _is_system(role) and path[1] == 0 and isinstance(content, str):
            request.append(path, f"\n\n{text}" if content else text)
        elif _is_system(role) and path[1] == 0 and isinstance(content, list):
            request.insert(path, len(content), self.part(text))
        else:
            request.insert(("messages",), 0, {"role": "system", "content": text})

    def delta(self, event: Mapping[str, Any]) -> str:
        return "".join(_content(choice.get("delta"), "") for choice in _first(event.get("choices")))

    def answer(self, body: Mapping[str, Any]) -> str:
        return "".join(_content(choice.get("message"), "\n") for choice in _first(body.get("choices")))

    def error(self, message: str, kind: str) -> JsonObject:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


class Responses(OpenAI):
    """Responses, as OpenAI's API has them. One of these reads one answer."""

    messages_field = "input"

    def __init__(self) -> None:
        #: Item and part of the answer of which text came last; items of which some came.
        self._last: tuple[Any, Any] | None = None
        self._items: set[Any] = set()

    def messages(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Any, Path]]:
        if isinstance(body.get("input"), str):
            return iter([("user", body["input"], ("input",))])
        return super().messages(body)

    def instructions(self, body: Mapping[str, Any]) -> str:
        return "\n".join(filter(None, [_text(body, "instructions"), super().instructions(body)]))

    def put_stable(self, request: JsonText, body: Mapping[str, Any], text: str) -> None:
        if _text(body, "instructions"):
            request.append(("instructions",), f"\n\n{text}")
        else:
            request.put((), "instructions", text)

    def part(self, text: str) -> JsonObject:
        return {"type": "input_text", "text": text}

    def delta(self, event: Mapping[str, Any]) -> str:
        place = (event.get("output_index"), event.get("content_index"))
        if event.get("type") == "response.output_text.delta":
            text = _text(event, "delta")
        elif event.get("type") == "response.output_item.done" and place[0] not in self._items:
            # an upstream without deltas
            text = _output(event.get("item"))
        else:
            return ""
        between = "\n" if text and self._last not in (None, place) else ""
        if text:
            self._last = place
            self._items.add(place[0])
        return between + text

    def answer(self, body: Mapping[str, Any]) -> str:
        items = body.get("output")
        return "\n".join(filter(None, map(_output, items if isinstance(items, list) else [])))

    def answer_id(self, body: Mapping[str, Any]) -> str:
        return _text(body.get("response") if "type" in body else body, "id")

    def kept(self, body: Mapping[str, Any]) -> tuple[str, str]:
        conversation = body.get("conversation")
        return _text(body, "previous_response_id"), _text(body, "conversation") or _text(conversation, "id")


class Anthropic(ApiDialect):
    """Messages, as Anthropic's API has them."""

    name = "anthropic"

    def instructions(self, body: Mapping[str, Any]) -> str:
        return "\n".join(texts(body.get("system")))

    def put_stable(self, request: JsonText, body: Mapping[str, Any], text: str) -> None:
        system, block = body.get("system"), self.part(text)
        if isinstance(system, str) and system:
            more = json.dumps(block, ensure_ascii=False)
            request.wrap(("system",), '[{"type":"text","text":', f"}},{more}]")
        elif isinstance(system, list):
            marks = [block["cache_control"] for block in system if _is_marked(block)]
            if marks and _cache_marks(body) < MAX_CACHE_MARKS:
                # Who caches the system prompt caches this, too, for as long: no longer time may come after
                # it.
                block["cache_control"] = marks[-1]
            request.insert(("system",), len(system), block)
        else:
            request.put((), "system", text)

    def delta(self, event: Mapping[str, Any]) -> str:
        if event.get("type") == "content_block_start":
            # Blocks of text stand on lines of their own, as in a whole answer.
            return "\n" if _text(event.get("content_block"), "type") == "text" else ""
        delta = event.get("delta") if event.get("type") == "content_block_delta" else None
        return _text(delta, "text") if _text(delta, "type") == "text_delta" else ""

    def answer(self, body: Mapping[str, Any]) -> str:
        return _content(body, "\n")

    def error(self, message: str, kind: str) -> JsonObject:
        return {"type": "error", "error": {"type": kind, "message": message}}


def _is_system(role: str) -> bool:
    return ROLES.get(role, role) == "system"


def _content(message: object, between: str) -> str:
    return between.join(texts(message.get("content"))) if isinstance(message, Mapping) else ""


def _output(item: object) -> str:
    """The text of an item of a response, if it is a message."""
    return _content(item, "\n") if _text(item, "type") == "message" else ""


def _text(value: object, field: str) -> str:
    """A field of something that may be anything; empty if it is no text."""
    text = value.get(field) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""


def _first(choices: object) -> Iterator[Mapping[str, Any]]:
    """The first of several answers that were asked for at once: the one that a program shows."""
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, Mapping) and choice.get("index", 0) == 0:
            yield choice


def _is_marked(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("cache_control"), dict)


def _cache_marks(value: object) -> int:
    """How often a request marks what is to be cached."""
    if isinstance(value, dict):
        return _is_marked(value) + sum(map(_cache_marks, value.values()))
    return sum(map(_cache_marks, value)) if isinstance(value, list) else 0


class AnswerReader:
    """Puts together what an answer says, from the bytes as they pass: JSON, or server-sent events.

    Reading must never disturb what passes: what it does not understand it leaves out.
    """

    def __init__(self, dialect: ApiDialect, streamed: bool) -> None:
        self._dialect, self._streamed = dialect, streamed
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._decoder = io.IncrementalNewlineDecoder(utf8, translate=True) if streamed else utf8
        #: What came of a whole answer, or of a line of a stream; the data of an event; what the answer says.
        self._received, self._data, self._parts = io.StringIO(), list[str](), list[str]()
        self._size = self._chars = 0
        #: By which a later request may mean this answer.
        self.id = ""

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        text = self._decoder.decode(chunk)
        most = MAX_EVENT_CHARS if self._streamed else MAX_BODY_CHARS
        *lines, rest = text.split("\n") if self._streamed else [text]
        for line in lines:
            self._received.write(line)
            self._read(self._received.getvalue())
            self._received = io.StringIO()
        if self._received.tell() <= most:
            self._received.write(rest)

    def text(self) -> str:
        """What the answer says so far."""
        if self._streamed:
            return "".join(self._parts)[:MAX_ANSWER_CHARS]
        body = _json(self._received.getvalue())
        if not isinstance(body, dict):
            return ""
        self.id = self._dialect.answer_id(body)
        return self._dialect.answer(body)[:MAX_ANSWER_CHARS]

    def _read(self, line: str) -> None:
        """A line of a stream.

        An event ends with an empty one; those of one line are read at once, as some send no empty ones.
        """
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
            self._size += len(line)
        elif line or not self._data:
            return
        event = _json("\n".join(self._data)) if not line or len(self._data) == 1 else None
        if not line or isinstance(event, dict) or self._size > MAX_EVENT_CHARS:
            self._data.clear()
            self._size = 0
        if not isinstance(event, dict):
            return
        self.id = self.id or self._dialect.answer_id(event)
        added = self._dialect.delta(event)
        if added and self._chars < MAX_ANSWER_CHARS:
            self._parts.append(added)
            self._chars += len(added)


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
