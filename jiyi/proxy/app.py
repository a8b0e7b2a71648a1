"""The proxy's ASGI application: requests go to the upstream with what is remembered, answers come back byte
for byte.

A request never fails for want of memory: a service that is away or slow costs ``RECALL_SECONDS`` and a line
in the log.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import httpx2
from anyio import CancelScope
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from jiyi.errors import InvalidRequest, words_of
from jiyi.protocol.accounts import KeyId
from jiyi.protocol.base import composed
from jiyi.protocol.conversations import BUDGET
from jiyi.protocol.limits import TRUSTED_SECONDS
from jiyi.protocol.wire.signatures import parse_key
from jiyi.proxy import access, bodies
from jiyi.proxy.access import OF_CONNECTION, ProxyRefusal
from jiyi.proxy.dialects import (
    AnswerReader,
    Anthropic,
    ApiDialect,
    MemoryInjection,
    OpenAI,
    RequestMessage,
    Responses,
    Where,
    dialogue_of,
    with_memory,
)
from jiyi.proxy.keys import CHECK_SECONDS, Busy, KeyChecker, WrongKey
from jiyi.proxy.memory import RECALL_SECONDS, Conversation, KeyMemory, Memories
from jiyi.settings import Settings

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Seconds until the upstream must take a connection, and between two bytes of an answer.
CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 600.0
#: Seconds that a connection to an upstream is kept for another request: many servers close theirs after 5,
#: and a request that is on its way just then is lost.
IDLE_SECONDS = 3.0
#: Bytes of a body that are sent to the upstream at once.
PIECE_BYTES = 256 * 1024
#: Requests to upstreams at a time.
MOST_REQUESTS = 1_000
#: Names of agents, users and sessions in headers.
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
#: Bytes of a refusal that are looked at.
REFUSAL_BYTES = 65_536
#: With which status, and in which words, upstreams refuse a request that is longer than the model's context.
TOO_LONG_STATUSES = frozenset({400, 413, 422})
TOO_LONG = re.compile(
    r"context.{0,3}(length|size|window|limit)|(prompt|input|request) is too long|too many (input"
    r" )?tokens|input length"
    r"|longer than the maximum|maximum number of tokens|token limit|上下文长度|[超过]长",
    re.IGNORECASE,
)
#: Where requests are remembered.
REMEMBERED = frozenset({"chat/completions", "messages", "responses"})
#: Status of an answer that nobody waits for (nginx has it).
LEFT = 499
#: Seconds after which to ask again whether a key is good.
RETRY_SECONDS = "10"
#: What ``X-Jiyi-Memory`` may say: whether memories are put in, and whether what is said is recorded.
MODES = {"on": (True, True), "read": (True, False), "write": (False, True), "off": (False, False)}
#: The headers that say whose a request is, best first; Open WebUI sends its own
#: (``ENABLE_FORWARD_USER_INFO_HEADERS``).
USER_HEADERS, SESSION_HEADERS = (
    ("x-jiyi-user", "x-openwebui-user-id"),
    ("x-jiyi-session", "x-openwebui-chat-id"),
)


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where an API is: its address with ``/v1``, and the deployment's key for callers without one."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]")]
    key: str = field(default="", repr=False)


def upstreams_of(text: str) -> dict[str, dict[str, Upstream]]:
    """The upstreams of keys, from a file: key id → ``openai``, ``anthropic`` → ``url`` and ``key``.

    Raises:
        InvalidRequest: what is wrong with it; it shows no key.
    """
    try:
        return _UPSTREAMS.validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        places = [".".join(map(str, problem["loc"])) for problem in problems]
        wrong = [f"{at}: {one['msg']}".removeprefix(": ") for at, one in zip(places, problems, strict=True)]
        raise InvalidRequest(wrong) from None


_UPSTREAMS = TypeAdapter(
    dict[KeyId, dict[Annotated[str, StringConstraints(pattern="^(openai|anthropic)$")], Upstream]]
)


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """What the proxy is started with.

    Attributes:
        service: the memory service's address.
        key: with which requests without a key of Jiyi's are remembered; empty: these are refused.
        agent: the agent, unless ``X-Jiyi-Agent`` says so.
        max_tokens: most tokens that memories may take in a request.
        upstreams: id of a key of Jiyi's → name of a dialect → the upstream for callers with that key.
        recall_seconds: longest that recall may take.
        trust_seconds: how long a key that the service knew is lent the upstream's, while the service cannot
        be asked.
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
    trust_seconds: float = TRUSTED_SECONDS
    broker: Settings | None = None
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1")
    where: Where = "system"


