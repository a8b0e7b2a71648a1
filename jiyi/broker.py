"""The exchange and the queue of events, declared the same by whoever publishes and whoever reads."""

from __future__ import annotations

from kombu import Exchange, Queue

from jiyi.settings import Settings


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
