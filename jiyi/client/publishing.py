"""Publishing events to the broker's exchange, durably and signed."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
from kombu.entity import TRANSIENT_DELIVERY_MODE
from kombu.exceptions import LimitExceeded, OperationalError
from kombu.pools import producers
from kombu.transport.virtual import Channel as VirtualChannel

from jiyi.errors import BrokerUnavailable, SettingsError
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.wire.broker import (
    CONNECT_RETRY,
    PUBLISH_TIMEOUTS,
    NotBoundError,
    exchange,
    intake_queue,
    read_bindings_only,
    restore_binding,
    stamp,
)
from jiyi.protocol.wire.calls import sentence_of_valkey, state_of_valkey
from jiyi.protocol.wire.signatures import KeyText, key_headers, service_headers
from jiyi.settings import Settings

#: Seconds between two looks for the queue of events.
BOUND_POLL = 0.1
PUBLISH_RETRY = {"max_retries": 2, "interval_start": 0.1, "interval_step": 0.2}  # seconds


def _connection(settings: Settings, **options: bool) -> kombu.Connection:
    seconds = settings.publish_timeout
    transport_options = {"socket_connect_timeout": seconds, **options, **CONNECT_RETRY, **PUBLISH_TIMEOUTS}
    try:
        return kombu.Connection(
            settings.need("broker_url"), connect_timeout=seconds, transport_options=transport_options
        )
    except (KeyError, ValueError) as error:
        raise SettingsError(f"JIYI_BROKER_URL: kombu knows no such broker: {error}") from None


class EventPublisher:
    """Publishes messages of events for a group. Thread-safe.

    Who has the service's secret and no key is the service, and declares exchange, queue and binding. Others
    only publish (docs/tenants.md).
    """

    def __init__(self, settings: Settings, group: str, key: KeyText | None) -> None:
        self._settings, self._group, self._key = settings, group, key
        self._declares = key is None and bool(settings.secret_key.get_secret_value())
        # RabbitMQ says that it has a message only if it is asked to (``confirm_publish``).
        self._connection = _connection(settings, socket_keepalive=True, confirm_publish=True)

    def publish(self, body: bytes, routing_key: str) -> None:
        """Raises :class:`BrokerUnavailable`; nothing was published then."""
        broken = (
            OperationalError,
            OSError,
            *self._connection.connection_errors,
            *self._connection.channel_errors,
        )
        try:
            with producers[self._connection].acquire(
                block=True, timeout=self._settings.publish_timeout
            ) as producer:
                publish = producer.connection.ensure(producer, self.publish_once, **PUBLISH_RETRY)
                self._until_bound(lambda: publish(producer, body, routing_key))
        except LimitExceeded:
            seconds = self._settings.publish_timeout
            raise BrokerUnavailable(
                f"for {seconds:g} s all of this program's connections to the broker were busy with other"
                " messages; nothing was published: publish from fewer threads, or several events at a time"
            ) from None
        except broken as error:
            hint = ". Is the service running?" if state_of_valkey(error) == "away" else ""
            raise BrokerUnavailable(
                f"the broker {sentence_of_valkey(error)}; nothing was published{hint}"
            ) from error

    def close(self) -> None:
        self._connection.release()

    def _until_bound(self, publish: Callable[[], object]) -> None:
        """A service that is starting, or a broker that lost its bindings, has them a moment later."""
        deadline = time.monotonic() + self._settings.publish_timeout
        while True:
            try:
                publish()
            except NotBoundError as error:
                if time.monotonic() > deadline:
                    raise BrokerUnavailable(
                        f"{error}; nothing was published. Is the service running?"
                    ) from error
                time.sleep(BOUND_POLL)
            else:
                return

    def publish_once(self, producer: kombu.Producer, body: bytes, routing_key: str) -> None:
        """Publish and wait for the broker's confirmation, without another try."""
        if self._declares:
            restore_binding(intake_queue(self._settings), producer.channel)
        if isinstance(producer.channel, VirtualChannel):
            read_bindings_only(producer.channel, intake_queue(self._settings))
        producer.publish(
            body,
            exchange=exchange(),
            routing_key=routing_key,
            content_type=CONTENT_TYPE,
            content_encoding="utf-8",
            delivery_mode="persistent",
            headers=stamp() | self.signature(body),
        )

    def signature(self, body: bytes) -> dict[str, str]:
        """The service itself (the demo, an import) signs where signatures are required and it has no key."""
        if self._key is not None:
            return key_headers(self._key, body)
        secret_key = self._settings.secret_key.get_secret_value()
        if self._settings.accept_unsigned == "none" and secret_key:
            return service_headers(secret_key, self._group, body)
        return {}


#: What follows from a task, in the body: nothing.
_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class TaskMessages:
    """Puts calls into the queues of tasks. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._connection = _connection(settings)
        self._origin = f"{os.getpid()}@{socket.gethostname()}"

    def send(
        self,
        task: str,
        task_id: str,
        queue: str,
        args: Sequence[Any],
        options: Mapping[str, Any],
        expires: float,
        headers: dict[str, Any],
    ) -> None:
        """Put a call of a task into a queue; no worker begins with it after ``expires`` seconds. Raises
        kombu's errors.
        """
        body = json.dumps((args, options, _NOTHING_FOLLOWS), separators=(",", ":"))
        with producers[self._connection].acquire(block=True, timeout=expires) as producer:
            self._declare(queue, producer)
            producer.publish(
                body.encode("ascii"),
                content_type="application/json",
                content_encoding="utf-8",
                exchange="",  # the default exchange: straight to the queue
                routing_key=queue,
                # worth nothing when its caller has given up: no broker need write it down
                delivery_mode=TRANSIENT_DELIVERY_MODE,
                expiration=expires,
                correlation_id=task_id,
                headers={
                    "lang": "py",
                    "task": task,
                    "id": task_id,
                    "root_id": task_id,
                    "parent_id": None,
                    "group": None,
                    "expires": (datetime.now(UTC) + timedelta(seconds=expires)).isoformat(),
                    "retries": 0,
                    "origin": self._origin,
                    "ignore_result": True,
                    **headers,
                },
            )

    def close(self) -> None:
        self._connection.release()

    def _declare(self, name: str, producer: kombu.Producer) -> None:
        """A queue of tasks, as workers declare it: once a connection."""
        channel = producer.channel  # connects, which forgets what was declared before
        declared = producer.connection.declared_entities
        if name not in declared:
            kombu.Queue(name, kombu.Exchange(name, type="direct"), routing_key=name)(channel).declare()
            declared.add(name)
