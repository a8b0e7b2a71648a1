"""What a client needs of the way to the service. The broker's way is :mod:`jiyi.client.broker`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from jiyi.protocol.base import JsonMapping
from jiyi.protocol.wire.calls import News


class Transport(Protocol):
    """Carries events and calls. Implementations are thread-safe."""

    #: Seconds before each further try of what may be tried again, if the service cannot be reached.
    retries: tuple[float, ...]
    #: Seconds for which what is refused with :class:`jiyi.errors.TooManyQuestions` is sent again.
    patience: float

    def publish(self, body: bytes, routing_key: str) -> None:
        """Hand over one message of events (:func:`jiyi.protocol.event_bodies.messages`), durably.

        Raises:
            BrokerUnavailable: nothing was published.
        """

    def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        """The answer to a request, as JSON.

        Args:
            name: of the action or question.
            queue: the Celery queue that answers it; a transport that does not speak to Celery ignores it.
            request: JSON.
            timeout: seconds; None: the deployment's request time-out.

        Raises:
            BrokerUnavailable: the service cannot be reached.
            NoAnswer: nothing came back in time.
            JiyiError: what the service answered instead, as the class of its code.
        """

    def watch(self, after: str | None) -> Iterator[News]:
        """What changes in the group, as it changes: after the news with this id, or from now on. Ends with the connection.

        Raises:
            BrokerUnavailable: the service cannot be reached, or no longer.
        """

    def close(self) -> None:
        """Release the connections."""


class AsyncTransport(Protocol):
    """The same in asyncio: of one event loop, with many calls under way at a time, each of which may be cancelled."""

    retries: tuple[float, ...]
    patience: float

    async def publish(self, body: bytes, routing_key: str) -> None:
        """As :meth:`Transport.publish`."""

    async def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        """As :meth:`Transport.call`."""

    def watch(self, after: str | None) -> AsyncIterator[News]:
        """As :meth:`Transport.watch`."""

    async def close(self) -> None:
        """Release the connections."""
