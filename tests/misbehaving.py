"""A local vendor that speaks OpenAI's protocol and misbehaves on purpose.

    with vendor() as server:
        server.script(status(429, retry_after="0"), slow(2), good())
        … call server.base_url …
        assert len(server.requests) == 3

Each request takes the next reply of the script; when it is used up, ``server.otherwise`` answers, which is
good unless set. A reply is a function of the request: ``good(size)``, ``chat(text)``, ``text(…)``,
``broken("nan")`` and so on.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine.providers import breakers, guarded, known
from engine.providers.embedders import HashingEmbedder

#: Values of the vectors that a good reply has.
SIZE = 16


@dataclass(frozen=True)
class Request:
    path: str
    body: dict[str, Any]
    #: Names in lower case.
    headers: Mapping[str, str]
    at: float

    @property
    def texts(self) -> list[str]:
        given = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    #: Seconds before the first byte.
    delay: float = 0.0
    #: Seconds between one byte and the next.
    dribble: float = 0.0
    #: End the connection after this many bytes of the body; 0: without any answer at all.
    cut_after: int | None = None


Script = Callable[[Request], Reply]


def _json(content: Any, **more: Any) -> Reply:
    return Reply(body=json.dumps(content).encode(), headers={"Content-Type": "application/json"}, **more)


def vectors_of(texts: list[str], size: int = SIZE) -> list[list[float]]:
    """What a good reply says, so that tests can compare."""
    return [[float(value) for value in row] for row in HashingEmbedder(size).passages(texts)]


def _embeddings(request: Request, vectors: list[list[float]], **more: Any) -> Reply:
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    used = {"prompt_tokens": 1, "total_tokens": 1}
    return _json({"object": "list", "model": request.body.get("model"), "data": data, "usage": used}, **more)


def good(size: int = SIZE, **more: Any) -> Script:
    """Embeddings (texts that share words come close), or a chat completion that says ``ok``."""
    return lambda request: (
        chat("ok")(request)
        if request.path.endswith("chat/completions")
        else _embeddings(request, vectors_of(request.texts, size), **more)
    )


def shuffled(size: int = SIZE) -> Script:
    """Correct, but in another order, as the protocol allows: ``index`` says what is what."""

    def reply(request: Request) -> Reply:
        content = json.loads(_embeddings(request, vectors_of(request.texts, size)).body)
        content["data"].reverse()
        return _json(content)

    return reply


def chat(content: str, finish: str = "stop") -> Script:
    """A chat completion whose message is ``content``: prose, JSON, wrong JSON, as the test needs."""
    return lambda request: _json(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": request.body.get("model"),
            "choices": [
                {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content}}
            ],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
    )


def rerank(relevance: Callable[[str, str], float], form: str = "documents") -> Script:
    """A reranker of ``relevance(query, document)``, best first; the form ``texts`` is that of Text Embeddings
    Inference.
    """

    def reply(request: Request) -> Reply:
        if form not in request.body:
            return status(422, f"missing field `{form}`")(request)
        scores = [relevance(request.body["query"], text) for text in request.body[form]]
        name = "score" if form == "texts" else "relevance_score"
        rows = [
            {"index": place, name: scores[place]}
            for place in sorted(range(len(scores)), key=lambda place: -scores[place])
        ]
        return _json(rows if form == "texts" else {"model": request.body["model"], "results": rows})

    return reply


def status(code: int, message: str = "no", *, retry_after: str | None = None) -> Script:
    headers = {"Content-Type": "application/json"} | (
        {} if retry_after is None else {"Retry-After": retry_after}
    )
    return lambda _: Reply(
        code, json.dumps({"error": {"message": message, "type": "test"}}).encode(), headers
    )


def redirect(code: int, location: str) -> Script:
    """Somewhere else, as a proxy or somebody in between says."""
    return lambda _: Reply(code, b"", {"Location": location})


def slow(seconds: float, then: Script | None = None) -> Script:
    """Nothing for a while, then the answer."""

    def reply(request: Request) -> Reply:
        made = (then or good())(request)
        made.delay = seconds
        return made

    return reply


def dribbling(seconds: float) -> Script:
    """A byte at a time: no pause is long enough for a time-out between bytes."""

    def reply(request: Request) -> Reply:
        made = good()(request)
        made.dribble = seconds
        return made

    return reply


def text(content: str) -> Script:
    """Status 200 with something that is not JSON, like a proxy's page."""
    return lambda _: Reply(body=content.encode(), headers={"Content-Type": "text/html"})


