"""What a proxy lends its key for, whom it serves, and what it holds: a service and an upstream of the test's
own beside it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

pytest.importorskip("starlette", reason="needs the extra `proxy`")

import uvicorn
from anthropic import Anthropic
from openai import OpenAI, PermissionDeniedError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from jiyi.cli import listening
from jiyi.client.http import GROUP_HEADER
from jiyi.polling import poll
from jiyi.protocol import limits
from jiyi.protocol.wire.signatures import new_key
from jiyi.proxy import bodies, keys
from jiyi.proxy.access import ProxyRefusal
from jiyi.proxy.app import ProxyConfig, make_app
from jiyi.proxy.app import Upstream as UpstreamConfig
from jiyi.proxy.keys import MOST_WRONG, KnownKey
from jiyi.proxy.memory import Memories

#: What the deployment pays with, and what a caller does.
OURS, THEIRS = "sk-of-the-deployment", "sk-of-the-caller"
#: Seconds that a busy machine may take.
PATIENCE = 60.0
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


#: What the official clients read of an answer.
ANSWERS: dict[str, Any] = {
    "/v1/chat/completions": {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    },
    "/v1/embeddings": {
        "object": "list", "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1},
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    },
    "/v1/responses": {
        "id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": [], "tool_choice": "auto",
        "parallel_tool_calls": True,
        "output": [{"id": "o", "type": "message", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "ok", "annotations": []}]}],
    },
    "/v1/messages": {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None,
        "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}], "has_more": False},
    "/v1/models/m": {"id": "m", "object": "model", "created": 1, "owned_by": "us"},
}  # fmt: skip


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """The address of an application that is served by a thread of this process."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, http=listening.Impatient, log_level="error", lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE)
    assert not thread.is_alive()


@dataclass
class Service:
    """The memory service, as far as a proxy asks it: which keys it knows, and what it answers if that is
    something else.
    """

    known: set[str] = field(default_factory=set)
    status: int = 200
    #: Before it says whether it knows a key.
    seconds: float = 0.0
    asked: list[str] = field(default_factory=list)
    injected: dict[str, Any] = field(default_factory=dict)

    def app(self) -> Starlette:
        tools = Route("/api/v1/tools", self._tools)
        return Starlette(routes=[tools, Route("/api/v1/{path:path}", self._action, methods=["POST"])])

    async def _tools(self, request: Request) -> Response:
        key = request.headers["authorization"].removeprefix("Bearer ")
        self.asked.append(key)
        await asyncio.sleep(self.seconds)
        status = self.status if self.status != 200 or key in self.known else 401
        return JSONResponse([], status, {GROUP_HEADER: "g"} if status == 200 else {})

    async def _action(self, request: Request) -> Response:
        await request.body()
        if request.path_params["path"].endswith("context"):
            nothing = {"context": "", "tokens": 1, "intent": "general", "memories": []}
            return JSONResponse(nothing | self.injected)
        return JSONResponse({}, 202)


