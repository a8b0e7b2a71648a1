"""Batches of JSON-RPC: several messages in a list. Of MCP's versions 2025-03-26 alone has them; the SDK reads
none.

Each message is handled as if it had come alone, one after the other; the answers come back in one list.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from pydantic_core import from_json, to_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jiyi.protocol.base import JsonObject
from jiyi.protocol.limits import BODY_BYTES

#: The version that has batches, which is also that of who names none over HTTP.
VERSION = "2025-03-26"
#: Messages of one batch: each may be a request to the service.
MOST_MESSAGES = 20
#: JSON-RPC's codes: what came is no JSON; it is no request.
NO_JSON, NO_REQUEST = -32700, -32600


class BatchError(ValueError):
    """A batch that is refused as a whole."""

    def __init__(self, message: str, code: int = NO_REQUEST) -> None:
        super().__init__(message)
        self.answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


def is_batch(text: str | bytes) -> bool:
    """Whether it begins as a list does."""
    return text.lstrip()[:1] in ("[", b"[")


def messages_of(text: str | bytes, version: str) -> list[JsonObject]:
    """The messages of a batch in this version of the protocol. Raises :class:`BatchError`."""
    if version != VERSION:
        raise BatchError(f"version {version} of the protocol has no batches: send each message separately")
    if len(text) > BODY_BYTES:
        raise BatchError(f"a batch has at most {BODY_BYTES:,} bytes: send fewer messages together")
    try:
        messages = from_json(text)
    except ValueError as error:
        raise BatchError(f"the batch is no JSON: {error}", NO_JSON) from None
    if not 0 < len(messages) <= MOST_MESSAGES:
        raise BatchError(f"a batch has 1 to {MOST_MESSAGES} messages; this one has {len(messages)}")
    if not all(isinstance(message, dict) for message in messages):
        raise BatchError("each message of a batch must be an object")
    if any(message.get("method") == "initialize" for message in messages):
        raise BatchError("initialize must not be in a batch: send it separately, before all others")
    return list(messages)


class OverHttp:
    """Batches to an application that takes single messages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request; of one that is no batch nothing is changed."""
        request_parts: list[Message] = []
        if scope["type"] == "http":
            await _receive(request_parts, receive, lambda body: not body.strip())
        if not is_batch(_body(request_parts)):
            await self._app(scope, _again(request_parts, receive), send)
            return
        await _receive(request_parts, receive, lambda _: True)
        try:
            messages = messages_of(
                _body(request_parts), Headers(scope=scope).get("mcp-protocol-version", VERSION)
            )
        except BatchError as error:
            answer = Response(to_json(error.answer), 400, media_type="application/json")
        else:
            answer = await self._answer(scope, messages)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, messages: list[JsonObject]) -> Response:
        answers = []
        for message in messages:
            status, answer = await self._ask(scope, to_json(message))
            if status >= 400 and not answer.startswith(b"{"):  # of the request, whatever is in it
                return Response(answer, status)
            if answer:
                answers.append(from_json(answer) | ({"id": message["id"]} if "id" in message else {}))
        if not answers:
            return Response(status_code=202)
        return Response(to_json(answers), media_type="application/json")

    async def _ask(self, scope: Scope, content: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to one message."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        status, parts = 0, list[bytes]()

        async def answered(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        one = {**scope, "headers": [*headers, (b"content-length", str(len(content)).encode())]}
        await self._app(one, _again([{"type": "http.request", "body": content}], None), answered)
        return status, b"".join(parts)


async def _receive(parts: list[Message], receive: Receive, more: Callable[[bytes], bool]) -> None:
    """Add what comes while there is ``more`` to read, up to one byte too many."""
    while (
        (not parts or parts[-1].get("more_body", False))
        and len(body := _body(parts)) <= BODY_BYTES
        and more(body)
    ):
        parts.append(await receive())


def _body(messages: list[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in messages)


def _again(parts: list[Message], receive: Receive | None) -> Receive:
    """Gives what came, then what comes; without more, that the caller has left."""
    waiting = list(parts)

    async def next_one() -> Message:
        if waiting:
            return waiting.pop(0)
        return {"type": "http.disconnect"} if receive is None else await receive()

    return next_one


class LineStream(Protocol):
    """A text file as the SDK's ``stdio_server`` uses it."""

    def __aiter__(self) -> AsyncIterator[str]: ...

    async def write(self, text: str) -> Any: ...

    async def flush(self) -> None: ...


class OverStdio:
    """Standard input and output of a server, between a host and the SDK: give it as both."""

    def __init__(self, reading: LineStream, writing: LineStream) -> None:
        self._reading, self._writing = reading, writing
        self._version = ""
        #: Of each batch under way: the ids of its requests that have no answer yet, and the answers.
        self._batches: list[tuple[set[str], list[Any]]] = []

    async def __aiter__(self) -> AsyncIterator[str]:
        """The host's messages, one a line."""
        async for line in self._reading:
            if not is_batch(line):
                if self._batches:
                    await self._cancelled(line)
                yield line
                continue
            try:
                messages = messages_of(line, self._version)
            except BatchError as error:
                await self._say(error.answer)
                continue
            if ids := {_id(message) for message in messages if "id" in message and "method" in message}:
                self._batches.append((ids, []))
            for message in messages:
                yield to_json(message).decode()

    async def write(self, text: str) -> None:
        """A message of the server's: an answer that belongs to a batch waits for the others."""
        message = from_json(text)
        if "id" not in message or "method" in message:
            await self._writing.write(text)
            return
        if isinstance(result := message.get("result"), dict):
            self._version = self._version or result.get("protocolVersion", "")
        if not await self._answered(_id(message), [message]):
            await self._writing.write(text)

    async def flush(self) -> None:
        await self._writing.flush()

    async def _answered(self, request: str, answers: list[Any]) -> bool:
        """Whether it is a request of a batch, of which ``answers`` are all that come."""
        batch = next((batch for batch in self._batches if request in batch[0]), None)
        if batch is None:
            return False
        batch[0].discard(request)
        batch[1].extend(answers)
        if not batch[0]:
            self._batches.remove(batch)
            if batch[1]:
                await self._say(batch[1])
        return True

    async def _cancelled(self, line: str) -> None:
        """No answer comes to a request that the host takes back."""
        try:
            message = from_json(line)
        except ValueError:
            return
        if isinstance(message, dict) and message.get("method") == "notifications/cancelled":
            await self._answered(to_json(dict(message.get("params") or {}).get("requestId")).decode(), [])

    async def _say(self, what: Any) -> None:
        await self._writing.write(f"{to_json(what).decode()}\n")
        await self._writing.flush()


def _id(message: JsonObject) -> str:
    return to_json(message["id"]).decode()
