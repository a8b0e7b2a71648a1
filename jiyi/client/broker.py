"""The broker as a client's transport: events to the exchange, calls to Celery's queues, answers from Valkey.

kombu has no asyncio: what is sent goes through one thread a client, in order, within a fraction of a
millisecond; answers and live events are awaited on Valkey's own client.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from redis.asyncio import Redis

from jiyi.client.caller import (
    CALLS_AT_ONCE,
    WAIT_SLICE,
    AsyncCallSlots,
    Caller,
    connecting,
    entries_of,
    newest_of,
    no_answer,
    translate_broker_errors,
)
from jiyi.client.publishing import EventPublisher
from jiyi.client.steps import PATIENCE_SECONDS
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.wire.calls import STREAM_KEY, LiveEvent, json_of
from jiyi.protocol.wire.signatures import KeyText
from jiyi.settings import Settings

T = TypeVar("T")


class _Broker:
    """What both transports send with."""

    #: Connecting and publishing have tries of their own.
    retries: tuple[float, ...] = ()
    patience: float = PATIENCE_SECONDS

    def __init__(self, settings: Settings, group: str, key: KeyText | None) -> None:
        self.group = group
        self.caller = Caller(settings, key)
        self.publisher = EventPublisher(settings, group, key)


class BrokerTransport(_Broker):
    """A :class:`jiyi.client.steps.Transport` over the deployment's broker and Valkey."""

    def publish(self, body: bytes, routing_key: str) -> None:
        self.publisher.publish(body, routing_key)

    def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        return json_of(self.caller.send(name, queue, request, timeout))

    def watch(self, after: str | None) -> Iterator[LiveEvent]:
        return self.caller.live_events(self.group, after)

    def close(self) -> None:
        self.caller.close()
        self.publisher.close()


class AsyncBrokerTransport(_Broker):
    """A :class:`jiyi.client.steps.AsyncTransport` over the deployment's broker and Valkey."""

    def __init__(self, settings: Settings, group: str, key: KeyText | None) -> None:
        super().__init__(settings, group, key)
        self._redis: Redis = Redis.from_url(settings.need("redis_url"), **connecting(settings))
        self._turns = AsyncCallSlots(min(CALLS_AT_ONCE, self._redis.connection_pool.max_connections))
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="jiyi-send")

    async def publish(self, body: bytes, routing_key: str) -> None:
        await self._send(lambda: self.publisher.publish(body, routing_key))

    async def call(self, name: str, queue: str, request: JsonMapping, timeout: float | None) -> bytes:
        wait = self.caller.wait(timeout)
        async with self._turns.one(name, wait) as seconds:
            with translate_broker_errors():
                key = await self._send(lambda: self.caller.post(name, queue, request, seconds))
                reply = await self._await(key, seconds)
        if reply is None:
            raise no_answer(name, queue, wait)
        return json_of(reply)

    async def watch(self, after: str | None) -> AsyncIterator[LiveEvent]:
        key = f"{STREAM_KEY}{self.group}"
        with translate_broker_errors():
            place = after or newest_of(await self._redis.xrevrange(key, count=1))
            while True:
                for entry in entries_of(await self._redis.xread({key: place}, block=int(WAIT_SLICE * 1_000))):
                    place = entry.id
                    yield entry

    async def close(self) -> None:
        await self._redis.aclose()
        self._sender.shutdown(wait=False)
        self.caller.close()
        self.publisher.close()

    async def _send(self, send: Callable[[], T]) -> T:
        """Have the thread send it; what is cancelled before its turn is not sent."""
        return await asyncio.get_running_loop().run_in_executor(
            self._sender, contextvars.copy_context().run, send
        )

    async def _await(self, key: str, wait: float) -> bytes | str | None:
        """In slices, so that a dead connection is noticed long before a long wait is over."""
        deadline = time.monotonic() + wait
        while (seconds := deadline - time.monotonic()) > 0:
            entry: Any = await self._redis.blpop([key], timeout=min(seconds, WAIT_SLICE))
            if entry is not None:
                reply: bytes | str = entry[1]
                return reply
        return None
