"""workers.intake.consumer and workers.intake.sources on a real Valkey: nothing is lost, nothing is taken
twice, the bad is set aside.
"""

from __future__ import annotations

import json
import resource
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID, uuid4

import kombu
import psycopg
import pytest
import redis

from engine.memory import Derived, MemorySource
from jiyi.protocol import event_bodies, limits
from jiyi.protocol import events as wire
from jiyi.protocol.events import MemoryObserved
from jiyi.protocol.operations import ResolveBody, Resolved
from jiyi.protocol.wire.broker import INTAKE_QUEUE, exchange, intake_queue
from jiyi.settings import Settings, get_settings
from models.db import valkey_keys
from models.db.actions import Actor
from models.memory import inbox
from models.memory.ingest import Rejected
from models.queue import actions, broker_queues
from models.queue.broker_queues import redis_address
from tests.integration.memory.test_inbox import execute, nodes, observed, rows
from tests.integration.threads import Threads
from tests.integration.waiting import PATIENCE_SECONDS, until
from tests.services import intake_of_ones_own
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.intake.sources import KombuSource, MessageBatch, RedisSource, open_source

__all__ = ["letter_with", "reading", "until"]

#: Apart from the queues of running workers, whose intake would look after the dead ones of a test.
OWN_DATABASE = 7
SOON = 0.05
OF_NO_GROUP = "SELECT reason FROM dead_letters WHERE group_id IS NULL AND state = 'open'"


def intake() -> Any:
    """The module, whose import makes the Celery app: not before there are addresses for it."""
    from workers.intake import consumer

    return consumer


@pytest.fixture
def settings(database: Stack) -> Iterator[Settings]:
    """An empty database of the same Valkey."""
    broker_url = database.urls.broker_url.replace("virtual_host=0", f"virtual_host={OWN_DATABASE}")
    with environment(broker_url=broker_url, work_lease_seconds="30"):
        made = get_settings()
        with valkey_of(made) as valkey:
            valkey.flushdb()
        yield made


@pytest.fixture
def valkey(settings: Settings) -> Iterator[redis.Redis]:
    with valkey_of(settings) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_letters_for_everybody(database: Stack) -> Iterator[None]:
    """Dead letters of no known group are shown to every group, so to other tests too: none is left, and none
    was there.
    """
    _drop_letters_of_no_group()
    yield
    _drop_letters_of_no_group()


def _drop_letters_of_no_group() -> None:
    execute("DELETE FROM dead_letters WHERE group_id IS NULL")


@contextmanager
def valkey_of(settings: Settings) -> Iterator[redis.Redis]:
    address = redis_address(settings.broker_url)
    assert address is not None
    with redis.Redis.from_url(address) as made:
        yield made


@pytest.fixture
def source(settings: Settings) -> Iterator[Callable[[], RedisSource]]:
    """Makes intakes' ends of the queue."""
    made: list[RedisSource] = []

    def open_one() -> RedisSource:
        opened = open_source(settings)
        assert isinstance(opened, RedisSource)
        made.append(opened)
        return opened

    yield open_one
    for one in made:
        one.close()


def publish(
    settings: Settings,
    *bodies: bytes | str,
    content_type: str = "application/json",
    steps: Sequence[int] | None = None,
    **options: Any,
) -> None:
    """``options`` are the producer's: ``priority``, ``compression``. ``steps``: the priorities that have
    lists of their own on Redis.
    """
    transport_options = {} if steps is None else {"priority_steps": steps}
    with (
        kombu.Connection(settings.broker_url, transport_options=transport_options) as connection,
        connection.Producer() as producer,
    ):
        for body in bodies:
            producer.publish(
                body if isinstance(body, bytes) else body.encode(),
                exchange=exchange(),
                routing_key="memory.observed",
                content_type=content_type,
                content_encoding="utf-8",
                declare=[intake_queue(settings)],
                **options,
            )


def bodies(batch: MessageBatch | None) -> list[str]:
    return [] if batch is None else [message.body.decode() for message in batch.messages]


