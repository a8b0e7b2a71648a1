"""Asking a worker and waiting for its answer: a Celery task out, an expiring Redis list back.

A list and ``BLPOP`` take a third of the time of Celery's result backend. Turns bound the calls of one client.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, TypedDict

import redis
from kombu.exceptions import LimitExceeded
from pydantic import BaseModel
from pydantic_core import from_json
from uuid6 import uuid7

from jiyi.client.publishing import TaskMessages
from jiyi.errors import BrokerUnavailable, NoAnswer, SettingsError
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.wire.broker import BROKER_ERRORS, stamp
from jiyi.protocol.wire.calls import (
    STREAM_KEY,
    LiveEvent,
    json_of,
    open_reply,
    reply_key,
    sentence_of_valkey,
    state_of_valkey,
)
from jiyi.protocol.wire.signatures import KeyText, signer_of
from jiyi.settings import Settings

#: Seconds of one blocking wait, below the socket's own time-out.
WAIT_SLICE = 2.0
SOCKET_TIMEOUT = 5.0
#: Connections that a client may open: turns bound those of calls, and each live stream holds one while
#: it is read. redis-py's own bound of 100 would refuse the next one instead of waiting.
CONNECTIONS = 2**31


class _Connecting(TypedDict):
    socket_connect_timeout: float
    socket_timeout: float
    max_connections: int


def connecting(settings: Settings) -> _Connecting:
    """How a client connects to Valkey; the address may say otherwise."""
    return {
        "socket_connect_timeout": settings.publish_timeout,
        "socket_timeout": SOCKET_TIMEOUT,
        "max_connections": CONNECTIONS,
    }


@contextmanager
def translate_broker_errors() -> Iterator[None]:
    """What broker or Valkey raise, in a sentence: as :class:`BrokerUnavailable`."""
    try:
        yield
    except BROKER_ERRORS as error:
        hint = "; is the service running?" if state_of_valkey(error) == "away" else ""
        raise BrokerUnavailable(f"the broker or Valkey {sentence_of_valkey(error)}{hint}") from error


def no_answer(task: str, queue: str, wait: float) -> NoAnswer:
    """Nobody answered in time."""
    return NoAnswer(f"no answer to {task} within {wait:g} s: is a worker for the queue {queue!r} running?")


def newest_of(entries: Any) -> str:
    """The id of a stream's last entry, as XREVRANGE gives it; what is before all others if there is none."""
    return str(entries[0][0].decode()) if entries else "0-0"


def entries_of(streams: Any) -> Iterator[LiveEvent]:
    """The entries of one stream, as XREAD gives them: pairs, or a dictionary, as the protocol has it."""
    pages = (
        [page for pages in streams.values() for page in pages]
        if isinstance(streams, dict)
        else [page for _, page in streams or []]
    )
    for page in pages:
        for entry_id, fields in page:
            yield LiveEvent(
                id=entry_id.decode(), kind=fields[b"kind"].decode(), data=from_json(fields[b"data"])
            )