@dataclass
class Upstream:
    """An LLM's API: method, path with query, headers and body of each request."""

    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    #: Answers in turn: a status and a text. Then: 200.
    answers: list[tuple[int, str]] = field(default_factory=list)
    #: Whether it waits until its caller leaves; and how many have left.
    waits: bool = False
    left: int = 0

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.requests]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [headers for _, _, headers, _ in self.requests]

    @property
    def body(self) -> Any:
        """Of the last request, read."""
        return json.loads(self.requests[-1][3])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await Starlette()(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        query = scope["query_string"].decode()
        path = scope["raw_path"].decode() + (f"?{query}" if query else "")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((scope["method"], path, headers, body))
        if self.waits:
            assert (await receive())["type"] == "http.disconnect"
            self.left += 1
            return None
        status, text = (
            self.answers.pop(0) if self.answers else (200, json.dumps(ANSWERS.get(scope["path"], {})))
        )
        return await Response(text, status, media_type="application/json")(scope, receive, send)


@dataclass
class Proxied:
    """A proxy with its surroundings, and requests to it."""

    address: str
    service: Service
    upstream: Upstream
    key: str

    def ask(self, method: str, path: str, *, body: Any = None, **headers: str) -> httpx2.Response:
        """With the key as API key, unless another one is given. ``path`` goes out as it is."""
        sent = {"authorization": f"Bearer {self.key}", "x-jiyi-memory": "off"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None:
            sent.setdefault("content-type", "application/json")
        # httpx2 would tidy the path up.
        with closing(HTTPConnection(self.address.removeprefix("http://"), timeout=PATIENCE)) as connection:
            given = {name: value for name, value in sent.items() if value}
            connection.request(method, path, content or None, given)
            response = connection.getresponse()
            return httpx2.Response(response.status, content=response.read())

    def chat(self, body: Any = CHAT, **headers: str) -> httpx2.Response:
        return self.ask("POST", "/v1/chat/completions", body=body, **headers)

    def post(self, path: str, body: Any = CHAT, **headers: str) -> httpx2.Response:
        return self.ask("POST", f"/v1/{path}", body=body, **headers)

    @property
    def own(self) -> dict[str, str]:
        """Headers of a caller who pays: the LLM's key is theirs."""
        return {"authorization": f"Bearer {THEIRS}", "x_jiyi_key": self.key}

    def connect(self) -> socket.socket:
        host, port = self.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), PATIENCE)


Started = Callable[..., Proxied]


@pytest.fixture(scope="module")
def started() -> Iterator[Started]:
    with ExitStack() as stack:

        def start(*, own_key: bool = False, **options: Any) -> Proxied:
            service, upstream, key = Service(), Upstream(), str(new_key())
            service.known.add(key)
            above = UpstreamConfig(f"{stack.enter_context(serving(upstream))}/v1", OURS)
            config = {
                "service": stack.enter_context(serving(service.app())),
                "openai": above,
                "anthropic": above,
                "key": key if own_key else "",
                "recall_seconds": PATIENCE,
                **options,
            }
            return Proxied(
                stack.enter_context(serving(make_app(ProxyConfig(**config)))), service, upstream, key
            )

        yield start


@pytest.fixture(scope="module")
def usual(started: Started) -> Proxied:
    return started()


@pytest.fixture
def proxy(usual: Proxied) -> Proxied:
    """The usual one, with a service and an upstream as they were, and a key that was never used."""
    usual.service.__init__()  # type: ignore[misc]
    usual.upstream.__init__()  # type: ignore[misc]
    usual.key = str(new_key())
    usual.service.known.add(usual.key)
    return usual


def test_the_deployments_key_asks_models_and_does_nothing_else(proxy: Proxied) -> None:
    """F093: stored responses, completions and fine-tuned models of others were read and deleted with it."""
    asking = ("chat/completions", "messages", "responses", "embeddings")
    for path in asking:
        assert proxy.post(path).status_code == 200
    for path in ("models", "models/gpt-4o", "models/ft:gpt-4o:acme::abc"):
        assert proxy.ask("GET", f"/v1/{path}").status_code == 200
    assert len(proxy.upstream.requests) == 7
    keys_sent = {
        headers.get("authorization") or headers.get("x-api-key") for headers in proxy.upstream.headers
    }
    assert keys_sent == {f"Bearer {OURS}", OURS}
    others = {
        **dict.fromkeys(("PUT", "PATCH", "DELETE"), (*asking, "models/x")),
        "GET": (
            *asking,
            *"files responses/resp_1 conversations/c batches chat/completions/c/messages".split(),
        ),
        "POST": "models/x files responses/ completions responses/compact messages/batches".split(),
    }
    for method, paths in others.items():
        for path in paths:
            refused = proxy.ask(method, f"/v1/{path}", body=CHAT if method != "GET" else None)
            assert refused.status_code == 403, (method, path)
    assert len(proxy.upstream.requests) == 7


PATHS = (
    "models/%252e%252e/files models/%2e%2e/files models/..%2ffiles models/..%252ffiles models/%5c..%5cfiles"
    " models/..;/files models/x%23/files models/x%3F/../files models/%00 models/%09/files models/%0d%0aX-A:1"
    " models//files /models models/%EF%BC%8E%EF%BC%8E/files models/%252e%252e/%252e%252e/admin models/.."
)


