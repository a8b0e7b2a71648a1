"""The proxy's ASGI application: requests go to the upstream with what is remembered, answers come back byte for byte.

A request never fails for want of memory: a service that is away or slow costs ``RECALL_SECONDS`` and a line in the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx2
from anyio import CancelScope
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from jiyi.errors import InvalidRequest
from jiyi.protocol.accounts import KeyId
from jiyi.protocol.base import JsonObject
from jiyi.protocol.conversations import BUDGET
from jiyi.protocol.wire.signatures import parse_key
from jiyi.proxy.dialects import AnswerReader, Anthropic, Dialect, OpenAI, Remembered, Responses, Where, said, with_memory
from jiyi.proxy.memory import RECALL_SECONDS, Conversation, KeyMemory, Memories, WrongKey
from jiyi.settings import Settings

log = logging.getLogger(__name__)

#: Bytes of a request: images are in it.
MAX_BODY_BYTES = 32 * 1024 * 1024
#: Seconds until the upstream must take a connection, and between two bytes of an answer.
CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 600.0
#: Requests to upstreams at a time.
MOST_REQUESTS = 1_000
#: Names of agents, users and sessions in headers.
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
#: Headers that belong to one connection (RFC 9110), and those that the HTTP client makes anew.
OF_CONNECTION = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade host content-length "
    "accept-encoding".split()
)
#: Headers with a key, and those that are for the proxy and no concern of the upstream.
KEY_HEADERS, OWN_HEADERS = ("authorization", "x-api-key"), ("x-jiyi-", "x-openwebui-")
#: What the deployment's key is lent for: to ask models, and not for an account's files, jobs and bills.
LENT_FOR = frozenset(
    {"chat/completions", "completions", "responses", "embeddings", "models", "messages", "messages/count_tokens", "rerank"}
)
#: What ``X-Jiyi-Memory`` may say: whether memories are put in, and whether what is said is recorded.
MODES = {"on": (True, True), "read": (True, False), "write": (False, True), "off": (False, False)}
#: The headers that say whose a request is, best first; Open WebUI sends its own (``ENABLE_FORWARD_USER_INFO_HEADERS``).
USER_HEADERS, SESSION_HEADERS = ("x-jiyi-user", "x-openwebui-user-id"), ("x-jiyi-session", "x-openwebui-chat-id")


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where an API is: its address with ``/v1``, and the deployment's key for callers who bring none."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]")]
    key: str = field(default="", repr=False)


def upstreams_of(text: str) -> dict[str, dict[str, Upstream]]:
    """The upstreams of keys, from a file: key id → ``openai``, ``anthropic`` → ``url`` and ``key``.

    Raises:
        InvalidRequest: what is wrong with it; no key is told.
    """
    try:
        return _UPSTREAMS.validate_json(text)
    except ValidationError as error:
        wrong = [(".".join(map(str, problem["loc"])), problem["msg"]) for problem in error.errors(include_input=False, include_url=False)]
        raise InvalidRequest([f"{place}: {message}" if place else message for place, message in wrong]) from None


_UPSTREAMS = TypeAdapter(dict[KeyId, dict[Annotated[str, StringConstraints(pattern="^(openai|anthropic)$")], Upstream]])


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """What the proxy is started with.

    Attributes:
        service: the memory service's address.
        key: with which requests are remembered that bring no key of Jiyi's; empty: these are refused.
        agent: whose memory it is, unless ``X-Jiyi-Agent`` says so.
        max_tokens: most tokens that memories may take in a request.
        upstreams: id of a key of Jiyi's → name of a dialect → the upstream for whoever sends that key.
        recall_seconds: longest that recall may take.
        broker: where broker and Valkey are, if memories are asked for there.
        hosts: values of the header ``Host`` that are answered.
        where: what stays the same through a conversation is put.
    """

    service: str
    openai: Upstream
    anthropic: Upstream
    key: str = field(default="", repr=False)
    agent: str = "assistant"
    max_tokens: int = BUDGET
    upstreams: Mapping[str, Mapping[str, Upstream]] = field(default_factory=dict)
    recall_seconds: float = RECALL_SECONDS
    broker: Settings | None = None
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1")
    where: Where = "system"


class Refusal(Exception):  # noqa: N818 – its name says what it is
    """The proxy's own answer instead of the upstream's."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


