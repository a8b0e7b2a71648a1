"""The exchange and the queue of events, and kombu's transport for Redis and Valkey with less to do a message.

There kombu keeps an exchange's bindings in a set that it reads at each publication. The service declares its
binding; publishers only read the set, and need no right to write there. What else is in it is not believed:
it could end every publication with a ``ValueError``, or take for ever to match.

kombu makes a client of redis-py for each command, which takes as long as ten commands; here one is kept. It
keeps what is delivered in two keys until it is acknowledged, two trips a message; a transient message
(delivery mode 1) is worth nothing by then, and is kept in memory alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from amqp.exceptions import AMQPError
from kombu import Exchange, Queue
from kombu.common import maybe_declare
from kombu.entity import TRANSIENT_DELIVERY_MODE
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from kombu.transport.virtual import Channel as VirtualChannel
from kombu.transport.virtual.exchange import TopicExchange
from redis import RedisError, ResponseError

from jiyi import tracing
from jiyi.settings import Settings

log = logging.getLogger(__name__)

#: What a broker that is away raises, whichever it is: kombu wraps some of it, and not all.
BROKER_ERRORS: tuple[type[Exception], ...] = (OperationalError, AMQPError, RedisError, OSError)

#: How long a connection is tried: kombu's own intervals are seconds. For ``transport_options``.
CONNECT_RETRY = {"max_retries": 1, "interval_start": 0.1, "interval_step": 0.2, "interval_max": 0.5}

#: Seconds for which RabbitMQ's answer is awaited, or for it to take what is sent: one that is just starting,
#: or ending, may have accepted a connection and never answer. For ``transport_options``; what Redis's
#: transport waits for has names of its own.
AMQP_TIMEOUTS = {"read_timeout": 30.0, "write_timeout": 30.0}
#: The same for who publishes, whichever the broker is: a Valkey that hangs is waited for so long. Who reads
#: blocks for longer.
PUBLISH_TIMEOUTS = {"socket_timeout": 5.0, **AMQP_TIMEOUTS}

#: The durable topic exchange that events are published to, and the durable queue that the intake reads.
#: Installations that share a broker take a virtual host (RabbitMQ) or a database (Valkey) each: the queues of
#: tasks have fixed names, too.
EXCHANGE, INTAKE_QUEUE = "memory.events", "memory.intake"

#: Header of every message: when it was sent, in epoch seconds by the sender's clock.
PUBLISHED_AT = "published_at"


def stamp() -> dict[str, Any]:
    """Headers of a message that is sent now: the time, and what trace it is of."""
    return {PUBLISHED_AT: time.time(), **tracing.headers()}


def exchange() -> Exchange:
    """A durable topic exchange: the routing key is the event's type."""
    return Exchange(EXCHANGE, type="topic", durable=True)


def intake_queue(settings: Settings) -> Queue:
    """The queue of all events. Runs unchanged on RabbitMQ, there as a quorum queue."""
    return Queue(
        INTAKE_QUEUE,
        exchange(),
        routing_key="#",
        durable=True,
        queue_arguments={"x-queue-type": "quorum"} if settings.broker_url.startswith("amqp") else None,
    )


def restore_binding(queue: Queue, channel: Any) -> None:
    """Declare the queue if that was not done on this connection, and bind it in any case.

    A broker that lost its bindings (Redis restarted without its files, FLUSHDB) drops what is published
    without a word, and kombu, which remembers what it bound, would not bind again.
    """
    maybe_declare(queue, channel)
    if isinstance(channel, VirtualChannel):
        channel.state.queue_bindings_delete(queue.name)
    queue(channel).queue_bind()


