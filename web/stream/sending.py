"""Sending events to one client for as long as it watches, without waiting for one that does not read."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis

from jiyi.settings import get_settings
from models.queue.stream import Entry, Place
from web.stream.hub import Watcher

#: Seconds without news after which a comment is sent, so that neither side, nor a proxy, takes the other for dead.
HEARTBEAT = 15.0
#: Seconds of one wait: a client that has gone is noticed as soon.
LOOK = 1.0
#: Bytes that the kernel may hold for a client that does not read, and bytes sent at once, which fit in there.
SEND_BUFFER, CHUNK = 128 * 1024, 16 * 1024


@dataclass(slots=True)
class Sending:
    """One client's stream."""

    watcher: Watcher
    client: Client
    kinds: frozenset[str]
    beginning: str
    #: What was told so far, or was known before.
    last: Place = (0, 0)
    #: The last id that was passed over because its kind was not asked for.
    passed: str | None = None

    def chunks(self, after: str | None) -> Iterator[bytes]:
        end = time.monotonic() + get_settings().stream_seconds
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
        quiet_since = time.monotonic()
        while not self.watcher.cut and time.monotonic() < end:
            entry = self.watcher.next(LOOK)
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

    def __init__(self, sock: socket.socket | None) -> None:
        self._sock = sock
        self._patience = get_settings().stream_patience_seconds
        if sock is None:
            return
        sock.settimeout(self._patience)  # should a chunk not fit after all
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            if sock.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._patience * 1_000))

    @classmethod
    def of(cls, environ: dict[str, Any]) -> Client:
        sock = environ.get("gunicorn.socket")
        return cls(sock if type(sock) is socket.socket else None)

    def takes(self) -> bool:
        """Whether there is room for a chunk, at least soon; if not, the connection ends here."""
        if self._sock is None:
            return True
        events = _poll(self._sock, select.POLLOUT, self._patience)
        if events & select.POLLOUT and not events & (select.POLLERR | select.POLLHUP):
            return True
        with suppress(OSError):
            # At once, with what it did not read: nothing of it is to linger in the kernel.
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._sock.shutdown(socket.SHUT_RDWR)
        return False

    def gone(self) -> bool:
        """Whether it has closed the connection."""
        if self._sock is None:
            return False
        events = _poll(self._sock, select.POLLIN, 0)
        if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            return True
        try:
            return bool(events & select.POLLIN) and not self._sock.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        """The server is not to wait for what it might still say: its one loop does that waiting."""
        if self._sock is not None:
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RD)


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
