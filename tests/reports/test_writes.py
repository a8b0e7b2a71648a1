"""An answer says what the database did: what is stored is told as stored, whatever hangs beside it, and what
may be, as that.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import redis
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import Connection

from jiyi import Client
from jiyi.client import publishing
from jiyi.errors import BrokerUnavailable, NoAnswer
from jiyi.settings import Settings
from models.db.connection import Following, after_commit, unit_of_work
from models.db.valkey import retry_unless_late
from models.memory import inbox, ingest
from tests.integration.programs import Program
from web.accounts import api_keys
from web.api import memory as rest_memory

EVENT = {"agent_id": "bee", "description": "I keep bees in Braga"}


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def own_announcer() -> Iterator[None]:
    """With a thread of this test's own."""
    ingest.announcer.cache_clear()
    yield
    ingest.announcer.cache_clear()


@pytest.mark.usefixtures("own_announcer")
def test_what_is_stored_is_answered_while_valkey_hangs(
    program: Any, group: str, monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    """It was answered 503 "Try again", which stored it once more."""
    monkeypatch.setattr(inbox, "announce", lambda *_: released.wait(60))
    asks: Program = program(group)
    for number in range(3):  # more than there are threads that store
        event = {**EVENT, "description": f"{EVENT['description']} {number}"}
        assert asks.post("/events", event)["accepted"] == 1
    assert len(asks.get("/nodes", agent_id="bee")["rows"]) == 3


def test_what_waits_for_valkey_is_announced_together(
    monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    seen, begun, told = list[int](), threading.Event(), threading.Event()

    def announce(*stored: int) -> None:
        seen.append(len(stored))
        begun.set()
        if len(seen) == 1:
            assert released.wait(60)
            raise RuntimeError("it fails nothing")
        told.set()

    announcer = ingest.Announcer()
    announcer.put(Following({announce: [1]}))
    assert begun.wait(60)
    for _ in range(100):
        announcer.put(Following({announce: [1]}))
    released.set()
    assert told.wait(60)
    assert seen == [1, 100]


def test_an_answer_is_no_error_when_valkey_goes_while_it_is_made(
    program: Any, web_app: Flask, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers say how much may still be asked; that was looked up when all was done already, and made a
    500 of it.
    """

    def gone(*_: object) -> None:
        raise redis.ConnectionError("it has gone")

    asks: Program = program(group)
    monkeypatch.setattr(web_app.extensions["jiyi.limits"]._limiter._limiter, "get_window_stats", gone)
    assert asks.post("/events", EVENT)["accepted"] == 1


def test_a_database_that_is_slow_may_have_stored_it(
    program: Any, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        def store(self, *_: object) -> None:
            raise TimeoutError

    monkeypatch.setattr(rest_memory, "group_commit", Slow)
    event_id = "01890000-0000-7000-8000-000000000001"
    refused = program(group).post("/events", {**EVENT, "event_id": event_id}, status=504)
    assert refused["code"] == "no_answer"
    assert f"the event {event_id} may be stored" in refused["detail"]
    assert "harmless" in refused["detail"]


def test_a_request_whose_events_cannot_be_stored_is_told_what_was_wrong(database: Any) -> None:
    """And not that it may be stored, when no time is left."""
    item: Any = ingest._Waiting(ingest.EventBatch([]), None, None)  # type: ignore[arg-type] – what is wrong
    committing = ingest.GroupCommit()
    committing.waiting.put(item)
    with pytest.raises(AttributeError, match="items"):
        item.future.result(60)


@pytest.mark.usefixtures("database")
def test_what_follows_from_a_commit_fails_nothing_of_it_and_comes_once_in_its_order() -> None:
    told = list[object]()

    def wake(*kinds: str) -> None:
        told.append(sorted(kinds))
        raise RuntimeError("no broker")

    def wakes(connection: Connection, *kinds: str) -> None:
        after_commit(connection, wake, *kinds, last=True)

    with unit_of_work() as connection:
        wakes(connection, "embed")
        after_commit(connection, lambda: 1 / 0)
        after_commit(connection, told.append, "the second")
        wakes(connection, "reflect", "embed")
        assert told == []
    assert told == ["the second", ["embed", "embed", "reflect"]]
    with pytest.raises(ZeroDivisionError), unit_of_work() as connection:
        wakes(connection, "embed")
        raise ZeroDivisionError
    assert len(told) == 2


def test_a_valkey_that_hangs_is_waited_for_once() -> None:
    tries = list[int]()

    def late() -> None:
        tries.append(1)
        raise redis.TimeoutError("Timeout reading from socket")

    with pytest.raises(redis.TimeoutError):
        retry_unless_late().call_with_retry(late, lambda _: None)
    assert len(tries) == 1
    assert api_keys.SOCKET_TIMEOUT == 1


def test_a_broker_that_takes_connections_and_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While Valkey hung, retrievals over HTTP and a client's calls and events had no answer, and held the
    web's threads.
    """
    monkeypatch.setitem(publishing.PUBLISH_TIMEOUTS, "socket_timeout", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        settings = Settings(broker_url=address, redis_url=address, secret_key=SecretStr("s" * 40))
        with Client("g", settings=settings) as client:
            with pytest.raises(BrokerUnavailable):
                client.observe("bee", "I keep bees in Braga")
            with pytest.raises(BrokerUnavailable):
                client.retrieve("bee", "Who keeps bees?", timeout=1)


def test_a_client_that_got_no_answer_is_told_which_id_to_give() -> None:
    """A second call without it stored the event once more."""

    class Late:
        retries, patience = (), 0.0

        def publish(self, *_: object) -> None:
            raise NoAnswer("no answer from http://localhost within 15 s")

        def close(self) -> None:
            pass

    own = UUID(int=7)
    with Client("g", settings=Settings(), transport=Late()) as client:  # type: ignore[arg-type]
        with pytest.raises(
            NoAnswer, match=rf"it may be stored: to publish it again with event_id={own} is harmless"
        ):
            client.observe("bee", "I keep bees in Braga", event_id=own)
        with pytest.raises(NoAnswer, match="event_id=0"):
            client.add_turn("bee", "user", "I keep bees in Braga", "s")