class Caller:
    """Sends calls, signed, and awaits their replies. Thread-safe.

    ``key`` is what they are signed with; the service's own secret, where it is known, unless given.
    """

    def __init__(self, settings: Settings, key: KeyText | None = None) -> None:
        self._settings, self._signer = settings, signer_of(settings, key)
        try:
            self._redis = redis.Redis.from_url(settings.need("redis_url"), **connecting(settings))
        except ValueError as error:
            raise SettingsError(f"JIYI_REDIS_URL: {error}") from None
        self._turns = CallSlots(min(CALLS_AT_ONCE, self._redis.connection_pool.max_connections))
        self._sender: TaskMessages | None = None
        self._lock = Lock()

    def call_for_json(
        self,
        task: str,
        queue: str,
        request: BaseModel,
        timeout: float | None = None,
        *,
        actor: str | None = None,
    ) -> bytes:
        """The reply's value as JSON, as the worker wrote it.

        ``actor``: for the audit log, given by the web, which has authenticated the caller.

        Raises:
            BrokerUnavailable: broker or Valkey cannot be reached.
            NoAnswer: nothing came back within ``timeout`` seconds.
            JiyiError: what the service answered instead, as the class of its code.
        """
        body = request.model_dump(mode="json", exclude_none=True)
        return json_of(self.send(task, queue, body, timeout, actor))

    def act(
        self,
        action: str,
        queue: str,
        group_id: str,
        request: BaseModel,
        timeout: float | None = None,
        *,
        actor: str | None = None,
    ) -> Any:
        """The result of an action, done for a group; ``actor`` and errors as of :meth:`call_for_json`."""
        body = {"group_id": group_id, **request.model_dump(mode="json", exclude_none=True)}
        return open_reply(self.send(f"rpc.{action}", queue, body, timeout, actor))

    def send(
        self, task: str, queue: str, request: JsonMapping, timeout: float | None, actor: str | None = None
    ) -> bytes | str:
        """The reply to a request that is JSON already, as the worker wrote it: a value or an error."""
        wait = self.wait(timeout)
        with self._turns.one(task, wait) as seconds, translate_broker_errors():
            reply = self._await(self.post(task, queue, request, seconds, actor), seconds)
        if reply is None:
            raise no_answer(task, queue, wait)
        return reply

    def wait(self, timeout: float | None) -> float:
        """Seconds to wait: the given ones, or the deployment's request time-out."""
        return self._settings.request_timeout if timeout is None else timeout

    def post(self, task: str, queue: str, request: JsonMapping, wait: float, actor: str | None = None) -> str:
        """Send a request; the key of the list that its reply will be put on."""
        request_id = str(uuid7())
        args, options = [request_id, request], {} if actor is None else {"actor": actor}
        signature = {} if self._signer is None else self._signer.headers(task, args, options)
        try:
            self._messages().send(task, request_id, queue, args, options, wait, stamp() | signature)
        except LimitExceeded as error:
            raise no_turn(task, error.args[0], wait) from None
        return reply_key(request_id)

    def live_events(self, group: str, after: str | None) -> Iterator[LiveEvent]:
        """What changes in a group, as it changes."""
        key = f"{STREAM_KEY}{group}"
        with translate_broker_errors():
            place = after or newest_of(self._redis.xrevrange(key, count=1))
            while True:
                for entry in entries_of(self._redis.xread({key: place}, block=int(WAIT_SLICE * 1_000))):
                    place = entry.id
                    yield entry

    def _await(self, key: str, wait: float) -> bytes | str | None:
        """In slices, so that a dead connection is noticed long before a long wait is over."""
        deadline = time.monotonic() + wait
        while (seconds := deadline - time.monotonic()) > 0:
            reply = self._redis.blpop([key], timeout=min(seconds, WAIT_SLICE))
            if reply is not None:
                return reply[1]
        return None

    def close(self) -> None:
        self._redis.close()
        if self._sender is not None:
            self._sender.close()

    def _messages(self) -> TaskMessages:
        with self._lock:
            if self._sender is None:
                self._sender = TaskMessages(self._settings)
            return self._sender


#: Calls under way at a time, each of which holds a connection until its answer is there. Valkey takes 10,000
#: by default, and a service has fewer workers than this: more would wait there instead of here.
CALLS_AT_ONCE = 100


class CallSlots:
    """Turns of threads."""

    def __init__(self, count: int = CALLS_AT_ONCE) -> None:
        self._lock = Lock()
        self._free = self._count = count
        #: Of each thread that waits the lock that it waits for.
        self.waiting: deque[Lock] = deque()

    @contextmanager
    def one(self, task: str, wait: float) -> Iterator[float]:
        """A turn; gives the seconds left of ``wait``. Raises NoAnswer: none was free, nothing was sent."""
        deadline = time.monotonic() + wait
        if not self._take(wait):
            raise no_turn(task, self._count, wait)
        try:
            yield max(deadline - time.monotonic(), 0)
        finally:
            self._give_back()

    def _take(self, wait: float) -> bool:
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            mine = Lock()
            mine.acquire()
            self.waiting.append(mine)
        if mine.acquire(timeout=wait):
            return True
        with self._lock:
            if mine in self.waiting:
                self.waiting.remove(mine)
                return False
        return True  # it was handed over as the time ran out

    def _give_back(self) -> None:
        """To who has waited longest: nobody who comes later is served before."""
        with self._lock:
            if self.waiting:
                self.waiting.popleft().release()
            else:
                self._free += 1


class AsyncCallSlots:
    """Turns of an event loop's tasks."""

    def __init__(self, count: int = CALLS_AT_ONCE) -> None:
        self._count = count
        self._turns = asyncio.Semaphore(count)  # which is fair

    @asynccontextmanager
    async def one(self, task: str, wait: float) -> AsyncIterator[float]:
        """As :meth:`CallSlots.one`."""
        deadline = time.monotonic() + wait
        try:
            await asyncio.wait_for(self._turns.acquire(), wait)
        except TimeoutError:
            raise no_turn(task, self._count, wait) from None
        try:
            yield max(deadline - time.monotonic(), 0)
        finally:
            self._turns.release()


def no_turn(task: str, count: int, wait: float) -> NoAnswer:
    """A call was not sent, because all connections were busy with others."""
    return NoAnswer(
        f"{task} was not sent: for {wait:g} s all {count:,} concurrent calls of this client were in"
        " use. Raise the time-out, lower concurrency or add workers"
    )