def test_a_path_that_may_mean_another_one_goes_nowhere(proxy: Proxied) -> None:
    """Encoded twice it left its fence; with a NUL in it the answer was a 500."""
    for path in PATHS.split():
        for sent in ({}, proxy.own):
            assert proxy.ask("GET", f"/v1/{path}", **sent).status_code in (400, 404), path
    assert not proxy.upstream.requests


def test_with_a_key_of_their_own_callers_do_whatever_they_like(proxy: Proxied) -> None:
    own = {**proxy.own, "openai_organization": "org-theirs"}
    body = b'{"model": "m",  "input": "hi", "previous_response_id": "resp_1"}'
    form = {"body": b"--x", "content_type": "multipart/form-data; boundary=x"}
    asked: dict[str, dict[str, Any]] = {
        "DELETE /v1/models/ft:gpt-4o:acme::abc": {},
        "GET /v1/responses/resp_1?include[]=x": {},
        "POST /v1/responses": {"body": body},
        "POST /v1/files": form,
    }
    for request, what in asked.items():
        assert proxy.ask(*request.split(), **own, **what).status_code == 200
    assert proxy.upstream.paths == [*asked]
    for headers in proxy.upstream.headers:
        sent = headers["authorization"], headers["openai-organization"]
        assert sent == (f"Bearer {THEIRS}", "org-theirs")
        assert "x-jiyi-key" not in headers
    assert proxy.upstream.requests[2][3] == body


def test_the_official_clients_ask_with_the_deployments_key(proxy: Proxied) -> None:
    base = f"{proxy.address}/v1"
    openai = OpenAI(api_key=proxy.key, base_url=base, organization="org-of-their-own", max_retries=0)
    schema: Any = {"properties": {"file_id": {"type": "string"}}}
    tool: Any = {"type": "function", "function": {"name": "find", "parameters": schema}}
    called = {"name": "find", "arguments": '{"file_id": "f"}'}
    find: Any = {"role": "user", "content": "Find it."}
    talk: Any = [
        find,
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": called}]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    ]
    answer = openai.chat.completions.create(model="m", messages=talk, tools=[tool])
    assert answer.choices[0].message.content == "ok"
    vectors = openai.embeddings.create(model="m", input=[[1, 2], [3]], encoding_format="float")
    assert vectors.data[0].embedding == [0.5, 0.25]
    include: Any = ["reasoning.encrypted_content"]
    assert openai.responses.create(model="m", input="hi", store=False, include=include).output_text == "ok"
    assert [model.id for model in openai.models.list()] == [openai.models.retrieve("m").id] == ["m"]

    anthropic = Anthropic(api_key=proxy.key, base_url=proxy.address, max_retries=0)
    used: Any = {"type": "tool_use", "id": "t1", "name": "find", "input": {"file_id": "f"}}
    result: Any = {"type": "tool_result", "tool_use_id": "t1", "content": "nothing"}
    talk = [find, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    more: Any = {"model": "m", "max_tokens": 9}
    tools: Any = [{"name": "find", "input_schema": {"type": "object", **schema}}]
    told = anthropic.messages.create(messages=talk, tools=tools, metadata={"user_id": "u"}, **more)
    assert told.content[0].type == "text"
    anthropic.beta.messages.create(messages=[find], betas=["interleaved-thinking-2025-05-14"], **more)
    assert [model.id for model in anthropic.models.list(limit=5)] == ["m"]

    asked = "chat/completions embeddings responses models models/m messages messages models?limit=5".split()
    assert proxy.upstream.paths == [
        f"{'GET' if path.startswith('models') else 'POST'} /v1/{path}" for path in asked
    ]
    for _, _, headers, body in proxy.upstream.requests:
        assert OURS in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))
        assert proxy.key not in json.dumps(headers) + body.decode()
        assert "openai-organization" not in headers
    with pytest.raises(PermissionDeniedError, match="POST /v1/files needs a key of your own"):
        openai.files.create(file=b"x", purpose="assistants")
    with pytest.raises(PermissionDeniedError, match="previous_response_id: names what the account"):
        openai.responses.create(model="m", input="hi", previous_response_id="resp_1")