def numbered(first: int, last: int) -> list[str]:
    return [json.dumps({"number": number}) for number in range(first, last)]


def held(valkey: redis.Redis) -> int:
    return sum(valkey.llen(key) for key in valkey.keys("jiyi:intake:hold:*"))


# The source


def test_messages_come_oldest_first_and_stay_on_the_broker_until_they_are_acknowledged(
    settings: Settings, source: Callable[[], RedisSource], valkey: redis.Redis
) -> None:
    publish(settings, *numbered(0, 10))
    reader = source()
    first, second = reader.take(4, SOON), reader.take(4, SOON)  # the second while the first is stored
    assert (bodies(first), bodies(second)) == (numbered(0, 4), numbered(4, 8))
    assert first is not None and second is not None
    assert (valkey.llen(INTAKE_QUEUE), held(valkey)) == (2, 8)
    reader.acknowledge(first)
    assert held(valkey) == 4
    reader.acknowledge(second)
    assert (valkey.llen(INTAKE_QUEUE), held(valkey)) == (2, 0)
    assert bodies(reader.take(4, SOON)) == numbered(8, 10)
    assert reader.take(4, SOON) is None


@pytest.mark.parametrize("steps", [None, list(range(10))])
def test_messages_of_all_priorities_are_counted_and_taken(
    settings: Settings, source: Callable[[], RedisSource], valkey: redis.Redis, steps: list[int] | None
) -> None:
    for priority in range(10):
        publish(settings, *numbered(10 + 2 * priority, 12 + 2 * priority), priority=priority, steps=steps)
    address, queue = redis_address(settings.broker_url), INTAKE_QUEUE
    assert address is not None
    assert broker_queues.waiting(queue) == 20
    assert broker_queues.depths(address, [queue]).waiting == {queue: 20}
    found = broker_queues.contents(address, queue, limit=3)
    assert (found.waiting, found.scanned, found.by_name) == (20, 20, {"memory.observed": 20})
    assert [message.place for message in (*found.first, *found.last)] == [0, 1, 2, 19, 18, 17]
    reader = source()
    batch = reader.take(100, SOON)
    assert sorted(bodies(batch)) == numbered(10, 30)
    assert batch is not None
    reader.acknowledge(batch)
    assert broker_queues.waiting(queue) == 0
    assert not [key for key in valkey.keys(f"{INTAKE_QUEUE}*") if valkey.llen(key)]


def test_the_age_of_a_queue_is_that_of_its_oldest_message_of_any_priority(settings: Settings) -> None:
    address, queue, now = redis_address(settings.broker_url), INTAKE_QUEUE, time.time()
    assert address is not None
    assert broker_queues.oldest(address, [queue]) == {queue: None}
    for priority, age in ((0, 10), (6, 1_000), (9, 100)):
        publish(settings, "{}", priority=priority, headers={"published_at": now - age})
    assert broker_queues.oldest(address, [queue])[queue] == pytest.approx(1_000, abs=60)


def test_no_priority_waits_for_ever_behind_another(
    settings: Settings, source: Callable[[], RedisSource]
) -> None:
    publish(settings, *numbered(0, 100))
    publish(settings, *numbered(900, 903), priority=9)
    reader = source()
    first = reader.take(20, SOON)
    assert len(bodies(first)) == 20
    assert numbered(900, 903)[0] in bodies(first)
    assert first is not None
    reader.acknowledge(first)
    rest = []
    while (batch := reader.take(20, SOON)) is not None:
        rest += bodies(batch)
        reader.acknowledge(batch)
    assert sorted(bodies(first) + rest) == sorted(numbered(0, 100) + numbered(900, 903))
    assert [body for body in bodies(first) + rest if json.loads(body)["number"] < 900] == numbered(0, 100)


