"""Publishing as a program that the broker allows nothing else, beside one that means harm."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from kombu.transport.redis import Channel

from jiyi import Client
from jiyi.client.caller import Caller
from jiyi.errors import BrokerUnavailable
from jiyi.protocol.base import Paged
from jiyi.protocol.wire.broker import intake_queue, member_of
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.intake.sources import open_source

CHECKOUT = Path(__file__).resolve().parents[3]
BINDINGS = "_kombu.binding.memory.events"
#: Not the one that running workers use.
OWN_DATABASE = 9


@pytest.fixture
def broker(database: Stack) -> Iterator[redis.Redis]:
    """A broker without a service, apart from others; ``JIYI_BROKER_URL`` is its producer's, as
    docs/tenants.md describes them.
    """
    assert database.urls is not None
    (command,) = re.findall(
        r"^ACL SETUSER (.*)$", (CHECKOUT / "docs" / "tenants.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    name, *rules = command.split()
    own = database.urls.broker_url.replace("virtual_host=0", f"virtual_host={OWN_DATABASE}")
    with redis.Redis.from_url(database.urls.redis_url.replace("db=0", f"db={OWN_DATABASE}")) as valkey:
        valkey.flushdb()
        valkey.execute_command("ACL", "SETUSER", name, "reset", *rules)
        try:
            with environment(broker_url=own):
                open_source(get_settings()).close()  # the service was here
            with environment(
                broker_url=own.replace("://", f"://{name}:PASSWORD@", 1),
                request_timeout="60",
                key=str(new_key()),
            ):
                yield valkey
        finally:
            valkey.execute_command("ACL", "DELUSER", name)
            valkey.flushdb()


def published(broker: redis.Redis) -> int:
    return int(broker.llen("memory.intake"))  # type: ignore[arg-type]


def test_a_producer_publishes_and_can_do_nothing_else(broker: redis.Redis, group: str) -> None:
    with Client(group) as client:
        client.observe("a", "hello")
        client.observe_many([{"agent_id": "a", "description": f"hello {number}"} for number in range(3)])
        assert published(broker) == 2
        for queue in ("inspection", "upkeep", "embedding"):
            with pytest.raises(BrokerUnavailable, match=r"(?i)no permissions"):
                Caller(client.settings).act("agents.list", queue, group, Paged(), 1)
            assert broker.llen(queue) == 0
    address = get_settings().broker_url.replace("redis+socket", "unix").replace("virtual_host", "db")
    with redis.Redis.from_url(address) as producer:
        for command in (
            f"SADD {BINDINGS} x",
            f"SREM {BINDINGS} x",
            f"DEL {BINDINGS}",
            f"SET {BINDINGS} x",
            "LPUSH actions x",
            "LPUSH jiyi:reply:1 x",
            "LRANGE memory.intake 0 -1",
            "RPOP memory.intake",
            "DEL memory.intake",
            "KEYS *",
            "SMEMBERS jiyi:access",
            "FLUSHALL",
            "CONFIG GET *",
            "SCRIPT FLUSH",
            "EVAL 1 0",
            "PUBLISH /0.celery.pidbox x",
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                producer.execute_command(*command.split())


def test_what_a_hostile_program_writes_among_the_bindings_stops_nobody(
    broker: redis.Redis, group: str
) -> None:
    for place, member in enumerate(
        (
            b"no separators at all",
            b"#\x06\x16.*\x06\x16q\x06\x16and one more",
            b"\xff\xfe\x06\x16\xff\x06\x16\xff",
            b"",
            b"\x06\x16\x06\x16",
            b"#\x06\x16(\x06\x16somebodys",
            b"#\x06\x16(a+)+$\x06\x16somebodys",
            b".".join([b"#"] * 60) + b"\x06\x16.*\x06\x16somebodys",
        )
    ):
        broker.sadd(BINDINGS, member)
        with Client(group) as client:
            client.observe("a", "hello")
        with environment(key="", broker_url=_service_address()), Client(group) as service:
            service.observe("a", "hello again")  # the service's own programs read it, too
        assert published(broker) == 2 * (place + 1), member
        broker.srem(BINDINGS, member)


def test_a_queue_that_others_have_bound_gets_its_copy(broker: redis.Redis, group: str) -> None:
    broker.sadd(BINDINGS, b"memory.*\x06\x16^memory\\.[^\\.]+$\x06\x16audit")
    with environment(key="", broker_url=_service_address()), Client(group) as client:
        client.observe("a", "hello")
        client.configure("a", mode="elapsed")
    assert (published(broker), broker.llen("audit")) == (2, 1)


def test_without_a_binding_nothing_is_dropped_without_a_word(broker: redis.Redis, group: str) -> None:
    broker.delete(BINDINGS)
    with (
        environment(request_timeout="0.6"),
        Client(group) as client,
        pytest.raises(BrokerUnavailable, match="nothing was published"),
    ):
        client.observe("a", "hello")
    assert published(broker) == 0


def test_a_producer_waits_for_the_service_to_bind_its_queue_anew(broker: redis.Redis, group: str) -> None:
    broker.delete(BINDINGS)
    began = threading.Event()

    def bind() -> None:
        began.wait()
        time.sleep(0.2)
        broker.sadd(BINDINGS, member_of(intake_queue(get_settings()), Channel.sep))

    service = threading.Thread(target=bind)
    service.start()
    with Client(group) as client:
        began.set()
        client.observe("a", "hello")
    service.join()
    assert published(broker) == 1


def test_an_intake_binds_its_queue_again_and_again(broker: redis.Redis) -> None:
    with environment(broker_url=_service_address()):
        source = open_source(get_settings())
        for _ in range(2):
            broker.delete(BINDINGS)
            assert source.take(1, 0.01) is None
            assert broker.smembers(BINDINGS) == {
                member_of(intake_queue(get_settings()), Channel.sep).encode()
            }
        source.close()


def _service_address() -> str:
    return re.sub(r"://[^/@]*@", "://", get_settings().broker_url)
