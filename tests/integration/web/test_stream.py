"""The live stream: what is told, resuming, and clients that are slow, deaf or too many; over a real
socket.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from jiyi import Client
from models.db.connection import unit_of_work
from models.db.valkey import valkey
from models.memory.work import EMBED
from models.queue import stream
from models.queue.pending_work import enqueue
from models.queue.stream import hub
from tasks.framework import work as tasks
from tasks.framework.work import MAX_ATTEMPTS
from tests.integration.waiting import until
from web import stream as web_stream
from workers import ephemeral

PATIENCE_SECONDS = 60.0
DEAD = "redis://127.0.0.1:1/0"
SECRET = "the words of a memory"

Event = dict[str, str]
MakeKey = Callable[..., str]


def await_true(condition: Callable[[], Any], what: str) -> Any:
    return until(condition, PATIENCE_SECONDS, what)


def kinds_of(group: str) -> list[str]:
    return [entry.kind for entry in stream.read(group, "0")]


def told(group: str, kind: str) -> dict[str, Any]:
    entry = next(entry for entry in stream.read(group, "0") if entry.kind == kind)
    return json.loads(entry.data)  # type: ignore[no-any-return]


# What is told


def test_a_memorys_way_is_told_without_its_words(client: Client) -> None:
    event_id = client.observe("Ada", SECRET, wait=True)
    client.retrieve("Ada", SECRET)
    client.configure("Ada", recency_w=0.5, wait=True)
    wanted = {"node.stored", "node.retrievable", "work.done", "retrieval.answered", "agent.configured"}
    await_true(lambda: wanted <= set(kinds_of(client.group)), "something was not told")
    assert told(client.group, "node.stored") == {"ids": [str(event_id)], "count": 1, "agents": {"Ada": 1}}
    assert told(client.group, "node.retrievable")["ids"] == [str(event_id)]
    answered = told(client.group, "retrieval.answered")
    assert (answered["agent"], answered["found"]) == ("Ada", 1)
    assert answered["ms"] > 0
    assert told(client.group, "agent.configured") == {"agent": "Ada"}
    client.reflect("Ada")
    await_true(lambda: "reflection.done" in kinds_of(client.group), "the reflection was not told")
    assert told(client.group, "reflection.done")["agent"] == "Ada"
    everything = "".join(entry.data for entry in stream.read(client.group, "0"))
    assert not any(word in everything for word in SECRET.split() if len(word) > 3)


def test_failures_and_dead_letters_are_told_without_what_the_error_says(
    nothing_owed: None, group: str
) -> None:
    # Makes the kind known, and reads the settings, so not before they are there.
    import_module("tasks.memory")
    with unit_of_work() as connection:
        enqueue(connection, EMBED, [(uuid4(), group)])

    def handler(_batch: tasks.Batch) -> None:
        raise RuntimeError(SECRET)

    for _ in range(MAX_ATTEMPTS):
        with unit_of_work() as connection:
            connection.exec_driver_sql("UPDATE pending_work SET due_at = now() WHERE group_id = %s", (group,))
        tasks.run_due(tasks.KINDS[EMBED], handler)
    assert kinds_of(group) == ["work.failed"] * MAX_ATTEMPTS + ["letter.opened"]
    assert told(group, "work.failed") == {"kind": EMBED, "error": "RuntimeError", "attempt": 1, "count": 1}
    assert told(group, "letter.opened") == {"kind": EMBED, "count": 1}
    assert SECRET not in "".join(entry.data for entry in stream.read(group, "0"))


def test_a_refused_event_is_told_and_so_is_what_becomes_of_its_letter(client: Client) -> None:
    body = json.dumps(
        {"type": "memory.observed", "event_id": str(uuid4()), "group_id": client.group, "payload": SECRET}
    )
    client.transport.publish(body.encode(), "memory.observed")
    await_true(lambda: "letter.opened" in kinds_of(client.group), "the letter was not told")
    client.dead_letters.resolve(action="discard", kind="intake")
    news = told(client.group, "letter.resolved")
    assert news["action"] == "discarded"
    assert news["count"] >= 1  # letters of no known group, which other tests have left, are closed with it


def test_a_valkey_that_is_away_costs_a_line(
    database: object, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ephemeral.environment(redis_url=DEAD):
        for _ in range(5):
            stream.publish(group, "erasure.done", count=1)
    stream.quiet_until = 0.0
    assert len([record for record in caplog.records if record.name == "models.queue.stream"]) == 1
    stream.publish(group, "erasure.done", count=2)
    assert told(group, "erasure.done") == {"count": 2}


def test_a_groups_news_is_bounded_and_passes(database: object, group: str) -> None:
    stream.publish_all((group, "work.done", {"count": n}) for n in range(2 * stream.KEPT))
    assert stream.KEPT <= len(stream.read(group, "0", count=10 * stream.KEPT)) <= stream.KEPT + 100
    assert 0 < valkey().ttl(f"jiyi:stream:{group}") <= stream.FORGOTTEN_AFTER


# The stream of one client


class Reader:
    """Reads server-sent events from chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._text = chunks, ""
        self.retry: str | None = None

    def event(self) -> Event:
        """The next one, with its comments left out."""
        while True:
            while "\n\n" not in self._text:
                self._text += next(self._chunks).decode()
            block, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            self.retry = fields.pop("retry", self.retry)
            if fields:
                return fields

    def until(self, kind: str) -> Event:
        while (found := self.event())["event"] != kind:
            pass
        return found


