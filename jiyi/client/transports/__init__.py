"""What a client needs of the way to the service. The broker's way is :mod:`jiyi.client.transports.broker`."""

from __future__ import annotations

from typing import Any, Protocol


class Transport(Protocol):
    """Carries events and calls. Implementations are thread-safe."""

    def publish(self, body: bytes, routing_key: str) -> None:
        """Hand over one message of events (:func:`jiyi.protocol.events.messages`), durably.

        Raises:
            BrokerUnavailable: nothing was published.
        """

    def call(self, name: str, queue: str, request: dict[str, Any], timeout: float | None) -> bytes:
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

    def close(self) -> None:
        """Release the connections."""
