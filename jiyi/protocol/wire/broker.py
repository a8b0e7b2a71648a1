"""The exchange and the queue of events, declared the same by whoever publishes and whoever reads."""

from __future__ import annotations

import time
from typing import Any

import redis
from amqp.exceptions import AMQPError
from kombu import Exchange, Queue
from kombu.common import maybe_declare
from kombu.exceptions import OperationalError
from kombu.transport.virtual import Channel as VirtualChannel

from jiyi.protocol.wire import redis_transport
from jiyi.settings import Settings

redis_transport.register()  # here, where everything comes by that speaks to a broker

#: What a broker that is away raises, whichever it is: kombu wraps some of it, and not all.
BROKER_ERRORS: tuple[type[Exception], ...] = (OperationalError, AMQPError, redis.RedisError, OSError)

#: How long a connection is tried: kombu's own intervals are seconds. For ``transport_options``.
CONNECT_RETRY = {"max_retries": 1, "interval_start": 0.1, "interval_step": 0.2, "interval_max": 0.5}

#: Seconds for which RabbitMQ's answer is awaited, or for it to take what is sent: one that is just starting, or ending, may have
#: accepted a connection and never answer. For ``transport_options``; what Redis's transport waits for has names of its own.
AMQP_TIMEOUTS = {"read_timeout": 30.0, "write_timeout": 30.0}

#: Header of every message: when it was sent, in epoch seconds by the sender's clock.
PUBLISHED_AT = "published_at"


def stamp() -> dict[str, float]:
    """Headers of a message that is sent now."""
    return {PUBLISHED_AT: time.time()}


def exchange(settings: Settings) -> Exchange:
    """A durable topic exchange: the routing key is the event's type."""
    return Exchange(settings.exchange, type="topic", durable=True)


def intake_queue(settings: Settings) -> Queue:
    """The queue of all events. Runs unchanged on RabbitMQ, there as a quorum queue."""
    return Queue(
        settings.intake_queue,
        exchange(settings),
        routing_key="#",
        durable=True,
        queue_arguments={"x-queue-type": "quorum"} if settings.broker_url.startswith("amqp") else None,
    )


def restore_binding(queue: Queue, channel: Any) -> None:
    """Declare the queue if that was not done on this connection, and bind it in any case.

    A broker that lost its bindings (Redis restarted without its files, FLUSHDB) drops what is published without
    a word, and kombu, which remembers what it bound, would not bind again.
    """
    maybe_declare(queue, channel)
    if isinstance(channel, VirtualChannel):
        channel.state.queue_bindings_delete(queue.name)
    queue(channel).queue_bind()
