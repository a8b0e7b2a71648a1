"""Every fault leaves the memory that an undisturbed run leaves: nothing lost, nothing twice (design §3)."""

from __future__ import annotations

import sys
import time
import uuid
from contextlib import suppress
from typing import Any

import kombu
import pytest
import redis

from jiyi import Client
from jiyi.errors import EventRejected
from jiyi.protocol.wire.broker import exchange, intake_queue
from jiyi.settings import get_settings
from models.db.valkey import valkey
from tests.smoke.conftest import Service
from tests.smoke.memory import EVENTS, life, messages, publish, settled

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(600)]

#: Until RabbitMQ has noticed that a consumer is dead.
PATIENCE_SECONDS = 60.0
#: Ends the intake as a power cut would, after the commit of its first batch and before it acknowledges.
DIES_BEFORE_ACKNOWLEDGING = """
import os
from workers.intake import consumer, sources
for source in (sources.RedisSource, sources.KombuSource):
    source.acknowledge = lambda *_: os.kill(os.getpid(), 9)
consumer.main()
"""


@pytest.fixture(scope="session")
def _undisturbed() -> dict[str, Any]:
    return {}


@pytest.fixture
def expected(running: Service, _undisturbed: dict[str, Any]) -> dict[str, Any]:
    """The memory of a run in which nothing happens; made once."""
    if not _undisturbed:
        group = f"calm-{uuid.uuid4().hex[:8]}"
        with Client(group) as client:
            for batch in messages(group):
                publish(client, batch)
        _undisturbed.update(settled(group))
        assert len(_undisturbed["nodes"]) == EVENTS
        assert _undisturbed["dead"] == 0
    return _undisturbed


@pytest.mark.both_brokers
def test_broker_restart(running: Service, client: Client, group: str, expected: dict[str, Any]) -> None:
    for number, batch in enumerate(messages(group)):
        publish(client, batch)
        if number in (10, 11, 25):  # twice in a row: some worker is just connecting again
            running.broker[0].restart()
    assert settled(group, running.ensure_running) == expected


@pytest.mark.both_brokers
def test_worker_killed_with_work_in_hand(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    for number, batch in enumerate(messages(group)):
        publish(client, batch)
        if number == 16:
            for worker in running.workers:
                worker.kill("SIGKILL")
                worker.container.begin()
            for worker in running.workers:
                worker.container.ready()
    assert settled(group) == expected


def test_intake_killed_between_commit_and_acknowledgement(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    intake = running.nodes["intake"]
    intake.kill("SIGTERM")
    intake.start(command=[sys.executable, "-c", DIES_BEFORE_ACKNOWLEDGING])
    for batch in messages(group):
        publish(client, batch)
    intake.wait_until_dead(PATIENCE_SECONDS)
    held, deadline = running.in_hand(), time.monotonic() + PATIENCE_SECONDS
    while (
        not held and time.monotonic() < deadline
    ):  # RabbitMQ gives back what a dead connection held a moment later
        time.sleep(0.1)
        held = running.in_hand()
    intake.start()
    assert settled(group) == expected
    assert held > 0, "the intake died with nothing in hand: the fault was not met"
    _nothing_in_hand(running)


def test_intake_killed_at_any_time(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    intake = running.nodes["intake"]
    for number, batch in enumerate(messages(group)):
        publish(client, batch)
        if number in (6, 26):
            intake.kill("SIGKILL")
            intake.start()
    assert settled(group) == expected


def test_exchange_bindings_wiped(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    batches = list(messages(group))
    for batch in batches[:20]:
        publish(client, batch)
    client.wait_for([event.event_id for batch in batches[:20] for event in batch], timeout=120)
    _nothing_in_hand(running)
    valkey().flushdb()  # bindings, flags, buffers: all gone, while clients and workers stay connected
    for batch in batches[20:]:
        publish(client, batch)
    assert settled(group) == expected


def test_poison_among_the_events(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    bad_id = uuid.uuid4()
    poison = [
        b"{ this is no JSON",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"events": [1, 2]}',
        f'{{"type":"memory.observed","event_id":"{bad_id}","group_id":"{group}","agent_id":"klaus","payload":{{}}}}'.encode(),
        f'{{"type":"memory.forgotten","group_id":"{group}","agent_id":"klaus","payload":{{}}}}'.encode(),
        f'{{"type":"memory.observed","group_id":"{group}","agent_id":"k","payload":{{"description":"a\\u0000b"}}}}'.encode(),
    ]
    for number, batch in enumerate(messages(group)):
        publish(client, batch)
        if number < len(poison):
            _publish_raw(poison[number])
    with pytest.raises(EventRejected, match=r"payload\.description"):
        client.wait_for([bad_id], timeout=90)
    memory = settled(group)
    letters = client.dead_letters.list(kind="intake", limit=100).rows
    assert sum(letter.group_id == group for letter in letters) == 3
    assert {"not JSON" in letter.reason for letter in letters if letter.group_id is None} >= {True}
    assert all(letter.reason for letter in letters)
    assert {**memory, "dead": 0} == expected


def test_everything_delivered_twice(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    for batch in messages(group):
        publish(client, batch)
        publish(client, batch[::-1])
    publish(client, life(group))
    assert settled(group) == expected


def test_database_restarted_and_away_while_everything_else_is_published(
    running: Service, client: Client, group: str, expected: dict[str, Any]
) -> None:
    batches = list(messages(group))
    for number, batch in enumerate(batches[:24]):
        publish(client, batch)
        if number in (8, 16):
            running.restart_database()
    running.stack.stop()
    try:
        for batch in batches[24:]:
            publish(client, batch)
        time.sleep(1)
    finally:
        running.stack.start()
    assert settled(group) == expected


def _publish_raw(body: bytes) -> None:
    settings = get_settings()
    with kombu.Connection(settings.broker_url) as connection, connection.Producer() as producer:
        producer.publish(
            body,
            exchange=exchange(),
            routing_key="memory.observed",
            content_type="application/json",
            content_encoding="binary",
            declare=[intake_queue(settings)],
        )


def _nothing_in_hand(running: Service) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with suppress(redis.RedisError):
            if not running.in_hand():
                return
        time.sleep(0.1)
    raise AssertionError("messages are still in hand")