Bounds = Callable[..., None]


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bounds]:
    """A hub of the test's own, whose bounds can be set."""

    def bound(module: Any, **limits: float) -> None:
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)

    hub.cache_clear()
    bound(web_stream, LOOK=0.05)
    yield bound
    hub.cache_clear()


@pytest.fixture
def watch(bounds: Bounds, web_app: Flask, api_key: MakeKey, group: str) -> Iterator[Callable[..., Reader]]:
    """Opens a stream of the test's group in this process."""
    key = api_key(group, "read")
    with ExitStack() as opened:

        def begin(query: str = "", **headers: str) -> Reader:
            answer = get(web_app.test_client(), query, key, **headers)
            opened.callback(answer.close)
            assert answer.status_code == 200, answer.text
            assert answer.mimetype == "text/event-stream"
            assert answer.headers["X-Accel-Buffering"] == "no"
            return Reader(iter(answer.response))

        yield begin


def get(client: FlaskClient, query: str, key: str, **headers: str) -> Any:
    given = {"Authorization": f"Bearer {key}", **headers}
    return client.get(f"/api/v1/stream?{query}", headers=given, buffered=False)


def test_what_happens_comes_and_a_client_resumes_where_it_was(
    watch: Callable[..., Reader], group: str
) -> None:
    stream.publish(group, "work.done", n=0)
    reader = watch()
    opened = reader.event()
    assert opened["event"] == "stream.opened"
    assert reader.retry == str(web_stream.RETRY_MS)
    stream.publish_all((group, "work.done", {"n": n}) for n in (1, 2, 3))
    events = [reader.event() for _ in range(3)]
    assert [json.loads(event["data"])["n"] for event in events] == [1, 2, 3]

    def all_of(reader: Reader) -> list[int]:
        assert reader.event()["event"] == "stream.opened"
        stream.publish(group, "letter.resolved", n=9)
        found = []
        while (event := reader.event())["event"] != "letter.resolved":
            assert event["event"] == "work.done"
            found.append(json.loads(event["data"])["n"])
        valkey().xdel(
            f"jiyi:stream:{group}",
            *[entry.id for entry in stream.read(group, "0") if entry.kind != "work.done"],
        )
        return found

    assert all_of(watch(**{"Last-Event-ID": events[0]["id"]})) == [2, 3]
    assert all_of(watch(f"after={events[1]['id']}")) == [3]
    assert all_of(watch("after=0")) == [0, 1, 2, 3]
    assert all_of(watch(f"after={opened['id']}")) == [1, 2, 3]
    # The header is of a client that has read on since it was given its address.
    assert all_of(watch("after=0", **{"Last-Event-ID": events[2]["id"]})) == []


