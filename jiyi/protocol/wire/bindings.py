"""Which queues the exchange of events delivers to, where kombu keeps that itself: on Redis and Valkey, in a set that it reads at each
publication.

The service declares its binding; programs that publish only read it, so that they need no right to write there. What else is in
the set is not believed: a member that is no binding would end every publication with a ``ValueError``, one with a pattern of its own
could take for ever to match.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from kombu import Queue
from kombu.transport.virtual.exchange import TopicExchange
from redis import ResponseError

log = logging.getLogger(__name__)

#: Longest routing key of a binding, in bytes, and most wildcards in it: matching stays linear in practice.
MAX_ROUTING_KEY, MAX_WILDCARDS = 128, 3
_TOPIC = TopicExchange(None)

#: Routing key, its pattern, queue: as kombu has it.
Binding = tuple[str, str, str]


class NotBoundError(Exception):
    """The exchange delivers to no queue of events."""


def read_bindings_only(channel: Any, queue: Queue) -> None:
    """Let a channel publish to the queue's exchange without declaring anything on the broker, and without trusting its bindings.

    A publication raises :class:`NotBoundError` as long as the exchange has no such queue: kombu would drop the message.
    """
    queue.exchange(channel).declare()  # in this process only: Redis knows no exchanges
    if hasattr(channel, "keyprefix_queue"):
        channel.get_table = partial(_table, channel, queue.name)
        channel._put = partial(_put, channel, queue.name)  # noqa: SLF001 – what kombu has its transports implement


def member_of(queue: Queue, separator: str) -> str:
    """The queue's binding as kombu writes it."""
    return separator.join(_TOPIC.prepare_bind(queue.name, queue.exchange.name, queue.routing_key, None))


def _table(channel: Any, wanted: str, exchange: str) -> list[Binding]:
    with channel.conn_or_acquire() as client:
        members = client.smembers(channel.keyprefix_queue % exchange)
    bindings = [binding for binding in (_binding(member, channel.sep) for member in members) if binding is not None]
    if not any(queue == wanted for _, _, queue in bindings):
        raise NotBoundError(f"the exchange {exchange!r} has no queue {wanted!r} yet, which the service declares when it starts")
    return bindings


def _put(channel: Any, wanted: str, queue: str, message: Any, **options: Any) -> None:
    """A queue that somebody else has bound gets its copy if it can; it keeps no event from the service."""
    try:
        type(channel)._put(channel, queue, message, **options)  # noqa: SLF001
    except ResponseError as error:
        if queue == wanted:
            raise
        log.warning("the queue %r, which is bound to the exchange of events, got no copy: %s", queue, error)


def _binding(member: bytes | str, separator: str) -> Binding | None:
    """What a member of the set says, if it is a binding. Its pattern is made anew."""
    text = member.decode("utf-8", "replace") if isinstance(member, bytes) else member
    parts = text.split(separator)
    if len(parts) != 3:
        return None
    routing_key, _, queue = parts
    if not queue or len(routing_key) > MAX_ROUTING_KEY or sum(map(routing_key.count, "*#")) > MAX_WILDCARDS:
        return None
    return routing_key, _TOPIC.key_to_pattern(routing_key), queue
