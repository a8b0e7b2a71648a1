"""Holding all of the web's threads with requests that wait, so that nobody else gets one."""

from __future__ import annotations

import http.client
import json
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from jiyi.protocol import limits
from tests.integration.programs import Program
from web import create_app
from web.api.problems import RequestRefused
from web.api.running import REQUESTS, InHand
from web.probes import UP
from workers.web.callers import Callers
from workers.web.serve import WebServer

#: Seconds after which a test that waits has failed.
PATIENCE = 60.0
#: Objects that a web which has answered nothing yet may look through for garbage. It has a quarter of a
#: million.
FEW_OBJECTS = 20_000
LOOKED_THROUGH = """
import gc, socket
from workers.web import serve
serve.WebServer.run = lambda _: print(len(gc.get_objects()))  # those that a full collection looks at
with socket.create_server(("127.0.0.1", 0)) as sock:
    serve.serve(sock)
"""


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        yield connection


def _send(connection: http.client.HTTPConnection, key: str, address: str) -> None:
    body = json.dumps({"agent_id": "klaus", "description": "Klaus waits."})
    connection.request(
        "POST", address, body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    )


def test_one_key_that_waits_keeps_nobody_from_the_web(
    unlimited_web: int, group: str, api_key: Callable[..., str]
) -> None:
    """It sends more waiting requests than there are threads; probes, and the other group's requests, are
    answered while they wait.
    """
    waiting, other = api_key(group, "publish"), api_key(f"{group}-other", "publish", "read")
    with ExitStack() as stack:
        many = [stack.enter_context(connected(unlimited_web)) for _ in range(limits.REQUESTS_AT_ONCE + 32)]
        for one in many:
            _send(one, waiting, "/api/v1/events?wait=30")
        # Those for which there is no room are refused, which tells that as many as there may be wait.
        (refused, *_), _, _ = select.select([one.sock for one in many], [], [], PATIENCE)
        answer = next(one for one in many if one.sock is refused).getresponse()
        assert answer.status == 429
        assert int(answer.headers["Retry-After"]) > 0
        assert json.loads(answer.read())["title"] == "Too many requests"
        with connected(unlimited_web) as probe:
            for path in ("/healthz", "/readyz"):
                probe.request("GET", path)
                response = probe.getresponse()
                assert response.read()
                assert response.status == 200
        with connected(unlimited_web) as somebody:
            _send(somebody, other, "/api/v1/events")
            assert somebody.getresponse().status == 202


def test_all_keys_of_one_group_together_leave_threads_to_others(
    program: Callable[..., Program], group: str
) -> None:
    first, second, other = (program(one, "publish") for one in (group, group, f"{group}-other"))
    event = {"agent_id": "klaus", "description": "Klaus waits."}
    with ExitStack() as under_way:
        for _ in range(limits.REQUESTS_OF_GROUP):
            under_way.enter_context(REQUESTS.one_of(group))
        for one in (first, second):
            answer = one.ask("POST", "/events", 429, json=event)
            assert f"{limits.REQUESTS_OF_GROUP} requests of this group are" in answer.json["detail"]
            assert int(answer.headers["Retry-After"]) > 0
        other.post("/events", event)
    first.post("/events", event)


def test_requests_of_many_groups_leave_threads_to_probes_and_pages() -> None:
    in_hand = InHand(2, 2)
    with (
        in_hand.one_of("a"),
        in_hand.one_of("b"),
        pytest.raises(RequestRefused) as caught,
        in_hand.one_of("c"),
    ):
        pytest.fail("it was begun")
    assert caught.value.status == 503
    with in_hand.one_of("c"):
        pass


def test_a_refused_or_failed_request_is_no_longer_under_way(
    program: Callable[..., Program], group: str
) -> None:
    one = program(group, "publish")
    for body, status in (
        ({"agent_id": "klaus"}, 422),
        ({"agent_id": "klaus", "description": "Klaus waits."}, 202),
    ):
        one.ask("POST", "/events", status, json=body)
        assert not REQUESTS._counts[group]


def test_what_is_no_request_is_answered_and_stops_nobody(unlimited_web: int) -> None:
    for sent in (b"nonsense", b"GET", b"\x00\xff", b"GET / HTTP/1.1\r\nno header"):
        with socket.create_connection(("127.0.0.1", unlimited_web), timeout=PATIENCE) as one:
            one.sendall(sent + b"\r\n\r\n")
            assert one.makefile("rb").readline().split()[1] == b"400", sent
        with connected(unlimited_web) as probe:
            probe.request("GET", "/healthz")
            assert probe.getresponse().status == 200, sent


@pytest.mark.parametrize(
    ("headers", "at_once"),
    [({}, limits.REQUESTS_OF_ADDRESS), ({"Authorization": "Bearer x"}, limits.REQUESTS_OF_ADDRESS + 2)],
    ids=["nobody", "somebody"],
)
def test_an_address_without_credentials_has_few_requests_answered_at_a_time(
    headers: dict[str, str], at_once: int
) -> None:
    count = limits.REQUESTS_OF_ADDRESS + 2
    begun, go_on = threading.Semaphore(0), threading.Event()

    def application(_environ: object, start: Callable[..., object]) -> list[bytes]:
        begun.release()
        go_on.wait(PATIENCE)
        start("200 OK", [("Content-Length", "0")])
        return [b""]

    with serving(application, count) as port, ExitStack() as stack:
        try:
            asking = [stack.enter_context(connected(port)) for _ in range(count)]
            for one in asking:
                one.request("GET", "/", headers=headers)
            assert all(begun.acquire(timeout=PATIENCE) for _ in range(at_once))
            assert not begun.acquire(timeout=0.2)
            go_on.set()
            assert [one.getresponse().status for one in asking] == [200] * count
        finally:
            go_on.set()


@contextmanager
def serving(application: Any, threads: int) -> Iterator[int]:
    """The port of a server with so many threads."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = WebServer(application, sock, threads=threads, max_body=1, patience=PATIENCE)
        loop = threading.Thread(target=server.run)
        loop.start()
        try:
            yield sock.getsockname()[1]
        finally:
            server.stop()
            loop.join()
            server.finish(0)


def test_liveness_is_answered_without_a_thread(database: object) -> None:
    """All threads there are do something else."""
    application = create_app()
    with serving(application, 0) as port, connected(port) as probe:
        for method, body in (("GET", UP), ("HEAD", b""), ("GET", UP)):
            probe.request(method, "/healthz")
            answer = probe.getresponse()
            assert (answer.status, answer.read()) == (200, body)
            same = dict(application.test_client().get("/healthz").headers)
            assert {name: answer.headers[name] for name in same} == same


def test_of_one_caller_so_many_are_answered_so_many_wait_and_the_next_is_refused() -> None:
    callers = Callers[str](1)
    begun = [callers.begin("a", request, 2) for request in ("first", "second", "third", "fourth")]
    assert begun == ["begun", "begun", "waits", "refused"]
    assert callers.begin("b", "another's", 2) == "begun"
    assert callers.end("a") == "third"  # it takes the place
    assert callers.begin("a", "fifth", 2) == "waits"
    assert [callers.end("a") for _ in range(3)] == ["fifth", None, None]
    assert callers.end("b") is None
    assert not callers._of  # nobody is remembered


@pytest.mark.long
def test_no_look_for_garbage_stops_all_threads_for_long(database: object) -> None:
    """It holds up everything, the server's loop as well: what is there from the start is left out of it."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_THROUGH], check=True, capture_output=True, text=True, timeout=PATIENCE
    )
    assert int(done.stdout) < FEW_OBJECTS
