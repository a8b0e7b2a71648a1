"""What is transient is not written to disk by Redis, and lost by a worker only if it dies."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import kombu
import pytest
from celery import Celery
from pydantic_core import from_json

from jiyi.client.caller import Caller
from jiyi.protocol.wire import broker  # noqa: F401 – registers the transport
from jiyi.settings import get_settings
from models.db.valkey import valkey
from models.queue.broker_queues import UNACKED, UNACKED_INDEX
from tests.integration.fields import check_fields
from workers.embedded.stack import Stack
from workers.ephemeral import environment

#: Not the one that running workers use.
OWN_DATABASE = 7
QUEUE = "trial"

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def _own_broker(database: Stack) -> Iterator[None]:
    own = database.urls.redis_url.replace("db=0", f"db={OWN_DATABASE}")
    broker_url = database.urls.broker_url.replace("virtual_host=0", f"virtual_host={OWN_DATABASE}")
    assert broker_url != database.urls.broker_url
    with environment(redis_url=own, broker_url=broker_url):
        valkey().flushdb()
        yield


def sent(mode: int, *bodies: str) -> None:
    with kombu.Connection(get_settings().broker_url) as connection, connection.Producer() as producer:
        for body in bodies:
            producer.publish(body, routing_key=QUEUE, declare=[kombu.Queue(QUEUE)], delivery_mode=mode)


def received(connection: kombu.Connection, count: int) -> list[Any]:
    """So many messages, neither acknowledged nor rejected."""
    found: list[Any] = []
    queue = kombu.Queue(QUEUE)
    with connection.Consumer([queue], on_message=found.append, channel=connection.default_channel):
        while len(found) < count:
            connection.drain_events(timeout=60)
    return found


def written_down() -> int:
    assert valkey().hlen(UNACKED) == valkey().zcard(UNACKED_INDEX)
    return int(valkey().hlen(UNACKED))


@pytest.mark.parametrize(("mode", "kept"), [(1, 0), (2, 1)], ids=["transient", "persistent"])
def test_only_what_is_to_outlive_its_worker_is_written_down(mode: int, kept: int) -> None:
    sent(mode, "a")
    with kombu.Connection(get_settings().broker_url) as connection:
        (message,) = received(connection, 1)
        assert written_down() == kept
        message.requeue()  # delivered once more and not twice
        assert written_down() == 0
        assert valkey().llen(QUEUE) == 1
        (message,) = received(connection, 1)
        message.ack()
        assert written_down() == 0
    assert valkey().llen(QUEUE) == 0
    # What is not acknowledged goes back in its order when the connection is closed
    sent(mode, "a", "b", "c")
    with kombu.Connection(get_settings().broker_url) as connection:
        first, *_ = received(connection, 3)
        first.ack()
    assert (written_down(), valkey().llen(QUEUE)) == (0, 2)
    with kombu.Connection(get_settings().broker_url) as connection:
        connection.default_channel.basic_qos(prefetch_count=2)
        again = received(connection, 2)
        assert {message.payload for message in again} == {"b", "c"}
        assert all(message.delivery_info["redelivered"] for message in again)
        # A consumer takes no more than it may have at a time
        for message in again:
            assert connection.default_channel.qos.can_consume() is (message is not again[0])
            message.ack()
        assert connection.default_channel.qos.can_consume()
    assert valkey().llen(QUEUE) == 0


def test_a_call_is_transient_and_the_message_that_celery_itself_would_have_sent() -> None:
    caller = Caller(get_settings())
    caller.post("retrieval.retrieve", QUEUE, {"agent_id": "Клаус"}, 10.0, "克劳斯")
    caller.close()
    (raw,) = valkey().lrange(QUEUE, 0, -1)
    message = from_json(raw)
    body, headers = from_json(base64.b64decode(message["body"])), message["headers"]
    args = [headers["id"], {"agent_id": "Клаус"}]
    theirs = Celery(set_as_current=False).amqp.as_task_v2(
        headers["id"], "retrieval.retrieve", args, {"actor": "克劳斯"}, expires=10.0, ignore_result=True
    )
    assert tuple(body) == theirs.body
    told = {
        name: value
        for name, value in headers.items()
        if name in theirs.headers and name not in ("expires", "origin")
    }
    assert told == {name: theirs.headers[name] for name in told}
    # what the protocol asks for
    assert {"lang", "task", "id", "root_id", "parent_id", "group"} <= told.keys()
    assert datetime.fromisoformat(headers["expires"]).utcoffset() == timedelta(0)
    check_fields(message["properties"], delivery_mode=1, correlation_id=headers["id"])
    assert (message["content-type"], message["content-encoding"]) == ("application/json", "utf-8")
