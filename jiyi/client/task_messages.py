"""Calls as messages that Celery's workers take (its message protocol 2), sent by kombu alone.

Celery's own ``send_task`` looks for routes, signals, events, a parent task and a backend of results, none of which a call has, and takes
longer over them than kombu over the message.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
from kombu.entity import TRANSIENT_DELIVERY_MODE
from kombu.pools import producers

from jiyi.errors import SettingsError
from jiyi.protocol.wire.broker import CONNECT_RETRY
from jiyi.settings import Settings

#: What follows from a task, in the body: nothing.
_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class TaskMessages:
    """Puts calls into the queues of tasks. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        try:
            self._connection = kombu.Connection(
                settings.need("broker_url"),
                connect_timeout=settings.publish_timeout,
                transport_options={"socket_connect_timeout": settings.publish_timeout, **CONNECT_RETRY},
            )
        except (KeyError, ValueError) as error:
            raise SettingsError(f"JIYI_BROKER_URL: kombu knows no such broker: {error}") from None
        self._origin = f"{os.getpid()}@{socket.gethostname()}"

    def send(
        self, task: str, task_id: str, queue: str, args: Sequence[Any], options: Mapping[str, Any], expires: float, headers: dict[str, Any]
    ) -> None:
        """Put a call of a task into a queue; no worker begins with it after ``expires`` seconds.

        Raises what kombu raises; ``LimitExceeded`` if all connections are busy for as long.
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
                delivery_mode=TRANSIENT_DELIVERY_MODE,  # worth nothing when its caller has given up: no broker need write it down
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
