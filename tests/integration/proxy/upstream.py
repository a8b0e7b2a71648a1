"""An LLM's API as the proxy's upstream: chat completions, responses and messages, whole and streamed, calls
of tools, and what it got.

It refuses what the APIs refuse: text before the results of tools, a mark of the cache before one that lasts
longer, an unknown response.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

#: What a streamed answer is made of: pieces that cut a Chinese character and an event in two.
CUT = 37
#: The id of the call of a tool that it asks for, once, where there are tools.
CALL = "call_1"


@dataclass
class Upstream:
    """What it got, and what it does next."""

    requests: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    #: What it says to each message; ``{"status": …}`` for a refusal, ``{"break": n}`` for a stream that
    #: breaks off after n bytes.
    answer: str = "记住了 Noted."
    status: int = 200
    break_after: int | None = None
    #: Inputs of the responses it gave, which later requests may mean by their ids.
    responses: dict[str, list[Any]] = field(default_factory=dict)
    #: Set while streams are to wait in their middle.
    hold: asyncio.Event | None = None

    @property
    def last(self) -> Any:
        return self.requests[-1][1]

    def app(self) -> Starlette:
        routes = [
            Route("/v1/chat/completions", self._openai, methods=["POST"]),
            Route("/v1/responses", self._responses, methods=["POST"]),
            Route("/v1/messages", self._anthropic, methods=["POST"]),
            Route("/v1/models", self._models),
        ]
        return Starlette(routes=routes)

    def stream(self, kind: str) -> bytes:
        """The bytes of a streamed answer."""
        pieces = [self.answer[at : at + 3] for at in range(0, len(self.answer), 3)]
        if kind == "openai":
            chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            events = [
                {**chunk, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
                for piece in pieces
            ]
            last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in [*events, last]] + [
                "data: [DONE]\n\n"
            ]
            return "".join(lines).encode()
        if kind == "responses":
            return _events(_response_events(_response(self.answer, f"resp_{len(self.responses)}"), pieces))
        message = _message("")
        message["content"] = []
        told: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *(
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
                for piece in pieces
            ),
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]
        return _events(told)

    async def _openai(self, request: Request) -> Response:
        return await self._reply(request, "openai")

    async def _responses(self, request: Request) -> Response:
        return await self._reply(request, "responses")

    async def _anthropic(self, request: Request) -> Response:
        return await self._reply(request, "anthropic")

    async def _models(self, request: Request) -> Response:
        self.requests.append((dict(request.headers), None))
        return JSONResponse(
            {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}]}
        )

    async def _reply(self, request: Request, kind: str) -> Response:
        body = await request.json()
        self.requests.append((dict(request.headers), body))
        if self.status != 200:
            return JSONResponse(
                {"error": {"message": "slow down", "type": "rate_limit"}},
                self.status,
                {"retry-after": "7", "x-own": "1"},
            )
        if wrong := self._wrong(kind, body):
            return JSONResponse({"error": {"message": wrong, "type": "invalid_request_error"}}, 400)
        calls = bool(body.get("tools")) and CALL not in json.dumps(body)
        if kind == "responses":
            given = (
                body["input"]
                if isinstance(body["input"], list)
                else [{"role": "user", "content": body["input"]}]
            )
            self.responses[f"resp_{len(self.responses) + 1}"] = [
                *self.responses.get(body.get("previous_response_id"), []),
                *given,
            ]
        if body.get("stream"):
            return StreamingResponse(self._stream(self.stream(kind)), media_type="text/event-stream")
        if kind == "responses":
            return JSONResponse(_response(self.answer, f"resp_{len(self.responses)}", calls=calls))
        if kind == "anthropic":
            return JSONResponse(_message(self.answer, calls=calls))
        message: dict[str, Any] = {"role": "assistant", "content": self.answer}
        if calls:
            message["tool_calls"] = [
                {"id": CALL, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return JSONResponse(
            {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )

    def _wrong(self, kind: str, body: Any) -> str:
        """What the API refuses, in its words."""
        if kind == "responses":
            previous = body.get("previous_response_id")
            return (
                f"Previous response with id '{previous}' not found."
                if previous and previous not in self.responses
                else ""
            )
        if kind == "openai":
            return ""
        blocks = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
        for parts in blocks:
            kinds = [part["type"] for part in parts]
            if "tool_result" in kinds and kinds != sorted(kinds, key="tool_result".__ne__):
                return "`tool_use` ids were found without `tool_result` blocks immediately after"
        system = [body["system"]] if isinstance(body.get("system"), list) else []
        marks = [
            part["cache_control"]
            for parts in [*system, *blocks]
            for part in parts
            if part.get("cache_control")
        ]
        lasting = [mark.get("ttl", "5m") for mark in marks]
        return (
            ""
            if lasting == sorted(lasting)
            else "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )

    async def _stream(self, content: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(content), CUT):
            if self.break_after is not None and at >= self.break_after:
                raise RuntimeError("broken off, as it was told to")
            yield content[at : at + CUT]
            if self.hold is not None and at > len(content) / 2:
                await self.hold.wait()
            await asyncio.sleep(0)


def _message(text: str, *, calls: bool = False) -> dict[str, Any]:
    content: list[Any] = [{"type": "text", "text": text}]
    if calls:
        content.append({"type": "tool_use", "id": CALL, "name": "look", "input": {}})
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "usage": usage}  # fmt: skip


def _response(text: str, response_id: str, *, calls: bool = False) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": CALL,
        "name": "look",
        "arguments": "{}",
        "status": "completed",
    }
    return {"id": response_id, "object": "response", "created_at": 1, "status": "completed", "model": "m",
            "output": [message, *([call] if calls else [])], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip


def _response_events(response: dict[str, Any], pieces: list[str]) -> list[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": []}
    (message,) = response["output"]
    (part,) = message["content"]
    here = {"output_index": 0, "item_id": message["id"], "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**message, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **here, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **here, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "response.output_text.done", **here, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **here, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": response},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _events(events: list[dict[str, Any]]) -> bytes:
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events
    ).encode()