def test_headers_and_queries_that_choose_who_is_billed_do_not_go_with_the_deployments_key(
    proxy: Proxied,
) -> None:
    chosen = {
        "openai_organization": "org-other",
        "openai_project": "proj_other",
        "api_key": "zzz",
        "cookie": "a=b",
        "x_forwarded_for": "1.2.3.4",
        "idempotency_key": "x",
        "anthropic_beta": "files-api-2025-04-14, interleaved-thinking-2025-05-14",
        "x_foo": "smuggled",
        "connection": "close, x-foo",
        "user_agent": "x/1",
        "anthropic_version": "2023-06-01",
    }
    assert proxy.post("messages?beta=true&organization=other", **chosen).status_code == 200
    assert proxy.upstream.paths == ["POST /v1/messages?beta=true"]
    [headers] = proxy.upstream.headers
    assert set(headers) == {
        *("host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length"),
        *("x-api-key", "anthropic-version", "anthropic-beta"),
    }
    assert headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"


FILE = {"type": "file", "file": {"file_id": "file-other"}}


#: Where something is asked, what names something that the account stores, and the place of that.
STORED: list[tuple[str, Any, str]] = [
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"conversation": "conv_1"}, "conversation"),
    ("responses", {"conversation": {"id": "conv_1"}}, "conversation"),
    ("responses", {"background": True}, "background"),
    ("responses", {"store": True}, "store"),
    ("responses", {"prompt": {"id": "pmpt_1", "variables": {"a": "b"}}}, "prompt"),
    ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0.id"),
    ("responses", {"input": [{"id": "msg_1"}]}, "input.0.id"),
    ("responses", {"input": [{"id": "rs_1", "type": "reasoning", "summary": [], "content": None}]}, "input.0.id"),
    ("responses", {"input": [{"content": [{"type": "input_file", "file_id": "f"}]}]}, "input.0.content.0.file_id"),
    ("responses", {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "tools.0.vector_store_ids"),
    ("responses", {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "tools.0.container"),
    ("chat/completions", {"messages": [{"role": "user", "content": [FILE]}]}, "messages.0.content.0.file.file_id"),
    ("chat/completions", {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, "messages.0.audio.id"),
    ("messages", {"container": "c_1"}, "container"),
    ("messages", {"messages": [{"content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]},
     "messages.0.content.0.source.file_id"),
]  # fmt: skip


def test_nothing_that_the_account_stores_is_named_with_the_deployments_key(proxy: Proxied) -> None:
    """F093: one group read another's stored responses and conversations by their ids."""
    for path, more, place in STORED:
        refused = proxy.post(path, {"model": "m", **more})
        assert refused.status_code == 403, more
        assert f"{place}: names what the account behind this proxy stores" in refused.text
    assert not proxy.upstream.requests


def test_ids_of_the_request_itself_and_of_schemas_are_no_references(proxy: Proxied) -> None:
    properties = {"file_id": {"type": "string"}, "store": {"type": "string"}}
    schema = {"type": "object", "properties": properties}
    call = {"type": "tool_use", "id": "t1", "name": "open", "input": {"file_id": "1", "store": "berlin"}}
    answered = {"type": "tool_result", "tool_use_id": "t1"}
    function = {"id": "c", "type": "function", "function": {"arguments": "{}"}}
    said = {"content": [{"type": "output_text", "text": "hi"}], "type": "message", "role": "assistant"}
    bodies_sent: list[dict[str, Any]] = [
        {"store": False, "background": None, "metadata": {"user_id": "u", "store": "x"}},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
        {"tools": [{"name": "f", "input_schema": schema}]},
        {"messages": [{"role": "assistant", "content": [call]}, {"content": [answered]}]},
        {"messages": [{"role": "assistant", "tool_calls": [function]}]},
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": "file_id store"}]},
        {"input": [{"id": "msg_1", **said}]},
        {"input": [{"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "xx"}]},
        {"input": [[1, 2, 3], [4, 5]]},
    ]
    for body in bodies_sent:
        assert proxy.post("messages", body).status_code == 200, body
        assert proxy.upstream.body == body


def test_a_body_that_can_be_read_in_two_ways_is_not_sent_with_the_deployments_key(proxy: Proxied) -> None:
    twice = b'{"previous_response_id": "resp_1", "previous_response_id": null}'
    for odd in (twice, twice.replace(b":", b" :"), b"no json", b"[]", b'{"a": "\xff"}'):
        assert proxy.post("responses", odd).status_code == 400
    assert not proxy.upstream.requests
    body = b'{"model": "m",  "input": "{\\"a\\": 1, \\"a\\": 2}", "temperature": 1.0}'
    assert proxy.post("responses", body).status_code == 200
    assert proxy.upstream.requests[-1][3] == body  # byte for byte


@pytest.mark.parametrize("scheme", ["bearer ", "Token ", "", "BEARER  "])
def test_no_key_of_jiyis_reaches_the_upstream(proxy: Proxied, scheme: str) -> None:
    other = str(new_key())
    proxy.service.known.add(other)
    named = f"{scheme}{other}"
    for sent in (
        {"authorization": named},
        {"authorization": named, "x_jiyi_key": proxy.key},
        {"authorization": f"{named}x", "x_jiyi_key": proxy.key, "x_api_key": THEIRS, "api_key": other},
    ):
        assert proxy.chat(**sent).status_code == 200
    reached = [headers.get("authorization") for headers in proxy.upstream.headers]
    assert reached == [f"Bearer {OURS}", f"Bearer {OURS}", None]
    assert other not in json.dumps(proxy.upstream.headers)


def test_pages_of_other_sites_are_refused(started: Started) -> None:
    """Any page could write into the memory of whoever runs a proxy with a key, and spend their money."""
    proxy = started(own_key=True)
    nobody = {"authorization": ""}
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": proxy.address},
    ):
        assert proxy.chat(**nobody, **headers).status_code == 403, headers
        assert proxy.ask("GET", "/v1/models", **nobody, **headers).status_code == 403
    forms = "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data", ""
    assert {proxy.chat(**nobody, content_type=one).status_code for one in forms} == {415}
    assert not proxy.upstream.requests
    for headers in (
        {},
        {"origin": proxy.address, "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none", "content_type": "application/json; charset=utf-8"},
    ):
        assert proxy.chat(**nobody, **headers).status_code == 200


def stranger() -> dict[str, str]:
    return {"authorization": f"Bearer {new_key()}"}


def test_nothing_is_made_for_an_unknown_key_and_who_tries_many_is_not_asked_about(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wrong key took 45 ms and 1.65 MB, which stayed."""
    proxy = started()
    assert proxy.chat().status_code == 200
    made = "jiyi.proxy.memory.KeyMemory.__init__"
    monkeypatch.setattr(made, lambda *_, **__: pytest.fail("a memory was made"))
    answers = [proxy.chat(**stranger()).status_code for _ in range(int(MOST_WRONG) + 3)]
    assert answers == [401] * int(MOST_WRONG) + [429] * 3
    assert len(proxy.service.asked) == 1 + MOST_WRONG
    assert proxy.chat().status_code == 200  # who is known is served on


@pytest.fixture
def forgets(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """For so many seconds it is known what the service said of a key."""
    return lambda seconds: monkeypatch.setattr(keys, "KNOWN_SECONDS", seconds)


@pytest.mark.parametrize(("status", "answer"), [(401, 401), (403, 401), (429, 429)])
def test_a_revoked_key_ends_whatever_the_service_says_instead(
    proxy: Proxied, status: int, answer: int, forgets: Callable[[float], None]
) -> None:
    """While wrong keys kept the service from saying so it went on, by the code up to an hour."""
    assert proxy.chat().status_code == 200
    forgets(0.0)
    proxy.service.status = status
    assert proxy.chat().status_code == answer
    forgets(60.0)
    assert proxy.chat().status_code == answer  # and its trust is gone
    assert proxy.chat(**proxy.own).status_code == (200 if status == 429 else 401)


def test_a_known_key_is_served_while_the_service_is_away(
    started: Started, forgets: Callable[[float], None]
) -> None:
    proxy = started()
    assert proxy.chat().status_code == 200
    forgets(0.0)
    proxy.service.status = 503
    assert proxy.chat().status_code == 200
    assert proxy.chat(**stranger()).status_code == 503


def test_a_revoked_key_ends_within_a_minute_while_the_service_is_away(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it was lent for an hour: who turned the service off, or cut it off, kept a revoked key."""
    for trusted, status in ((limits.TRUSTED_SECONDS, 503), (limits.MOST_TRUSTED_SECONDS, 200)):
        proxy = started(trust_seconds=trusted)
        assert proxy.chat().status_code == 200
        proxy.service.status = 503
        now = time.monotonic
        with monkeypatch.context() as patch:
            patch.setattr(keys, "time", SimpleNamespace(monotonic=lambda now=now: now() + 61))
            assert proxy.chat().status_code == status
            assert proxy.chat(**proxy.own).status_code == 200  # who pays goes on, without memory


def test_the_first_check_of_a_key_waits_for_a_slow_service(started: Started) -> None:
    """The first requests after a start were refused with 503, since the check had the 0.3 s of a recall."""
    proxy = started(recall_seconds=0.01)
    proxy.service.seconds = 0.2
    proxy.service.known.add(late := str(new_key()))
    assert proxy.chat(authorization=f"Bearer {late}").status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_caller_who_leaves_ends_the_upstreams_work(proxy: Proxied, stream: bool) -> None:
    """F043: before the first byte nobody noticed, and the upstream worked to the end."""
    proxy.upstream.waits = True
    body, headers = CHAT | {"stream": stream}, {"authorization": f"Bearer {proxy.key}"}
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{proxy.address}/v1/chat/completions", json=body, headers=headers, timeout=0.5)
    assert poll(lambda: proxy.upstream.left or len(proxy.upstream.requests) == 0, bool, PATIENCE)
    assert poll(lambda: proxy.upstream.left, bool, PATIENCE) == 1


def test_what_waits_of_many_keys_is_published_at_the_same_time_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy that was terminated while the service was away took seconds for each key."""
    many = 40
    together = threading.Barrier(many, timeout=PATIENCE)
    monkeypatch.setattr("jiyi.client.outbox.Outbox.close", lambda _: together.wait())

    async def end() -> None:
        memories = Memories("http://127.0.0.1:9")
        for _ in range(many):
            memories.of(str(new_key()), KnownKey(0.0, "g"))
        await memories.close()

    asyncio.run(end())
    assert not together.broken


def test_a_body_that_would_become_large_is_refused_before_it_is_parsed(proxy: Proxied) -> None:
    """A body of 32 MB took 890 MB. Here each is cut off: a parser would find no JSON."""
    for part in (b"{},", b"1,", b'"",'):
        refused = proxy.chat(b'{"messages": [], "x": [' + part * 400_000, x_jiyi_memory="on")
        assert (refused.status_code, "the request has more than" in refused.text) == (413, True)
    assert not proxy.upstream.requests


def tea(times: int) -> dict[str, Any]:
    return {"role": "user", "content": "tea " * times}


def test_a_body_of_one_long_text_or_many_messages_passes_without_being_read(
    proxy: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text of 24 MB was looked through for secrets in the event loop, for seconds; 100,000 messages took
    minutes in a thread.
    """
    monkeypatch.setattr("jiyi.proxy.dialects.own_words", lambda _: pytest.fail("it was read"))
    proxy.service.injected = {"stable": "You know Ben.", "recalled": "Ben likes tea."}
    for messages in ([tea(500_001)], [tea(1)] * 10_001):
        body = CHAT | {"messages": messages}
        assert proxy.chat(body, x_jiyi_memory="on").status_code == 200
        assert proxy.upstream.body == body


def test_while_a_long_conversation_is_looked_through_for_secrets_others_are_answered(
    proxy: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, go_on = threading.Event(), threading.Event()

    def look(messages: Any) -> list[Any]:
        looked.set()
        assert go_on.wait(PATIENCE)
        return []

    monkeypatch.setattr("jiyi.proxy.memory.recordable", look)
    assert proxy.chat(CHAT | {"messages": [tea(20_000)]}, x_jiyi_memory="on").status_code == 200
    assert looked.wait(PATIENCE)
    try:
        assert proxy.chat().status_code == 200
    finally:
        go_on.set()


def test_while_a_large_body_is_looked_into_others_are_answered(
    proxy: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight bodies of 24 MB held ``/healthz`` up for a quarter of a second: each look for garbage among their
    values, or copy of one, stopped whoever asked for something small.
    """
    begun, go_on, looks = threading.Event(), threading.Event(), list[bool]()

    def parse(content: bytes) -> Any:
        if len(content) > bodies.LARGE_BYTES:
            looks.append(gc.isenabled())
            begun.set()
            assert go_on.wait(PATIENCE)
        return json.loads(content)

    monkeypatch.setattr(bodies, "from_json", parse)
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(proxy.chat, CHAT | {"messages": [tea(20_000)]}) for _ in range(2)]
        try:
            assert begun.wait(PATIENCE)
            assert proxy.chat().status_code == 200
            assert looks == [False]  # the other one waits its turn, unparsed
        finally:
            go_on.set()
        assert [one.result().status_code for one in asked] == [200, 200]
    assert gc.isenabled()


def test_texts_with_many_brackets_pass(proxy: Proxied) -> None:
    code = CHAT | {"messages": [{"role": "user", "content": '{"a": [1, 2]},' * 100_000}]}
    assert proxy.chat(code).status_code == 200
    assert proxy.upstream.body == code


def test_bodies_together_have_their_room_and_give_it_back() -> None:
    room = bodies.BodyBudget(10)
    with room.held() as one:
        one(6)
        with room.held() as two, pytest.raises(ProxyRefusal) as refused:
            two(4)
            two(1)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
        one(4)
    with room.held() as three:
        three(10)


def test_a_head_and_a_body_that_do_not_arrive_end(proxy: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a head stayed open for ever, and so did half a body."""
    monkeypatch.setattr(listening, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    with proxy.connect() as slow:
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A")
        with pytest.raises((ConnectionResetError, EOFError)):
            if not slow.recv(1):
                raise EOFError
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {proxy.key}\r\n"
    with proxy.connect() as slow:
        slow.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
        answer = b""
        while part := slow.recv(65_536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("status", "words", "twice"),
    [
        (400, "This model's maximum context length is 8192 tokens", True),
        (400, "the request exceeds the available context size, try increasing it", True),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", True),
        (400, "temperature must be below 2", False),
        (429, "context length", False),
    ],
)
def test_a_request_that_is_too_long_with_memories_is_sent_once_more_without(
    proxy: Proxied, status: int, words: str, twice: bool
) -> None:
    proxy.service.injected = {"stable": "You know Ben.", "recalled": "Ben likes tea."}
    refusal = json.dumps({"error": {"message": words}})
    proxy.upstream.answers = [(status, refusal)]
    answer = proxy.chat(x_jiyi_memory="read")
    first, *later = [json.loads(body) for _, _, _, body in proxy.upstream.requests]
    assert "Ben likes tea." in json.dumps(first)
    if twice:
        assert (answer.status_code, later) == (200, [CHAT])
    else:
        assert (answer.status_code, answer.text, later) == (status, refusal, [])


def test_an_answer_that_is_not_understood_costs_no_request(proxy: Proxied) -> None:
    proxy.service.injected = {"memories": "of another version"}
    assert proxy.chat(x_jiyi_memory="read").status_code == 200


def test_an_upstream_that_does_not_answer_is_told_by_what_happened(started: Started) -> None:
    """F113: it said "cannot reach 127.0.0.1: " and no more."""
    with socket.create_server(("127.0.0.1", 0)) as upstream, ThreadPoolExecutor(1) as threads:

        def reset() -> None:
            """Take what is asked, and end the connection as a machine does that has forgotten it."""
            one, _ = upstream.accept()
            with one:
                one.recv(65_536)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        threads.submit(reset)
        proxy = started(openai=UpstreamConfig(f"http://127.0.0.1:{upstream.getsockname()[1]}/v1", OURS))
        answer = proxy.chat(**proxy.own)
    assert answer.status_code == 502
    assert "cannot reach 127.0.0.1: ReadError" in answer.text
