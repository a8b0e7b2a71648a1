"""The broker as a client's transport: events to the exchange, calls to Celery's queues, answers and news from Valkey."""

from __future__ import annotations

from collections.abc import Iterator

from jiyi.client.caller import Caller
from jiyi.client.publishing import EventPublisher
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.wire.calls import News, json_of
from jiyi.protocol.wire.signatures import KeyText
from jiyi.settings import Settings


class BrokerTransport:
    """A :class:`jiyi.client.transport.Transport` over the deployment's broker and Valkey."""

    #: Connecting and publishing have tries of their own.
    retries: tuple[float, ...] = ()

    def __init__(self, settings: Settings, group: str, key: KeyText | None) -> None:
        self.group, self.patience = group, settings.patience_seconds
        self.caller = Caller(settings, key)
        self.publisher = EventPublisher(settings, group, key)

    def publish(self, body: bytes, routing_key: str) -> None:
        self.publisher.publish(body, routing_key)

    def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        return json_of(self.caller.send(name, queue, request, timeout))

    def watch(self, after: str | None) -> Iterator[News]:
        return self.caller.news(self.group, after)

    def close(self) -> None:
        self.caller.close()
        self.publisher.close()