class QoS(redis.QoS):  # type: ignore[misc]  # kombu has no types
    """kombu's, which writes down what is delivered and not acknowledged; but for transient messages.

    A message that cannot be acknowledged, because the server is away, is no longer counted as in hand; it is
    delivered again after ``visibility_timeout``, as that of a worker that died. kombu counts it for ever: a
    worker whose tasks all ended during an outage then has no room for another message, reads its connection
    no more, and never notices that it is lost.
    """

    def append(self, message: Any, delivery_tag: str) -> None:
        if _is_transient(message):
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        if _is_transient(self._delivered.get(delivery_tag)):
            virtual.QoS.ack(self, delivery_tag)
            return
        with self._counted_as_settled(delivery_tag):
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        with self._counted_as_settled(delivery_tag):
            super().reject(delivery_tag, requeue)

    @contextmanager
    def _counted_as_settled(self, delivery_tag: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)  # in this process alone
            raise

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:
        """Put a message back: a worker that stops in good order has some that it did not begin with."""
        message = self._delivered.get(tag)
        if not _is_transient(message):
            super().restore_by_tag(tag, client, leftmost)
            return
        came_by = message.delivery_info
        with self.channel.conn_or_acquire(client) as connected, connected.pipeline() as pipe:
            raw = message._raw  # noqa: SLF001
            restore = self.channel._do_restore_message  # noqa: SLF001
            restore(raw, came_by["exchange"], came_by["routing_key"], pipe, leftmost)
            pipe.execute()


def _is_transient(message: Any) -> bool:
    return message is not None and message.properties.get("delivery_mode") == TRANSIENT_DELIVERY_MODE


class Channel(redis.Channel):  # type: ignore[misc]
    """kombu's, with one client, which is thread-safe, for all commands that wait for their answer."""

    QoS = QoS
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous=True)
        client = self._kept
        if (
            client is None or client.connection_pool is not self.pool
        ):  # after an outage the channel has a new pool
            client = self._kept = super()._create_client()
        return client


class RedisTransport(redis.Transport):  # type: ignore[misc]
    """kombu's, with such channels."""

    Channel = Channel


def register() -> None:
    """What kombu connects with from now on, in this process, to a Redis or Valkey (one behind sentinels keeps
    kombu's own).

    By name, because kombu's pools make their connections from an address.
    """
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{RedisTransport.__name__}"


#: Longest routing key of a binding, in bytes, and most wildcards in it: matching stays linear in practice.
MAX_ROUTING_KEY, MAX_WILDCARDS = 128, 3
_TOPIC = TopicExchange(None)

#: Routing key, its pattern, queue: as kombu has it.
Binding = tuple[str, str, str]


class NotBoundError(Exception):
    """The exchange delivers to no queue of events."""


def read_bindings_only(channel: Any, queue: Queue) -> None:
    """Let a channel publish to the queue's exchange without declaring anything on the broker, and without
    trusting its bindings.

    A publication raises :class:`NotBoundError` as long as the exchange has no such queue: kombu would drop
    the message.
    """
    queue.exchange(channel).declare()  # in this process only: Redis knows no exchanges
    if hasattr(channel, "keyprefix_queue"):
        channel.get_table = partial(_table, channel, queue.name)
        # What kombu has its transports implement.
        channel._put = partial(_put, channel, queue.name)  # noqa: SLF001


def member_of(queue: Queue, separator: str) -> str:
    """The queue's binding as kombu writes it."""
    return separator.join(_TOPIC.prepare_bind(queue.name, queue.exchange.name, queue.routing_key, None))


def _table(channel: Any, target: str, exchange: str) -> list[Binding]:
    with channel.conn_or_acquire() as client:
        members = client.smembers(channel.keyprefix_queue % exchange)
    bindings = [
        binding for binding in (_binding(member, channel.sep) for member in members) if binding is not None
    ]
    if not any(queue == target for _, _, queue in bindings):
        raise NotBoundError(
            f"the exchange {exchange!r} has no queue {target!r} yet, which the service declares when it"
            " starts"
        )
    return bindings


def _put(channel: Any, target: str, queue: str, message: Any, **options: Any) -> None:
    """A queue that somebody else has bound gets its copy if it can; it keeps no event from the service."""
    try:
        type(channel)._put(channel, queue, message, **options)  # noqa: SLF001
    except ResponseError as error:
        if queue == target:
            raise
        log.warning("the queue %r, which is bound to the exchange of events, got no copy: %s", queue, error)


def _binding(member: bytes | str, separator: str) -> Binding | None:
    """The binding that a member of the set says, if it is one. Its pattern is computed again."""
    text = member.decode("utf-8", "replace") if isinstance(member, bytes) else member
    parts = text.split(separator)
    if len(parts) != 3:
        return None
    routing_key, _, queue = parts
    if not queue or len(routing_key) > MAX_ROUTING_KEY or sum(map(routing_key.count, "*#")) > MAX_WILDCARDS:
        return None
    return routing_key, _TOPIC.key_to_pattern(routing_key), queue


register()  # wherever something speaks to a broker, it imports this module