@dataclass(frozen=True, slots=True)
class _Caller:
    """The caller: with which key of Jiyi's, and with which headers for the upstream."""

    #: None while the service is away and has not said whether it knows the key.
    memory: KeyMemory | None
    upstream: Upstream
    headers: httpx2.Headers
    #: Whether the deployment's key, or its access without one, is lent.
    lent: bool


@dataclass(slots=True)
class _UpstreamRequest:
    """A request for the upstream."""

    content: bytes
    #: Without memories, where there are some in it.
    plain: bytes | None = None
    messages: Sequence[RequestMessage] = ()
    conversation: Conversation | None = None
    injection: MemoryInjection = field(default_factory=MemoryInjection)
    #: Whether it is recorded.
    records: bool = False


class Proxy:
    """Passes requests on."""

    def __init__(self, config: ProxyConfig, http: httpx2.AsyncClient | None = None) -> None:
        self._config = config
        timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        connections = httpx2.Limits(
            max_connections=MOST_REQUESTS, max_keepalive_connections=100, keepalive_expiry=IDLE_SECONDS
        )
        self._http = http or httpx2.AsyncClient(timeout=timeout, limits=connections, follow_redirects=False)
        self._keys, self._room = KeyChecker(config.service, config.trust_seconds), bodies.BodyBudget()
        self._memories = Memories(
            config.service, max_tokens=config.max_tokens, seconds=config.recall_seconds, broker=config.broker
        )

    async def handle(self, request: Request) -> Response:
        """One request of a program."""
        path = request.path_params["path"]
        dialect = _dialect(request, path)
        try:
            return await self._answer(request, access.checked_path(path), dialect)
        except ProxyRefusal as refusal:
            return JSONResponse(dialect.error(str(refusal), refusal.kind), refusal.status, refusal.headers)

    async def _answer(self, request: Request, path: str, dialect: ApiDialect) -> Response:
        access.refuse_other_sites(request)
        access.is_asking(request, path)
        _mode(request)
        caller = await self._caller(request, path, dialect)
        with self._room.held() as take:
            outbound = _UpstreamRequest(await bodies.read(request, take))
            response, pieces = await _while_there(
                request, self._ask_upstream(request, path, dialect, caller, outbound)
            )
        outbound.content, outbound.plain = b"", None  # the upstream has it
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in OF_CONNECTION - {"content-length"}
        ]
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        memory = caller.memory if response.is_success and outbound.records else None
        reader = AnswerReader(dialect, streamed)

        async def passing() -> AsyncIterator[bytes]:
            try:
                async for chunk in pieces:
                    if memory is not None:
                        reader.feed(chunk)
                    yield chunk
            except httpx2.HTTPError as error:
                log.warning("the upstream's answer broke off: %s", words_of(error))
                raise
            finally:
                # Also of an answer that broke off.
                if memory is not None and outbound.conversation is not None:
                    text = reader.text()
                    answer = "" if outbound.injection.is_echoed_by(text) else text
                    memory.record(outbound.conversation, outbound.messages, answer, reader.id)
                with CancelScope(shield=True):
                    await response.aclose()

        passed = StreamingResponse(passing(), response.status_code)
        passed.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return passed

    async def _caller(self, request: Request, path: str, dialect: ApiDialect) -> _Caller:
        """Raises :class:`ProxyRefusal` without a good key of Jiyi's, or if the deployment's is not lent."""
        ours, theirs = access.keys_sent(request.headers)
        own = request.headers.get("x-jiyi-key", "").strip()
        key = own or ours or self._config.key
        parsed = parse_key(key)
        if parsed is None:
            malformed = "X-Jiyi-Key is not in the form of a key (jiyi_…)"
            wrong = malformed if own else "this proxy has no key of its own"
            send = "send a key of Jiyi's in X-Jiyi-Key, or as the API key"
            raise ProxyRefusal(401, "authentication_error", f"{wrong}: {send}")
        lent, address = not theirs, request.client.host if request.client else ""
        memory = None
        seconds = CHECK_SECONDS if lent else self._config.recall_seconds
        try:
            known_key = await self._keys.check(key, address, seconds)
        except WrongKey as error:
            self._memories.drop(key)
            raise ProxyRefusal(401, "authentication_error", str(error)) from None
        except Busy as error:
            if lent:
                raise ProxyRefusal(429, "rate_limit_error", str(error), Retry_After=RETRY_SECONDS) from None
            known_key = None
        else:
            if lent:
                access.refuse_unless_lent(request, path)
            memory = self._memories.of(key, known_key)
        usual = self._config.anthropic if dialect.name == "anthropic" else self._config.openai
        upstream = self._config.upstreams.get(parsed.key_id, {}).get(dialect.name, usual)
        headers = access.passed_headers(request.headers, theirs)
        if lent and upstream.key:  # which is for those alone whom the service knows
            if known_key is None:
                away = "the memory service cannot be asked whether this key is good"
                raise ProxyRefusal(503, "memory_unavailable", away)
            if dialect.name == "anthropic":
                headers["x-api-key"] = upstream.key
            else:
                headers["authorization"] = f"Bearer {upstream.key}"
        return _Caller(memory, upstream, headers, lent)

    async def _ask_upstream(
        self, request: Request, path: str, dialect: ApiDialect, caller: _Caller, outbound: _UpstreamRequest
    ) -> tuple[httpx2.Response, AsyncIterator[bytes]]:
        """The upstream's answer. What it takes to ask is in ``outbound``."""
        if access.is_asking(request, path) and (caller.lent or path in REMEMBERED):
            await self._prepare(request, path, dialect, caller, outbound)
        elif caller.lent:
            outbound.content = b""
        query = access.passed_query(request, lent=caller.lent)
        url = f"{caller.upstream.url.rstrip('/')}/{path}{'?' if query else ''}{query}"
        response = await self._send(request.method, url, caller.headers, outbound.content)
        pieces: AsyncIterator[bytes] = response.aiter_raw()
        if outbound.plain is not None and response.status_code in TOO_LONG_STATUSES:
            refusal = await _begin(pieces)
            if TOO_LONG.search(refusal.decode(errors="replace")):
                log.warning(
                    "with memories the request is longer than the model's context: it is sent once more"
                    " without"
                )
                await response.aclose()
                response = await self._send(request.method, url, caller.headers, outbound.plain)
                return response, response.aiter_raw()
            pieces = _resumed(refusal, pieces)
        return response, pieces

    async def _prepare(
        self, request: Request, path: str, dialect: ApiDialect, caller: _Caller, outbound: _UpstreamRequest
    ) -> None:
        """Check what is lent the deployment's key, and put memories in. Nothing parsed outlives it."""
        size, (reads, writes) = len(outbound.content), _mode(request)
        remembers = path in REMEMBERED and caller.memory is not None and (reads or writes)

        def look() -> tuple[list[RequestMessage], Conversation] | None:
            """What was said, and whose it is; None where nothing is remembered."""
            body = bodies.parsed(outbound.content)
            if body is None and caller.lent:
                raise access.invalid("the request must be a JSON object in UTF-8")
            if body is None:
                return None  # what is wrong with it is for the upstream to say
            if caller.lent:
                access.refuse_stored(outbound.content, body)
            if not remembers:
                return None
            return [one._replace(content=None) for one in dialogue_of(dialect, body)], self.conversation_of(
                request, dialect, body
            )

        dialogue = await bodies.elsewhere(size, look)
        if dialogue is None or caller.memory is None:
            return
        outbound.messages, outbound.conversation = dialogue
        outbound.records = bool(writes and outbound.messages)
        if reads and outbound.messages:
            outbound.injection = await caller.memory.recall(outbound.conversation, outbound.messages)
        if outbound.injection:
            arguments = (dialect, outbound.content, outbound.injection, self._config.where)
            outbound.plain, outbound.content = (
                outbound.content,
                await bodies.elsewhere(size, with_memory, *arguments),
            )

    def conversation_of(self, request: Request, dialect: ApiDialect, body: Mapping[str, Any]) -> Conversation:
        """Whose it is: headers, then what the API itself has for it."""
        in_body = body.get("user")  # Anthropic's ``metadata.user_id`` may be another one in each session
        in_body = in_body if isinstance(in_body, str) and NAME.fullmatch(in_body) else None
        user = _named(request, USER_HEADERS) or in_body
        agent, session = _named(request, ("x-jiyi-agent",)), _named(request, SESSION_HEADERS)
        whose = (agent or self._config.agent, user and composed(user), session)
        return Conversation(*whose, *dialect.kept(body))

    async def _send(self, method: str, url: str, headers: httpx2.Headers, content: bytes) -> httpx2.Response:
        sized, body = httpx2.Headers(headers), None
        if content:
            sized["content-length"], body = str(len(content)), _pieces(content)
        try:
            outgoing = self._http.build_request(method, url, headers=sized, content=body)
            return await self._http.send(outgoing, stream=True)
        except httpx2.InvalidURL as error:
            raise access.invalid(f"the address cannot be sent on: {words_of(error)}") from None
        except httpx2.TimeoutException:
            raise ProxyRefusal(
                504, "upstream_timeout", f"no answer from {outgoing.url.host} in time"
            ) from None
        except httpx2.HTTPError as error:
            unreachable = f"cannot reach {outgoing.url.host}: {words_of(error)}"
            raise ProxyRefusal(502, "upstream_unavailable", unreachable) from None

    async def close(self) -> None:
        """Publish what waits, and release the connections."""
        await self._memories.close()
        await self._keys.close()
        await self._http.aclose()


