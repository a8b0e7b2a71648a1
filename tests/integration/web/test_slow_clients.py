"""Clients that take their time hold up nobody: not in sending a request, nor in reading an answer, nor by
doing nothing.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from workers.web import serve
from workers.web.serve import ClientConnection, WebServer

MANY = 500
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY = (
    b"POST /api/v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length:"
    b" 1000000\r\n\r\n{"
)
#: Seconds within which a server that serves others gives a sign of life; one that waits for the slow ones
#: takes ``HEAD_SECONDS``.
ALIVE = 5.0
#: A machine that does much else may be late now and then; a server that waits for the slow ones is late each
#: time.
TRIES = 20


@contextmanager
def sockets(port: int, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    made = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]
    try:
        for one in made:
            one.sendall(first)
        yield made
    finally:
        for one in made:
            one.close()


@contextmanager
def dribbling(many: list[socket.socket], piece: bytes) -> Iterator[None]:
    """Each sends a little now and then, so that none is ever idle."""
    ended = threading.Event()

    def dribble() -> None:
        while not ended.wait(0.3):
            for one in many:
                try:
                    one.send(piece)
                except OSError:
                    continue

    thread = threading.Thread(target=dribble, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def healthz(port: int) -> float:
    """Seconds until the web says that it lives."""
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
    return time.monotonic() - began


@pytest.mark.xdist_group("500 slow clients")
@pytest.mark.parametrize(
    ("first", "piece"), [(HEAD, b"X-A: b\r\n"), (BODY, b" "), (b"", b"")], ids=["heads", "bodies", "silent"]
)
def test_500_slow_sockets_keep_nobody_from_the_web(unlimited_web: int, first: bytes, piece: bytes) -> None:
    with sockets(unlimited_web, MANY, first) as many, dribbling(many, piece):
        assert any(healthz(unlimited_web) < ALIVE for _ in range(TRIES))


@pytest.mark.xdist_group("500 slow clients")
def test_500_open_streams_keep_nobody_from_the_web(
    unlimited_web: int, api_key: Callable[..., str], group: str
) -> None:
    key = api_key(group, "read")
    ask = f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    with sockets(unlimited_web, MANY, ask):
        assert any(healthz(unlimited_web) < ALIVE for _ in range(TRIES))


# What is bounded, on a server of the test's own


Bounds = Callable[..., None]


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Bounds:
    """A server's patience is short, but longer than a busy machine takes between two lines of a test."""

    def bound(**limits: float) -> None:
        for name, value in limits.items():
            monkeypatch.setattr(serve, name, value)

    bound(HEAD_SECONDS=3.0, KEEPALIVE_SECONDS=0.4, LOOK_SECONDS=0.05, BODY_RATE=100_000)
    return bound


@contextmanager
def running(application: Any, **options: Any) -> Iterator[int]:
    """The port of a server of an application."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = WebServer(application, listening, threads=2, **options)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            server.stop()
            thread.join()
            server.finish(0)


@pytest.fixture
def served(bounds: Bounds) -> Iterator[int]:
    """A port at which a server answers; ``/big`` is more than a socket holds."""

    def application(environ: dict[str, object], start: Callable[..., object]) -> Iterator[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        return (b"x" * 100_000 for _ in range(200)) if environ["PATH_INFO"] == "/big" else iter([b"hello"])

    with running(application, max_body=10_000, patience=0.4) as port:
        yield port


def closed(sock: socket.socket) -> bool:
    """Whether the server ends the connection by itself."""
    sock.settimeout(20)
    try:
        while sock.recv(65_536):
            pass
    except ConnectionError:
        return True
    return True


def test_a_request_that_does_not_come_or_a_connection_that_asks_no_more_ends(served: int) -> None:
    head, body = b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\nab"
    with (
        sockets(served, 1, b"") as silent,
        sockets(served, 1, head) as heads,
        sockets(served, 1, body) as bodies,
        sockets(served, 1, HEAD + b"\r\n") as answered,
        dribbling([*heads, *bodies], b"A"),
    ):
        for sock in (*silent, *heads, *bodies, *answered):
            assert closed(sock)


def test_an_answer_that_nobody_reads_ends_and_its_thread_serves_others(served: int) -> None:
    with sockets(served, 4, b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n") as many:
        assert healthz(served) < 20
        for sock in many:
            assert closed(sock)


def test_what_is_too_large_or_no_request_gets_a_problem(served: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\n"
    chunk = b"4e20\r\n" + b"x" * 20_000 + b"\r\n0\r\n\r\n"
    for request_, status in (
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: " + b"b" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (head + b"Content-Length: 20000\r\n\r\n", 413),
        (head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk, 413),
        (b"nonsense\r\n\r\n", 400),
    ):
        with sockets(served, 1, request_) as (sock,):
            answer = http.client.HTTPResponse(sock)
            answer.begin()
            problem = json.loads(answer.read())
        assert (answer.status, problem["status"]) == (status, status)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["Server"] is None


def test_of_too_many_connections_the_idle_ones_go(served: int, bounds: Bounds) -> None:
    bounds(HEAD_SECONDS=60.0, MAX_CONNECTIONS=20)
    with sockets(served, 40, b"GET / HTTP/1.1\r\n"):
        assert healthz(served) < 20


def test_who_asks_again_at_once_for_what_was_refused_is_held_back_and_nobody_else(bounds: Bounds) -> None:
    bounds(REFUSAL_PAUSE=3_600.0)

    def application(environ: dict[str, object], start: Callable[..., object]) -> Iterator[bytes]:
        status = "429 Too many requests" if environ["PATH_INFO"] == "/much" else "200 OK"
        start(status, [("Content-Length", "0")])
        return iter(())

    def ask(path: str, key: str) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization:  Bearer {key} \r\n\r\n".encode())
        return sock

    with running(application, max_body=10, patience=20) as port:
        with ask("/much", "a") as first:
            assert first.recv(12) == b"HTTP/1.1 429"
        with ask("/much", "a") as again, ask("/else", "a") as other, ask("/much", "b") as somebody:
            assert other.recv(12) == b"HTTP/1.1 200"
            assert somebody.recv(12) == b"HTTP/1.1 429"
            again.settimeout(0.2)
            with pytest.raises(TimeoutError):
                again.recv(1)


def test_a_caller_is_a_key_a_session_or_an_address() -> None:
    for headers, proxies, caller in (
        ({"AUTHORIZATION": "Bearer  a "}, 0, "a"),
        ({"COOKIE": "session=1"}, 0, "session=1"),
        ({"X_FORWARDED_FOR": "198.51.100.7"}, 0, "192.0.2.1"),
        ({"X_FORWARDED_FOR": "made up, 198.51.100.7"}, 1, "198.51.100.7"),
        ({}, 1, "192.0.2.1"),
    ):
        connection = ClientConnection.__new__(ClientConnection)
        connection.requests, connection.addr = [SimpleNamespace(headers=headers, path="/")], ("192.0.2.1", 1)
        connection.server = SimpleNamespace(proxies=proxies)
        assert connection.caller() == caller
