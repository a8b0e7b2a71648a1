"""Sending events to one client for as long as it watches, without waiting for one that does not read."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import redis

from models.queue.stream import Entry, Place
from models.queue.stream_hub import Watcher

#: Longest that one live stream stays open; the client comes back by itself.
STREAM_SECONDS = 3_600.0

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Seconds without news after which a comment is sent, so that neither side, nor a proxy, takes the other for dead.
HEARTBEAT = 15.0
#: Seconds of one wait: a client that has gone is noticed as soon, and one that may no longer watch.
LOOK = 1.0
#: Seconds after which a live stream whose client does not read is cut off.
PATIENCE_SECONDS = 20.0
#: Seconds between two looks whether a client has read what it was sent.
UNREAD_POLL = 0.05
#: Bytes that the kernel may hold for a client that does not read, and bytes sent at once, which fit in there.
SEND_BUFFER, CHUNK = 128 * 1024, 16 * 1024


#: Key of a request's environment: its connection, from a server that tells.
CONNECTION = "jiyi.connection"


class Connection(Protocol):
    """What the HTTP server tells of a client's connection."""

    socket: socket.socket
    connected: bool
    #: Bytes that the client has not read yet.
    total_outbufs_len: int
    #: Set: the server closes it.
    will_close: bool


@dataclass(slots=True)
class Sending:
    """One client's stream."""

    watcher: Watcher
    client: Client
    kinds: frozenset[str]
    beginning: str
    #: Whether the client may still watch: its key may have been revoked, or its session ended, since the stream was opened.
    allowed: Callable[[], bool]
    #: What was told so far, or was known before.
    last: Place = (0, 0)
    #: The last id that was passed over because its kind was not asked for.
    passed: str | None = None

    def chunks(self, after: str | None) -> Iterator[bytes]:
        end = time.monotonic() + STREAM_SECONDS
        for chunk in self._chunks(after, end):
            if not self.client.takes():
                return
            yield chunk.encode()

    def _chunks(self, after: str | None, end: float) -> Iterator[str]:
        yield self.beginning
        if after is not None:
            try:
                yield from gathered(filter(None, map(self._told, self.watcher.missed(after))))
            except (redis.RedisError, OSError):
                return  # it comes back, to be told with status 503
        quiet_since = checked = time.monotonic()
        while not self.watcher.cut and time.monotonic() < end:
            entry = self.watcher.next(LOOK)
            if time.monotonic() - checked >= LOOK:
                if not self.allowed():
                    return  # it comes back, to be told with status 401 or 403
                checked = time.monotonic()
            if entry is not None and (text := self._told(entry)):
                yield text + "".join(filter(None, map(self._told, self._at_hand())))
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= HEARTBEAT:
                yield self._heartbeat()
                quiet_since = time.monotonic()
            elif self.client.gone():
                return
        if self.watcher.cut:
            yield ": come back with the last id\n\n"

    def _at_hand(self) -> Iterator[Entry]:
        """What waits already goes along, as much as one sending may hold."""
        size = 0
        while size < CHUNK and (entry := self.watcher.next(0)) is not None:
            size += len(entry.data)
            yield entry

    def _told(self, entry: Entry) -> str | None:
        if entry.place <= self.last:
            return None
        self.last = entry.place
        if self.kinds and entry.kind not in self.kinds:
            self.passed = entry.id
            return None
        self.passed = None
        return event(entry.kind, entry.data, entry.id)

    def _heartbeat(self) -> str:
        """For a client that wants few kinds also how far it is, so that it need not look through the others again."""
        passed, self.passed = self.passed, None
        return ":\n\n" if passed is None else event("stream.passed", "{}", passed)


class Client:
    """The other end of the connection, where the server tells: it must not hold a thread that nobody reads from."""

    def __init__(self, connection: Connection | None) -> None:
        self._connection = connection
        if connection is not None:
            with suppress(OSError):
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    @classmethod
    def of(cls, environ: WSGIEnvironment) -> Client:
        return cls(environ.get(CONNECTION))

    def takes(self) -> bool:
        """Whether what it was sent has left this process, at least soon; if not, the connection ends here."""
        if self._connection is None:
            return True
        until = time.monotonic() + PATIENCE_SECONDS
        while self._connection.connected and self._connection.total_outbufs_len:
            if time.monotonic() > until:
                with suppress(OSError):
                    # At once, with what it did not read: nothing of it is to linger in the kernel.
                    self._connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._connection.will_close = True
                return False
            time.sleep(UNREAD_POLL)
        return bool(self._connection.connected)

    def gone(self) -> bool:
        """Whether it has closed the connection."""
        if self._connection is None:
            return False
        if not self._connection.connected:
            return True
        events = _poll(self._connection.socket, select.POLLIN, 0)
        if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            return True
        try:
            return bool(events & select.POLLIN) and not self._connection.socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True


def _poll(sock: socket.socket, wanted: int, seconds: float) -> int:
    waiting = select.poll()
    try:
        waiting.register(sock, wanted)
        return next((events for _, events in waiting.poll(seconds * 1_000)), 0)
    except (OSError, ValueError):  # closed
        return select.POLLNVAL


def event(kind: str, data: str, entry_id: str | None = None) -> str:
    """As it goes over the wire."""
    named = "" if entry_id is None else f"id: {entry_id}\n"
    return f"{named}event: {kind}\ndata: {data}\n\n"


def gathered(texts: Iterator[str]) -> Iterator[str]:
    """The texts, as many together as one sending may hold."""
    chunk, size = [], 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK:
            yield "".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield "".join(chunk)