def test_a_batch_is_full_when_its_bytes_are(settings: Settings, source: Callable[[], RedisSource]) -> None:
    """Each of 450 kB is 600 kB on the broker; one over the limit by itself comes none the less."""
    publish(settings, *[json.dumps("x" * 450_000)] * 5, json.dumps("y" * 4_500_000), json.dumps("z"))
    reader = source()
    sizes = []
    while (batch := reader.take(100, SOON)) is not None:
        sizes.append([len(message.body) for message in batch.messages])
        reader.acknowledge(batch)
    assert sizes == [[450_002, 450_002, 450_002], [450_002, 450_002, 4_500_002], [3]]


def test_what_a_dead_intake_held_comes_back_in_order_once_its_sign_of_life_is_gone_and_not_before(
    settings: Settings, source: Callable[[], RedisSource], valkey: redis.Redis
) -> None:
    publish(settings, *numbered(0, 3))
    dead = source()
    lost, more = dead.take(2, SOON), dead.take(2, SOON)
    assert bodies(lost) + bodies(more) == numbered(0, 3)
    assert source().take(10, SOON) is None  # a new intake looks at once, and the first one lives
    (alive,) = [key for key in valkey.keys("jiyi:intake:alive:*") if dead.name in key.decode()]
    assert 0 < valkey.ttl(alive) <= settings.intake_redelivery_seconds
    publish(settings, *numbered(3, 4))
    valkey.delete(alive)
    heir, come = source(), []
    for _ in range(3):
        batch = heir.take(10, SOON)
        assert batch is not None
        assert heir.turn(batch, 0) is True
        come.append(bodies(batch))
        if len(come) == 1:
            assert lost is not None
            dead.acknowledge(lost)  # it was only slow: its late acknowledgement takes nothing from the other
        heir.acknowledge(batch)
    assert come == [numbered(0, 2), numbered(2, 3), numbered(3, 4)]  # the older ones first
    assert held(valkey) == 0
    source().take(1, SOON)  # looks after the dead
    assert dead.name.encode() not in valkey.smembers(valkey_keys.intakes(dead.queue))


def test_a_batch_is_stored_shard_by_shard_after_those_that_were_taken_before(
    settings: Settings, source: Callable[[], RedisSource], valkey: redis.Redis
) -> None:
    publish(settings, *numbered(0, 3))
    one, two = source(), source()
    first, second, third = one.take(1, SOON), two.take(1, SOON), one.take(1, SOON)
    assert first is not None and second is not None and third is not None
    assert (one.turn(first, 0), two.turn(second, 0), one.turn(third, 0)) == (True, False, False)
    assert (one.turn(first, 1), two.turn(second, 0), two.turn(second, 1), one.turn(third, 0)) == (
        True,
        True,
        False,
        True,
    )
    one.acknowledge(first)
    assert two.turn(second, 1) is True
    two.close()  # with what it did not store: what waits for it gets it
    orphan = one.turn(third, 1)
    assert isinstance(orphan, MessageBatch)
    assert bodies(orphan) == bodies(second)
    one.acknowledge(orphan)
    assert one.turn(third, 1) is True
    valkey.flushdb()
    assert one.turn(third, 2) is True  # a broker that forgot everything keeps nothing from being stored


def test_two_intakes_share_a_queue_without_loss_or_overlap(
    settings: Settings, source: Callable[[], RedisSource]
) -> None:
    publish(settings, *numbered(100, 300))
    together = threading.Barrier(2)

    def read(reader: RedisSource) -> list[str]:
        taken: list[str] = []
        while (batch := reader.take(7, SOON)) is not None:
            if not taken:
                # Each has some: neither empties the queue before the other has begun.
                together.wait(PATIENCE_SECONDS)
            taken += bodies(batch)
            reader.acknowledge(batch)
        return taken

    with Threads(2) as pool:
        first, second = pool.map(read, [source(), source()])
    assert first and second
    assert sorted(first + second) == numbered(100, 300)


