"""jiyi.protocol.wire.broker: kombu's transport with one client a channel."""

from __future__ import annotations

import kombu
import redis

from jiyi.protocol.wire import broker  # noqa: F401 – registers it
from jiyi.protocol.wire.broker import Channel, RedisTransport


def test_redis_and_valkey_are_reached_by_it_and_other_brokers_are_not() -> None:
    ours = "rediss://localhost/0", "redis+socket:///tmp/v.sock?virtual_host=0"
    for address in (*ours, "amqp://localhost//"):
        made = kombu.Connection(address).get_transport_cls()
        assert issubclass(made, RedisTransport) is (address in ours)


def test_a_channel_has_one_client_as_long_as_its_connections_are_the_same() -> None:
    channel = Channel.__new__(Channel)  # without a server to greet
    channel.Client, channel._pool = redis.Redis, redis.ConnectionPool()
    with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
        assert first is second
    channel._pool = redis.ConnectionPool()  # as after an outage
    with channel.conn_or_acquire() as third:
        assert third is not first
        assert third.connection_pool is channel._pool
    channel._closed = True  # nothing to hang up