def test_kinds_are_chosen_quiet_streams_have_heartbeats_and_all_end_after_their_time(
    watch: Callable[..., Reader], group: str, bounds: Bounds
) -> None:
    bounds(web_stream, HEARTBEAT=0.2)
    reader = watch("kinds=node.stored,letter.opened")
    reader.event()
    assert next(reader._chunks) == b":\n\n"
    news = [("work.done", {}), ("letter.opened", {}), ("work.done", {"n": 2})]
    stream.publish_all((group, kind, fields) for kind, fields in news)
    assert reader.event()["event"] == "letter.opened"
    passed = reader.event()  # with a heartbeat: how far it is
    assert (passed["event"], passed["id"]) == ("stream.passed", stream.ends(group)[1])
    bounds(web_stream, STREAM_SECONDS=0.3)
    reader = watch()
    reader.event()
    with pytest.raises(StopIteration):
        while True:
            reader.event()


def test_a_gap_is_told(watch: Callable[..., Reader], group: str) -> None:
    stream.publish(group, "work.done", n=0)
    lost = stream.ends(group)[1]
    stream.publish_all((group, "work.done", {"n": n}) for n in range(1, 2 * stream.KEPT))
    oldest = stream.ends(group)[0]
    reader = watch(f"after={lost}")
    assert reader.event()["event"] == "stream.opened"
    gap = reader.event()
    assert (gap["event"], json.loads(gap["data"])) == ("gap", {"asked": lost, "oldest": oldest})
    assert reader.event()["id"] == oldest
    valkey().delete(f"jiyi:stream:{group}")  # the server lost what it had
    reader = watch(f"after={lost}")
    reader.event()
    gap = reader.event()
    assert json.loads(gap["data"])["oldest"] is None
    stream.publish(group, "letter.opened", n=1)
    assert reader.event()["event"] == "letter.opened"


def test_many_watchers_of_many_groups_get_their_own(
    bounds: Bounds, web_app: Flask, api_key: MakeKey, group: str
) -> None:
    names = [f"{group}-{n}" for n in range(5) for _ in range(3)]
    answers = [get(web_app.test_client(), "", api_key(name, "read")) for name in names]
    readers = [Reader(iter(answer.response)) for answer in answers]
    for reader in readers:
        reader.event()
    for name in set(names):
        stream.publish(name, "work.done", whose=name)
    assert [json.loads(reader.event()["data"])["whose"] for reader in readers] == names
    assert len(hub().watchers()) == 15
    for answer in answers:
        answer.close()
    assert len(hub().watchers()) == 0


def test_who_may_watch_what(
    bounds: Bounds, web_app: Flask, api_key: MakeKey, group: str, sign_in: Callable[..., Any]
) -> None:
    client, key = web_app.test_client(), api_key(group, "read")

    def status(query: str, key: str) -> int:
        with get(client, query, key) as answer:
            if answer.status_code != 200:
                assert answer.mimetype == "application/problem+json"
            return int(answer.status_code)

    assert client.get("/api/v1/stream").status_code == 401
    assert status("", api_key(group, "publish")) == 403
    assert status("", key) == status(f"group={group}", key) == 200
    assert status(f"group={group}-other", key) == 404
    assert status(f"group={group}", api_key(None, "operator", "read")) == 200
    assert status("kinds=node.stored,nonsense", key) == 400
    assert status("after=yesterday", key) == status("after=1-2-3", key) == 400
    # People's sessions and programs' keys open different doors.
    browser = sign_in("viewer", groups=[group])
    assert browser.get("/api/v1/stream").status_code == 401
    assert browser.get(f"/live/stream?group={group}-other").status_code == 404
    with browser.get(f"/live/stream?group={group}", buffered=False) as answer:
        assert Reader(iter(answer.response)).event()["event"] == "stream.opened"
    assert client.get("/live/stream", headers={"Accept": "text/event-stream"}).status_code == 401