def test_other_brokers_are_read_in_order_in_batches_and_acknowledged_by_kombu(settings: Settings) -> None:
    queue = f"memory-{uuid4().hex}"
    on_memory = settings.model_copy(
        update={"broker_url": "memory://", "intake_queue": queue, "exchange": f"{queue}-exchange"}
    )
    with closing(open_source(on_memory)) as reader:
        assert isinstance(reader, KombuSource)
        assert reader.take(10, SOON) is None
        publish(on_memory, *numbered(0, 5))
        first, second = reader.take(3, PATIENCE_SECONDS), reader.take(3, PATIENCE_SECONDS)
        assert (bodies(first), bodies(second)) == (numbered(0, 3), numbered(3, 5))
        assert first is not None and second is not None
        assert first.messages[0].content_type == "application/json"
        reader.acknowledge(first)
        assert [message.acknowledged for message in (*first.receipt, *second.receipt)] == [True] * 3 + [
            False
        ] * 2
        assert reader.take(3, SOON) is None


# The intake


@contextmanager
def reading() -> Iterator[None]:
    """An intake of the current settings, in a thread."""
    running = intake().Intake(get_settings())
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield
    finally:
        running.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def letter_with(part: str) -> dict[str, Any] | None:
    found = rows(
        "SELECT * FROM dead_letters WHERE kind = 'intake' AND state = 'open' AND strpos(body, :part) > 0",
        part=part,
    )
    assert len(found) < 2
    return found[0] if found else None


def encoded(*events: MemoryObserved) -> bytes:
    return event_bodies.encode(events)


def test_what_is_no_message_of_kombus_is_kept_as_a_dead_letter_and_stops_nothing(
    settings: Settings, group: str, valkey: redis.Redis
) -> None:
    good = observed(group)
    publish(settings, encoded(good))
    mark = uuid4().hex
    garbage = [f"by hand {mark}-0", json.dumps([f"{mark}-1"]), json.dumps({"no body": f"{mark}-2"})]
    valkey.lpush(
        INTAKE_QUEUE,
        *garbage,
        b"\xff\x00\xfe" + f"{mark}-3".encode(),
        json.dumps({"body": {"a": f"{mark}-4"}}),
    )
    with reading():
        found = [until(lambda number=number: letter_with(f"{mark}-{number}")) for number in range(5)]
        until(lambda: nodes(group))
        until(lambda: not valkey.llen(INTAKE_QUEUE) and not held(valkey))
    assert [node["node_id"] for node in nodes(group)] == [good.event_id]
    assert all(letter["reason"] for letter in found)
    assert found[0]["body"] == garbage[0]
    assert "unknown" in found[0]["reason"]
    assert found[0]["group_id"] is None


def test_another_content_type_and_a_message_over_the_limit_are_refused_with_the_reason(
    settings: Settings, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large, pickled = observed(group), observed(group, "y" * 3_000), observed(group)
    body = encoded(large)
    monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 2_048)
    publish(settings, encoded(pickled), content_type="application/x-python-serialize")
    publish(settings, body, encoded(small))
    with reading():
        refused, too_large = [
            until(lambda event=event: letter_with(str(event.event_id))) for event in (pickled, large)
        ]
        until(lambda: nodes(group))
    assert "application/x-python-serialize" in refused["reason"]
    assert "application/json" in refused["reason"]
    assert (refused["subject_id"], refused["group_id"]) == (pickled.event_id, group)
    assert f"{len(body):,}" in too_large["reason"]
    assert "is larger than 2,048" in too_large["reason"]
    assert too_large["body"].encode() == body  # whole, so that it can be replayed
    assert stored(group) == [small.event_id]


def test_events_are_stored_whatever_their_priority_and_compression(settings: Settings, group: str) -> None:
    events = [observed(group, compression) for compression in ("gzip", "zlib", "bzip2", "lzma")]
    for event, priority in zip(events, (0, 3, 6, 9), strict=True):
        publish(settings, encoded(event), compression=event.payload.description, priority=priority)
    with reading():
        until(lambda: len(nodes(group)) == len(events))
    assert set(stored(group)) == {event.event_id for event in events}