@dataclass(frozen=True, slots=True)
class _Caller:
    """Who asks: with which key of Jiyi's, and with which headers for the upstream."""

    memory: KeyMemory
    upstream: Upstream
    headers: httpx2.Headers


class Proxy:
    """Passes requests on."""

    def __init__(self, config: ProxyConfig, http: httpx2.AsyncClient | None = None) -> None:
        self._config = config
        timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        connections = httpx2.Limits(max_connections=MOST_REQUESTS, max_keepalive_connections=100)
        self._http = http or httpx2.AsyncClient(timeout=timeout, limits=connections, follow_redirects=False)
        self._memories = Memories(
            self._http, config.service, max_tokens=config.max_tokens, seconds=config.recall_seconds, broker=config.broker
        )

    async def handle(self, request: Request) -> Response:
        """One request of a program."""
        path = request.path_params["path"]
        dialect = _dialect(request, path)
        try:
            return await self._answer(request, path, dialect)
        except Refusal as refusal:
            return JSONResponse(dialect.error(str(refusal), refusal.kind), refusal.status)

    async def _answer(self, request: Request, path: str, dialect: Dialect) -> Response:
        if {".", ".."} & set(path.split("/")):
            raise Refusal(400, "invalid_request_error", "the path must not leave /v1")
        caller = await self._caller(request, path, dialect)
        content = await _read(request)
        reads, writes = _mode(request)
        remembers = request.method == "POST" and path in ("chat/completions", "messages", "responses") and (reads or writes)
        body = _parsed(content) if remembers else None
        told, conversation = ([], None) if body is None else (said(dialect, body), self._conversation(request, dialect, body))
        remembered = Remembered()
        if conversation is not None and told and reads:
            remembered = await caller.memory.recall(conversation, told)
            content = with_memory(dialect, content, remembered, self._config.where) if remembered else content
        response = await self._send(request, f"{caller.upstream.url.rstrip('/')}/{path}", caller.headers, content)
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name.lower() not in OF_CONNECTION - {"content-length"}
        ]
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        reader = AnswerReader(dialect, streamed) if response.is_success and writes and conversation is not None and told else None

        async def passing() -> AsyncIterator[bytes]:
            try:
                async for chunk in response.aiter_raw():
                    if reader is not None:
                        reader.feed(chunk)
                    yield chunk
            except httpx2.HTTPError as error:
                log.warning("the upstream's answer broke off: %s", error)
                raise
            finally:
                if reader is not None and conversation is not None:  # also of an answer that broke off, or that nobody waited for
                    text = reader.text()
                    caller.memory.record(conversation, told, "" if remembered.is_echoed_by(text) else text, reader.id)
                with CancelScope(shield=True):
                    await response.aclose()

        answer = StreamingResponse(passing(), response.status_code)
        answer.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return answer

    async def _caller(self, request: Request, path: str, dialect: Dialect) -> _Caller:
        """Raises :class:`Refusal` for who has no good key of Jiyi's, where that is needed."""
        sent = {name: request.headers[name].removeprefix("Bearer ").strip() for name in KEY_HEADERS if name in request.headers}
        own = request.headers.get("x-jiyi-key", "").strip()
        as_upstream = next((key for key in sent.values() if parse_key(key) is not None), "")
        key = own or as_upstream or self._config.key
        parsed = parse_key(key)
        if parsed is None:
            wrong = "X-Jiyi-Key is not in the form of a key (jiyi_…)" if own else "this proxy has no key of its own"
            raise Refusal(401, "authentication_error", f"{wrong}: send a key of Jiyi's in X-Jiyi-Key, or as the API key")
        memory = self._memories.of(key)
        usual = self._config.anthropic if dialect.name == "anthropic" else self._config.openai
        upstream = self._config.upstreams.get(parsed.key_id, {}).get(dialect.name, usual)
        headers = httpx2.Headers(
            [
                (name, value)
                for name, value in request.headers.items()
                if name not in OF_CONNECTION and name not in KEY_HEADERS and not name.startswith(OWN_HEADERS)
            ]
        )
        headers["accept-encoding"] = "identity"  # what passes is read, too
        try:
            known = await memory.check(self._config.recall_seconds)
        except WrongKey as error:
            raise Refusal(401, "authentication_error", str(error)) from None
        theirs = {name: request.headers[name] for name in sent if not (as_upstream and parse_key(sent[name]) is not None)}
        if theirs:
            headers.update(theirs)
        elif upstream.key:  # which is for those alone whom the service knows
            if not known:
                raise Refusal(503, "memory_unavailable", "the memory service cannot be asked whether this key is good")
            if path not in LENT_FOR and not path.startswith("models/"):
                raise Refusal(403, "permission_error", f"/v1/{path[:100]} needs a key of your own for the upstream")
            headers.update({"x-api-key": upstream.key} if dialect.name == "anthropic" else {"authorization": f"Bearer {upstream.key}"})
        return _Caller(memory, upstream, headers)

    def _conversation(self, request: Request, dialect: Dialect, body: Mapping[str, Any]) -> Conversation:
        """Whose it is: headers, then what the API itself has for it."""
        in_body = body.get("user")  # Anthropic's ``metadata.user_id`` may be another one in each session
        user = _named(request, USER_HEADERS) or (in_body if isinstance(in_body, str) and NAME.fullmatch(in_body) else None)
        agent = _named(request, ("x-jiyi-agent",)) or self._config.agent
        return Conversation(agent, user, _named(request, SESSION_HEADERS), *dialect.kept(body))

    async def _send(self, request: Request, url: str, headers: httpx2.Headers, content: bytes) -> httpx2.Response:
        query = request.url.query
        outgoing = self._http.build_request(request.method, f"{url}?{query}" if query else url, headers=headers, content=content or None)
        try:
            return await self._http.send(outgoing, stream=True)
        except httpx2.TimeoutException:
            raise Refusal(504, "upstream_timeout", f"no answer from {outgoing.url.host} in time") from None
        except httpx2.HTTPError as error:
            raise Refusal(502, "upstream_unavailable", f"cannot reach {outgoing.url.host}: {error}") from None

    async def close(self) -> None:
        """Publish what waits, and release the connections."""
        await self._memories.close()
        await self._http.aclose()


