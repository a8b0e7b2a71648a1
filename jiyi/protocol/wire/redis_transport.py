"""kombu's transport for Redis and Valkey, which makes a client of redis-py for each command, with one that is kept.

To make one takes as long as ten commands: a quarter of a millisecond for each message sent, taken and acknowledged.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis


class Channel(redis.Channel):  # type: ignore[misc]  # kombu has no types
    """kombu's, with one client, which is thread-safe, for all commands that wait for their answer."""

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