def test_a_small_message_that_would_fill_the_memory_is_refused_with_the_limit(
    settings: Settings, group: str
) -> None:
    good, size = observed(group), 64 * 1024 * 1024
    for compression in ("gzip", "bzip2", "lzma"):
        publish(settings, b" " * size, compression=compression)
    publish(settings, encoded(good))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with reading():
        until(lambda: nodes(group))
        letters = until(lambda: len(found := rows(OF_NO_GROUP)) == 3 and found)
    assert all(f"is larger than {limits.MAX_MESSAGE_BYTES:,}" in letter["reason"] for letter in letters)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < size / 1024 / 2


def test_a_compressed_message_that_cannot_be_read_is_refused_with_the_reason(
    settings: Settings, group: str
) -> None:
    event = observed(group)
    whole = zlib.compress(encoded(event))
    wrong = {
        "application/x-gzip": [whole[:-5], whole + b"more", b"plain"],
        "application/x-unknown": [whole],
        "application/x-lzma": [whole],
    }
    for name, bodies_of in wrong.items():
        publish(settings, *bodies_of, headers={"compression": name})
    publish(settings, encoded(event))
    with reading():
        until(lambda: nodes(group))
        letters = until(lambda: len(found := rows(OF_NO_GROUP)) == 5 and found)
    reasons = [str(letter["reason"]) for letter in letters]
    assert sum("application/x-gzip" in reason for reason in reasons) == 3
    assert sum("gzip, bzip2 and lzma" in reason for reason in reasons) == 1


def test_one_bad_event_of_a_message_takes_no_other_along(settings: Settings, group: str) -> None:
    good = [observed(group, f"good {i}") for i in range(2)]
    bad = json.loads(encoded(observed(group)))
    bad["payload"]["poignancy"] = 11
    publish(
        settings, json.dumps({"events": [json.loads(encoded(good[0])), bad, json.loads(encoded(good[1]))]})
    )
    with reading():
        letter = until(lambda: letter_with(bad["event_id"]))
    assert letter["reason"].startswith("payload.poignancy:")
    assert [node["node_id"] for node in nodes(group)] == [event.event_id for event in good]