def test_too_many_are_turned_away_of_one_key_of_all_and_of_one_address(
    bounds: Bounds, web_app: Flask, api_key: MakeKey, group: str
) -> None:
    one, other, third = (api_key(group, "read") for _ in range(3))
    client = web_app.test_client()
    with ExitStack() as kept:

        def opens(key: str) -> Any:
            answer = kept.enter_context(get(client, "", key))
            assert answer.status_code == 200
            return answer

        def refused(key: str, status: int, retry_after: str) -> None:
            answer = get(client, "", key)
            assert (answer.status_code, answer.headers["Retry-After"]) == (status, retry_after)

        bounds(stream, STREAMS=3, PER_OWNER=2)
        opens(one)
        opens(one)
        refused(one, 429, "30")
        last = opens(other)
        refused(other, 503, "10")
        last.close()
        opens(other)
        bounds(stream, STREAMS=10, PER_ADDRESS=3)
        refused(third, 429, "30")
        client.environ_base["REMOTE_ADDR"] = "192.0.2.7"
        opens(third)


# A real server


@contextmanager
def served(logs: Path) -> Iterator[tuple[int, Any]]:
    """The port and the process of a web of one stream an owner, that cuts off who does not read for a
    second.
    """
    bounds = "hubs.PER_OWNER, stream.PATIENCE_SECONDS = 1, 1"
    modules = "from models.queue import stream as hubs; from web import stream; from workers.web import serve"
    code = f"import sys; {modules}; {bounds}; sys.exit(serve.main())"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ephemeral, "commands", lambda: {"web": [sys.executable, "-c", code]})
        with ephemeral.served(logs) as (port, process):
            yield port, process


def status_of_another(port: int, key: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def connected(port: int, key: str) -> Iterator[socket.socket]:
    """A client that has the stream, of which nothing is read yet, with little room for what comes."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.settimeout(PATIENCE_SECONDS)
        sock.connect(("127.0.0.1", port))
        sock.sendall(
            f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        )
        # Not before it has the place that there is: whoever asks next could be given it else.
        assert sock.recv(1, socket.MSG_PEEK)
        yield sock


def test_who_never_reads_is_cut_off_who_goes_makes_room_and_streams_end_with_the_process(
    database: object, tmp_path: Path, api_key: MakeKey, group: str
) -> None:
    deaf_key, key = api_key(group, "read"), api_key(group, "read")
    with served(tmp_path) as (port, process):
        another = lambda: status_of_another(port, deaf_key)
        with connected(port, deaf_key):
            await_true(lambda: another() == 429, "the deaf client has no stream")
            ids = [str(uuid4()) for _ in range(100)]

            def free() -> bool:
                # Less at a time than fits in a queue: it is the socket that is full.
                stream.publish_all((group, "node.stored", {"ids": ids, "n": n}) for n in range(50))
                assert ephemeral.answers(port)
                return another() == 200

            await_true(free, "the thread of the deaf client did not come free")
        with connected(port, deaf_key):
            await_true(lambda: another() == 429, "there is no stream")
        await_true(lambda: another() == 200, "it holds on to a client that has gone")
        with connected(port, key) as sock:
            received = b""
            while b"stream.opened" not in received:
                received += sock.recv(65_536)
            assert b"200 OK" in received
            stream.publish(group, "work.done", n="看")
            while "看".encode() not in received:
                received += sock.recv(65_536)
            os.kill(process.pid, signal.SIGTERM)
            rest = b"".join(iter(lambda: sock.recv(65_536), b""))
            assert b"come back" in rest
            assert rest.endswith(b"0\r\n\r\n")  # the answer's proper end
            assert process.wait(PATIENCE_SECONDS) == 0
    assert "Traceback" not in (tmp_path / "web.log").read_text()
