"""An LLM's API as the proxy's upstream: answers in the form of OpenAI and of Anthropic, whole and streamed, and keeps what it got."""

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


@dataclass
class Upstream:
    """What it got, and what it does next."""

    requests: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    #: What it says to each message; ``{"status": …}`` for a refusal, ``{"break": n}`` for a stream that breaks off after n bytes.
    answer: str = "记住了 Noted."
    status: int = 200
    break_after: int | None = None
    #: Set while streams are to wait in their middle.
    hold: asyncio.Event | None = None

    @property
    def last(self) -> Any:
        return self.requests[-1][1]

    def app(self) -> Starlette:
        routes = [
            Route("/v1/chat/completions", self._openai, methods=["POST"]),
            Route("/v1/messages", self._anthropic, methods=["POST"]),
            Route("/v1/models", self._models),
        ]
        return Starlette(routes=routes)

    def stream(self, kind: str) -> bytes:
        """The bytes of a streamed answer."""
        pieces = [self.answer[at : at + 3] for at in range(0, len(self.answer), 3)]
        if kind == "openai":
            chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            events = [{**chunk, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
            last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in [*events, last]] + ["data: [DONE]\n\n"]
            return "".join(lines).encode()
        message = _message("")
        message["content"] = []
        told: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in told).encode()

    async def _openai(self, request: Request) -> Response:
        return await self._reply(request, "openai")

    async def _anthropic(self, request: Request) -> Response:
        return await self._reply(request, "anthropic")

    async def _models(self, request: Request) -> Response:
        self.requests.append((dict(request.headers), None))
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}]})

    async def _reply(self, request: Request, kind: str) -> Response:
        body = await request.json()
        self.requests.append((dict(request.headers), body))
        if self.status != 200:
            return JSONResponse({"error": {"message": "slow down", "type": "rate_limit"}}, self.status, {"retry-after": "7", "x-own": "1"})
        if body.get("stream"):
            return StreamingResponse(self._stream(self.stream(kind)), media_type="text/event-stream")
        if kind == "anthropic":
            return JSONResponse(_message(self.answer))
        choice = {"index": 0, "message": {"role": "assistant", "content": self.answer}, "finish_reason": "stop"}
        return JSONResponse({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

    async def _stream(self, content: bytes) -> AsyncIterator[bytes]:
        for at in range(0, len(content), CUT):
            if self.break_after is not None and at >= self.break_after:
                raise RuntimeError("broken off, as it was told to")
            yield content[at : at + CUT]
            if self.hold is not None and at > len(content) / 2:
                await self.hold.wait()
            await asyncio.sleep(0)


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": "end_turn",
            "stop_sequence": None, "usage": usage}  # fmt: skip