def test_a_database_that_is_away_is_waited_for_and_the_batch_is_stored_once(
    settings: Settings, group: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a collision with another intake, which starts the batch over, store anything twice."""
    original, in_hand, back, tried = inbox.store, list[int](), threading.Event(), threading.Event()
    collides = [True]

    def away_at_first(*arguments: Any) -> inbox.StoreResult:
        in_hand.append(held(valkey))
        if not back.is_set():
            if len(in_hand) > 1:
                tried.set()
            raise psycopg.OperationalError("gone")
        result = original(*arguments)
        if collides:
            collides.clear()
            raise inbox.CollisionError("meanwhile")
        return result

    monkeypatch.setattr(inbox, "store", away_at_first)
    event, unreadable = observed(group), f"unreadable {uuid4().hex}"
    publish(settings, encoded(event), unreadable)
    with reading():
        assert tried.wait(PATIENCE_SECONDS)
    assert held(valkey) == 2  # also of an intake that stops
    for alive in valkey.keys("jiyi:intake:alive:*"):
        valkey.delete(alive)
    with reading():
        back.set()
        until(lambda: nodes(group))
        until(lambda: not held(valkey))
    assert set(in_hand) == {2}  # on the broker all the while
    assert (stored(group), collides) == ([event.event_id], [])
    assert letter_with(str(event.event_id)) is None
    assert letter_with(unreadable) is not None  # once: what was rolled back is not there


# Storing


def with_payload(event: MemoryObserved, **changes: Any) -> MemoryObserved:
    """Past the checks of the wire, as a gap in them would let it through."""
    return event.model_copy(update={"payload": event.payload.model_copy(update=changes)})


def stored(group: str) -> list[UUID]:
    return [node["node_id"] for node in nodes(group)]


def check_stored_one_by_one(
    group: str, bad: MemoryObserved, good: Sequence[MemoryObserved]
) -> dict[str, Any]:
    unreadable = f"unreadable {uuid4().hex}"
    result = intake().store([good[0], bad, good[1]], [Rejected(unreadable, "not JSON")])
    assert result.events == 2
    assert len(rows("SELECT 1 FROM pending_work WHERE kind = 'embed' AND group_id = :g", g=group)) == 2
    assert stored(group) == [event.event_id for event in good]
    assert letter_with(unreadable) is not None
    letter = letter_with(str(bad.event_id))
    assert letter is not None
    assert letter["subject_id"] == bad.event_id
    assert letter["reason"].startswith("the database refused it")
    assert "Traceback" in letter["traceback"]
    assert json.loads(letter["body"])["event_id"] == str(bad.event_id)
    return letter


@pytest.mark.usefixtures("database")
def test_a_batch_the_database_or_its_driver_refuses_is_stored_one_by_one_and_the_bad_event_kept(
    group: str,
) -> None:
    bad = with_payload(observed(group), description="a NUL \x00 in a text")
    letter = check_stored_one_by_one(group, bad, [observed(group, "one"), observed(group, "two")])
    assert letter["group_id"] == group
    other = f"{group}-b"
    bad = observed(other).model_copy(update={"agent_id": "a\x00b"})
    check_stored_one_by_one(other, bad, [observed(other, "one"), observed(other, "two")])


def test_an_event_from_which_nothing_can_be_derived_is_kept_and_the_others_stored(
    settings: Settings, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = observed(group, "good"), observed(group, "bad")
    original = inbox.derive

    def broken(event: wire.MemoryObserved, source: MemorySource | None = None) -> Derived:
        if event.event_id == bad.event_id:
            raise ValueError("cannot be derived")
        return original(event, source)

    monkeypatch.setattr(inbox, "derive", broken)
    publish(settings, event_bodies.encode([bad, good]))
    with reading():
        letter = until(lambda: letter_with(str(bad.event_id)))
        until(lambda: nodes(group))
    assert "cannot be derived" in letter["reason"]
    assert [node["node_id"] for node in nodes(group)] == [good.event_id]


# Replay


@pytest.fixture
def own_queue(database: Stack) -> Iterator[Settings]:
    """As ``settings``, on the database where the tasks publish."""
    name = f"own-{uuid4().hex[:8]}"
    with intake_of_ones_own(name), environment(work_lease_seconds="30"):
        yield get_settings()


def replay(group: str, letter_id: UUID) -> Resolved:
    return actions.resolve_letters.perform(
        Actor(group, operator=True), ResolveBody(action="replay", letter_ids=[letter_id])
    )


def test_a_refused_event_is_stored_by_a_replay_once_the_limit_is_raised(
    own_queue: Settings, group: str
) -> None:
    event = observed(group, "x" * 3_000)
    body = encoded(event)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MAX_DESCRIPTION_CHARS", 2_000)
        publish(own_queue, body)
        with reading():
            letter = until(lambda: letter_with(str(event.event_id)))
        assert "3,000 characters are more than 2,000" in letter["reason"]
        assert replay(group, letter["letter_id"]) == Resolved(resolved=1, refused_again=1)
        second = letter_with(str(event.event_id))  # nothing was mended: it comes back as a new letter
        assert second is not None
        assert second["letter_id"] != letter["letter_id"]
        assert second["reason"] == letter["reason"]
    assert replay(group, second["letter_id"]) == Resolved(resolved=1)
    assert stored(group) == [event.event_id]
    assert letter_with(str(event.event_id)) is None
    states = rows("SELECT state FROM dead_letters WHERE subject_id = :id", id=event.event_id)
    assert [row["state"] for row in states] == ["replayed", "replayed"]


def test_a_replayed_event_that_arrived_meanwhile_is_stored_once(own_queue: Settings, group: str) -> None:
    event = observed(group)
    intake().store([], [Rejected(encoded(event).decode(), "a mistake of ours")])
    intake().store([event], [])
    letter = letter_with(str(event.event_id))
    assert letter is not None
    marker = observed(group, "after it")
    assert replay(group, letter["letter_id"]) == Resolved(resolved=1)
    publish(own_queue, encoded(marker))
    with reading():
        until(lambda: len(nodes(group)) == 2)
    assert stored(group) == [event.event_id, marker.event_id]
