"""Bodies of requests: bounded in bytes, in time, in what they become once they are parsed, and in all
together.

One large body is looked into at a time, in a thread, and nothing that is parsed outlives that look. The event
loop and the thread take turns (Python's GIL), so no step of it may be long that cannot be interrupted.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from jiyi.protocol.base import JsonObject
from jiyi.protocol.wire.bounds import Bounds, TooMuchError
from jiyi.proxy.access import ProxyRefusal

T = TypeVar("T")
#: Of each event loop.
_threads: RunVar[CapacityLimiter] = RunVar("threads for large bodies")

#: Bytes of a request: images are in it.
MAX_BODY_BYTES = 32 * 1024 * 1024
#: Bytes of all requests that no upstream has taken yet.
BODIES_BYTES = 256 * 1024 * 1024
#: Seconds within which a body has to arrive: 32 MB at 4 Mbit/s.
BODY_SECONDS = 60.0
#: What a body may have: one for embeddings has 300,000 numbers.
BOUNDS = Bounds(MAX_BODY_BYTES, values=320_000)
#: Bytes of a body that is handled in a thread: a smaller one takes about a millisecond.
LARGE_BYTES = 64 * 1024
#: Threads for these: two would wait for each other, and the event loop for both. What is parsed in one takes
#: 64 MB at most.
THREADS = 1
#: Seconds after which to try again when there was no room.
RETRY_SECONDS = "5"


#: Takes so many more bytes; raises :class:`ProxyRefusal` if there is no room for them.
Take = Callable[[int], None]


class BodyBudget:
    """Bytes that requests have in hand, out of what there is for all. Of one event loop."""

    def __init__(self, most: int = BODIES_BYTES) -> None:
        self._most, self._taken = most, 0

    @contextmanager
    def held(self) -> Iterator[Take]:
        """What one request takes is given back at the end of the block."""
        request_bytes = 0

        def take(size: int) -> None:
            nonlocal request_bytes
            if self._taken + size > self._most:
                busy = "other large requests are on their way; try again in a moment"
                raise ProxyRefusal(503, "overloaded_error", busy, Retry_After=RETRY_SECONDS)
            request_bytes += size
            self._taken += size

        try:
            yield take
        finally:
            self._taken -= request_bytes


async def read(request: Request, take: Take) -> bytes:
    """The body. Raises :class:`ProxyRefusal` if it is too large, too slow, or breaks off."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BODY_BYTES:
                    large = f"the request has more than {MAX_BODY_BYTES:,} bytes"
                    raise ProxyRefusal(413, "request_too_large", large)
                take(len(part))
                parts.append(part)
    except TimeoutError:
        late = f"the request did not arrive within {BODY_SECONDS:g} s"
        raise ProxyRefusal(408, "request_timeout", late, Connection="close") from None
    except ClientDisconnect:
        raise ProxyRefusal(400, "invalid_request_error", "the request broke off") from None
    return await elsewhere(size, b"".join, parts)


def parsed(content: bytes) -> JsonObject | None:
    """The request; None if it is no JSON object. Raises :class:`ProxyRefusal` if it has too many values."""
    try:
        BOUNDS.check(content)
        body = from_json(content)
    except TooMuchError as error:
        raise ProxyRefusal(413, "request_too_large", f"the request has {error}") from None
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


async def elsewhere(size: int, function: Callable[..., T], *arguments: object) -> T:
    """What a function gives: of much in a thread, one after the other, so that other requests go on."""
    if size < LARGE_BYTES:
        return function(*arguments)
    try:
        threads = _threads.get()
    except LookupError:
        _threads.set(threads := CapacityLimiter(THREADS))
    return await run_sync(partial(_without_gc, function, *arguments), limiter=threads)


def _without_gc(function: Callable[..., T], *arguments: object) -> T:
    """JSON has no cycles, and to look for some stops all threads for a tenth of a second."""
    looked = gc.isenabled()
    gc.disable()
    try:
        return function(*arguments)
    finally:
        if looked:
            gc.enable()