def _dialect(request: Request, path: str) -> Dialect:
    if path == "responses":
        return Responses()
    return Anthropic() if path.startswith("messages") or "anthropic-version" in request.headers else OpenAI()


def _mode(request: Request) -> tuple[bool, bool]:
    """Whether memories are put in, and whether what is said is recorded."""
    mode = request.headers.get("x-jiyi-memory", "on").strip().lower()
    if mode not in MODES:
        raise Refusal(400, "invalid_request_error", f"X-Jiyi-Memory: {mode[:50]!r} is none of {', '.join(MODES)}")
    return MODES[mode]


def _named(request: Request, headers: tuple[str, ...]) -> str | None:
    """What the first of these headers says that is there."""
    for name in headers:
        if value := request.headers.get(name, "").strip():
            text = value.encode("latin-1").decode("utf-8", errors="replace")  # as browsers and Python programs send other letters
            if NAME.fullmatch(text) is None:
                raise Refusal(400, "invalid_request_error", f"{name}: at most 200 characters, none of them a control character")
            return text
    return None


async def _read(request: Request) -> bytes:
    """The body. Raises :class:`Refusal` if it is too large, or breaks off."""
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise Refusal(413, "request_too_large", f"the request has more than {MAX_BODY_BYTES:,} bytes")
            parts.append(part)
    except ClientDisconnect:
        raise Refusal(400, "invalid_request_error", "the request broke off") from None
    return b"".join(parts)


def _parsed(content: bytes) -> JsonObject | None:
    """The request; None if it is no JSON object: what is wrong with it is for the upstream to say."""
    try:
        body = from_json(content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def make_app(config: ProxyConfig) -> Starlette:
    """The application. Any number of processes may serve it."""
    proxy = Proxy(config)

    async def healthz(_request: Request) -> Response:
        return Response("ok", media_type="text/plain")

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await proxy.close()

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    routes = [Route("/healthz", healthz), Route("/v1/{path:path}", proxy.handle, methods=methods)]
    hosts = [Middleware(TrustedHostMiddleware, allowed_hosts=list(config.hosts))]
    return Starlette(routes=routes, lifespan=lifespan, middleware=hosts)
