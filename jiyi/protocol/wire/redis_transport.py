"""kombu's transport for Redis and Valkey, with less to do for each message.

kombu makes a client of redis-py for each command, which takes as long as ten commands; here one is kept. And what is delivered it keeps in
two keys until it is acknowledged, so that another worker gets it if this one dies: two trips for each message. A transient message
(AMQP's delivery mode 1) is worth nothing by then, and is kept in memory alone.
"""

from __future__ import annotations

from typing import Any

from kombu.entity import TRANSIENT_DELIVERY_MODE
from kombu.transport import TRANSPORT_ALIASES, redis, virtual


class QoS(redis.QoS):  # type: ignore[misc]  # kombu has no types
    """kombu's, which writes down what is delivered and not acknowledged; but for transient messages."""

    def append(self, message: Any, delivery_tag: str) -> None:
        if _is_transient(message):
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        if _is_transient(self._delivered.get(delivery_tag)):
            virtual.QoS.ack(self, delivery_tag)
        else:
            super().ack(delivery_tag)

    def restore_by_tag(self, tag: str, client: Any = None, leftmost: bool = False) -> None:
        """Put a message back into its queue: a worker that stops in good order has some that it did not begin with."""
        message = self._delivered.get(tag)
        if not _is_transient(message):
            super().restore_by_tag(tag, client, leftmost)
            return
        came_by = message.delivery_info
        with self.channel.conn_or_acquire(client) as connected, connected.pipeline() as pipe:
            self.channel._do_restore_message(message._raw, came_by["exchange"], came_by["routing_key"], pipe, leftmost)  # noqa: SLF001 – kombu's
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
        kept = self._kept
        if kept is None or kept.connection_pool is not self.pool:  # after an outage the channel has a new pool
            kept = self._kept = super()._create_client()
        return kept


class Transport(redis.Transport):  # type: ignore[misc]
    """kombu's, with such channels."""

    Channel = Channel


def register() -> None:
    """What kombu connects with from now on, in this process, to a Redis or Valkey (one behind sentinels keeps kombu's own).

    By name, because kombu's pools make their connections from an address.
    """
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"