async def _while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What it comes to, unless the caller leaves before: then it is cancelled, and the upstream's work ends.

    Raises:
        ProxyRefusal: the caller has left.
    """
    working = asyncio.ensure_future(work)
    # The body has been read: there is nothing else to come.
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ProxyRefusal(LEFT, "client_closed_request", "the caller has left")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})
        if not working.cancelled():
            working.exception()  # it is known, or nobody wants to know


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    """A body piece by piece, so that other requests have their turn while a large one is sent."""
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


async def _begin(pieces: AsyncIterator[bytes]) -> bytes:
    """As much of a refusal as is looked at."""
    begin = b""
    with suppress(httpx2.HTTPError):  # it is noticed again by who passes on the rest
        async for piece in pieces:
            begin += piece
            if len(begin) >= REFUSAL_BYTES:
                break
    return begin


async def _resumed(begin: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for piece in rest:
        yield piece


def _dialect(request: Request, path: str) -> ApiDialect:
    if path == "responses":
        return Responses()
    return Anthropic() if path.startswith("messages") or "anthropic-version" in request.headers else OpenAI()


def _mode(request: Request) -> tuple[bool, bool]:
    """Whether memories are put in, and whether what is said is recorded."""
    mode = request.headers.get("x-jiyi-memory", "on").strip().lower()
    if mode not in MODES:
        raise access.invalid(f"X-Jiyi-Memory: {mode[:50]!r} is none of {', '.join(MODES)}")
    return MODES[mode]


def _named(request: Request, headers: tuple[str, ...]) -> str | None:
    """What the first of these headers says that is there."""
    for name in headers:
        if value := request.headers.get(name, "").strip():
            # As browsers and Python programs send other letters.
            text = value.encode("latin-1").decode("utf-8", errors="replace")
            if NAME.fullmatch(text) is None:
                raise access.invalid(f"{name}: at most 200 characters, none of them a control character")
            return text
    return None


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
