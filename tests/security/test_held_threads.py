"""Holding all of the web's threads with requests that wait, so that nobody else gets one."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from jiyi.protocol import limits
from tests.integration.programs import Program
from web import create_app
from web.api.running import REQUESTS
from web.probes import UP
from workers.web import dispatching
from workers.web.dispatching import Dispatchers, FairQueue, Loop, Refusals
from workers.web.http_server import Server

#: Seconds after which a test that waits has failed.
PATIENCE = 60.0
#: Objects that a web which has answered nothing yet may look through for garbage. It has a quarter of a million.
FEW_OBJECTS = 20_000
LOOKED_THROUGH = """
import gc, socket
from jiyi.settings import get_settings
from workers.web import serve
serve.Server.run = lambda _: print(len(gc.get_objects()))  # those that a full collection looks at
with socket.create_server(("127.0.0.1", 0)) as sock:
    serve.serve(get_settings(), sock)
"""


@pytest.fixture(scope="module")
def port(unlimited_web: int) -> int:
    """The port of the web as in production, without workers: events never become retrievable."""
    return unlimited_web


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        yield connection


def _send(connection: http.client.HTTPConnection, key: str, address: str) -> None:
    body = json.dumps({"agent_id": "klaus", "description": "Klaus waits."})
    connection.request("POST", address, body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})


def test_one_key_that_waits_keeps_nobody_from_the_web(port: int, group: str, api_key: Callable[..., str]) -> None:
    """It sends more waiting requests than there are threads; probes, and the other group's requests, are answered while they wait."""
    waiting, other = api_key(group, "publish"), api_key(f"{group}-other", "publish", "read")
    with ExitStack() as stack:
        many = [stack.enter_context(connected(port)) for _ in range(limits.REQUESTS_AT_ONCE + 32)]
        for one in many:
            _send(one, waiting, "/api/v1/events?wait=30")
        # Those for which there is no room are refused, which tells that all the others have come before.
        answer = many[-1].getresponse()
        assert answer.status == 429
        assert int(answer.headers["Retry-After"]) > 0
        assert json.loads(answer.read())["title"] == "Too many requests"
        with connected(port) as probe:
            for path in ("/healthz", "/readyz"):
                probe.request("GET", path)
                response = probe.getresponse()
                assert response.read()
                assert response.status == 200
        with connected(port) as somebody:
            _send(somebody, other, "/api/v1/events")
            assert somebody.getresponse().status == 202


def test_all_keys_of_one_group_together_leave_threads_to_others(program: Callable[..., Program], group: str) -> None:
    first, second, other = program(group, "publish"), program(group, "publish"), program(f"{group}-other", "publish")
    event = {"agent_id": "klaus", "description": "Klaus waits."}
    with ExitStack() as under_way:
        for _ in range(limits.REQUESTS_OF_GROUP):
            under_way.enter_context(REQUESTS.one_of(group))
        for one in (first, second):
            answer = one.ask("POST", "/events", 429, json=event)
            assert f"{limits.REQUESTS_OF_GROUP} requests of this group are being answered" in answer.json["detail"]
            assert int(answer.headers["Retry-After"]) > 0
        other.post("/events", event)
    first.post("/events", event)