def json_body(content: Any) -> Script:
    """Status 200 with any JSON."""
    return lambda _: _json(content)


def cut(after: int = 0) -> Script:
    """The connection ends in the middle of the answer, or before any."""

    def reply(request: Request) -> Reply:
        made = good()(request)
        made.cut_after = after
        return made

    return reply


def huge(megabytes: int) -> Script:
    return lambda _: Reply(
        body=b'{"data": "' + b"x" * (megabytes * 2**20) + b'"}', headers={"Content-Type": "application/json"}
    )


def broken(how: str, size: int = SIZE) -> Script:  # noqa: C901 – one case after another, each simple
    """Embeddings of the right form with wrong content: ``nan``, ``infinite``, ``zero``, ``fewer``, ``more``,
    ``twice`` (one index two times), ``ragged`` (one vector shorter), ``words``, ``null``.
    """

    def reply(request: Request) -> Reply:  # noqa: C901 – one case after another, each simple
        vectors: list[Any] = vectors_of(request.texts, size)
        match how:
            case "nan":
                vectors[-1][0] = float("nan")
            case "infinite":
                vectors[-1][0] = float("inf")
            case "zero":
                vectors[-1] = [0.0] * size
            case "fewer":
                vectors.pop()
            case "more":
                vectors.append(vectors[0])
            case "ragged":
                vectors[-1] = vectors[-1][:-1]
            case "words":
                vectors[-1] = ["a"] * size
            case "null":
                vectors[-1] = None
        made = _embeddings(request, vectors)
        if how == "twice":
            content = json.loads(made.body)
            for item in content["data"]:
                item["index"] = 0
            return _json(content)
        return made

    return reply


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """A client that goes away in the middle is what some tests are about."""


class Vendor:
    """The server and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.otherwise: Script = good()
        self._script: deque[Script] = deque()
        self._lock = threading.Lock()
        self._http = _Quiet(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def script(self, *replies: Script) -> None:
        """What the next requests get, one each."""
        with self._lock:
            self._script.extend(replies)

    def reply_to(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            chosen = self._script.popleft() if self._script else self.otherwise
        return chosen(request)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def forget_vendors() -> None:
    """What this process has learned of vendors: their dialects, who failed, and who wants to be left
    alone.
    """
    breakers.in_process.clear()
    breakers.held_until.clear()
    known.in_process.clear()


@contextmanager
def vendor() -> Iterator[Vendor]:
    server = Vendor()
    try:
        yield server
    finally:
        server.close()
        # Its clients' connections, too: a socket that the garbage collector closes fails the test that runs
        # at that moment.
        for client in guarded._client.made():
            client.close()
        guarded._client.cache_clear()


def _handler(server: Vendor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply_to(Request(self.path, json.loads(body or b"{}"), headers, time.monotonic()))
            with suppress(OSError):  # the client has gone
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            time.sleep(reply.delay)
            if reply.cut_after == 0:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if reply.cut_after is not None:
                self.wfile.write(reply.body[: reply.cut_after])
                self.close_connection = True
            elif reply.dribble:
                for i in range(len(reply.body)):
                    self.wfile.write(reply.body[i : i + 1])
                    self.wfile.flush()
                    time.sleep(reply.dribble)
            else:
                self.wfile.write(reply.body)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