def test_a_refused_or_failed_request_is_no_longer_under_way(program: Callable[..., Program], group: str) -> None:
    one = program(group, "publish")
    for body, status in (({"agent_id": "klaus"}, 422), ({"agent_id": "klaus", "description": "Klaus waits."}, 202)):
        one.ask("POST", "/events", status, json=body)
        assert not REQUESTS._counts[group]


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"])
def test_what_is_no_request_is_answered_and_stops_nobody(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as one:
        one.sendall(sent)
        assert one.makefile("rb").readline().split()[1] == b"400"
    with connected(port) as probe:
        probe.request("GET", "/healthz")
        assert probe.getresponse().status == 200


# Who is next


def _connection(key: str = "", path: str = "/api/v1/stats", address: str = "192.0.2.1", **headers: str) -> Any:
    named = {name.upper(): value for name, value in headers.items()} | ({"AUTHORIZATION": f"Bearer {key}"} if key else {})
    request = SimpleNamespace(headers=named, path=path, error=None)
    return SimpleNamespace(requests=[request], addr=(address, 1), server=Mock(), service=lambda: None, cancel=lambda: None)


def _queue(at_once: int = 2, most: int = 3) -> FairQueue:
    return FairQueue(threading.Lock(), lambda one: str(one.requests[0].headers["AUTHORIZATION"]), at_once, most)


def test_callers_are_served_in_turn() -> None:
    queue = _queue()
    first, second, third = _connection("a"), _connection("a"), _connection("b")
    for one in (first, second, third):
        queue.append(one)
    assert len(queue) == 3
    assert [queue.popleft()._connection for _ in range(3)] == [first, third, second]


def test_a_caller_with_as_many_as_it_may_have_waits_until_one_is_done() -> None:
    queue = _queue()
    for _ in range(3):
        queue.append(_connection("a"))
    served = [queue.popleft(), queue.popleft()]
    assert not queue
    assert len(queue) == 0
    served[0].service()
    assert len(queue) == 1
    queue.popleft().service()
    served[1].service()
    assert not queue._callers  # nobody is remembered


def test_of_a_caller_with_too_many_that_wait_the_next_is_refused_at_once() -> None:
    queue = _queue()
    for _ in range(2):
        queue.append(_connection("a"))
        queue.popleft()
    for _ in range(3):
        queue.append(_connection("a"))
    assert not queue.append(_connection("a"))
    assert queue.append(_connection("b"))


def test_whoever_asks_again_too_early_is_refused_later_and_without_a_thread() -> None:
    dispatchers = Dispatchers(0)
    first, again, other = _connection("a"), _connection("a"), _connection("b")
    dispatchers.dispatch(first)
    dispatchers.limited(first, seconds=3_600)
    dispatchers.dispatch(again)
    assert again.requests[0].error.code == 429
    assert 0 < again.requests[0].error.seconds <= 3_600
    assert not dispatchers.loop.due()
    assert 0 < dispatchers.loop.seconds(60) <= limits.REFUSAL_PAUSE
    for one in (other, _connection("a", path="/api/v1/agents")):
        dispatchers.dispatch(one)
        assert one.requests[0].error is None


def test_of_refusals_that_are_held_back_so_many_at_a_time() -> None:
    loop = Loop()
    for _ in range(limits.REFUSALS_HELD):
        loop.add(_connection("a"), 3_600)
    assert not loop.due()
    loop.add(one := _connection("a"), 3_600)
    assert loop.due() == [one]


def test_of_refused_callers_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "MOST_REFUSED", 3)
    refusals = Refusals()
    for number in range(10):
        refusals.remember(str(number), "/", 3_600)
    assert [bool(refusals.seconds(str(number), "/")) for number in range(10)] == [False] * 7 + [True] * 3


def test_liveness_is_answered_without_a_thread(database: object) -> None:
    """All threads there are do something else."""
    application = create_app()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = Server(application, sock, threads=0, max_body=1, patience=PATIENCE)
        server.task_dispatcher.shutdown(timeout=PATIENCE)
        loop = threading.Thread(target=server.run)
        loop.start()
        try:
            with connected(sock.getsockname()[1]) as probe:
                for method, body in (("GET", UP), ("HEAD", b""), ("GET", UP)):
                    probe.request(method, "/healthz")
                    answer = probe.getresponse()
                    assert (answer.status, answer.read()) == (200, body)
                    told = application.test_client().get("/healthz").headers
                    assert {name: answer.headers[name] for name in told.keys()} == dict(told)  # noqa: SIM118 – werkzeug's are pairs
        finally:
            server.stop()
            loop.join()
            server.finish(0)


@pytest.mark.long
def test_no_look_for_garbage_stops_all_threads_for_long(database: object) -> None:
    """It holds up everything, the server's loop as well: what is there from the start is left out of it."""
    done = subprocess.run([sys.executable, "-c", LOOKED_THROUGH], check=True, capture_output=True, text=True, timeout=PATIENCE)
    assert int(done.stdout) < FEW_OBJECTS


def test_a_request_that_fails_leaves_its_place() -> None:
    queue = _queue(at_once=1)
    failing = _connection("a")
    failing.service = lambda: 1 / 0
    queue.append(failing)
    with pytest.raises(ZeroDivisionError):
        queue.popleft().service()
    queue.append(_connection("a"))
    assert len(queue) == 1


@pytest.mark.parametrize(
    ("one", "other", "proxies", "same"),
    [
        ({"key": "a"}, {"key": "a", "address": "192.0.2.2"}, 0, True),
        ({"key": "a"}, {"key": "b"}, 0, False),
        ({"cookie": "session=1"}, {"cookie": "session=2"}, 0, False),
        ({}, {"x_forwarded_for": "198.51.100.7"}, 0, True),
        ({"x_forwarded_for": "198.51.100.7"}, {"x_forwarded_for": "198.51.100.8"}, 1, False),
        ({"x_forwarded_for": "made up, 198.51.100.7"}, {"x_forwarded_for": "198.51.100.7"}, 1, True),
        ({}, {"address": "192.0.2.2"}, 0, False),
    ],
)
def test_a_caller_is_a_key_a_session_or_an_address(one: dict[str, str], other: dict[str, str], proxies: int, *, same: bool) -> None:
    dispatchers = Dispatchers(proxies)
    assert (dispatchers._caller(_connection(**one)) == dispatchers._caller(_connection(**other))) is same


def test_threads_see_what_arrived_after_the_loop_has_read_what_there_was() -> None:
    """However long the threads' lock is held."""
    dispatchers = Dispatchers(0)
    seen = threading.Event()
    connection = _connection("a")
    connection.service = seen.set
    dispatchers.set_thread_count(1)
    with dispatchers._others.lock:
        dispatchers.add_task(connection)
        dispatchers.end_turn()
        assert not seen.is_set()
    assert seen.wait(PATIENCE)
    dispatchers.shutdown()
