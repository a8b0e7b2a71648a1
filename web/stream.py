"""``/api/v1/stream``: what changes in a group, as it changes, as server-sent events (``docs/api.md``).

A client holds one of the server's threads for as long as it watches. So their number is bounded, none stays
for ever, and one that does not read is cut off: after that its thread serves others.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import redis
from flask import Blueprint, Flask, Response, abort, request

from jiyi.protocol.base import unstorable
from jiyi.protocol.openapi.document import PREFIX
from models.db.bounded_reads import SourceUnavailable, one_line
from models.queue import stream
from models.queue.stream import KINDS, Place, StreamEntry, TooManyWatchers, Watcher, hub, place
from web.accounts import sessions
from web.accounts.api_keys import identify_again, identify_by_key
from web.accounts.identity import Identity, need
from web.accounts.signin import identity_of
from web.api.problems import answer_to, problem
from web.api.running import group_of

programs, people = Blueprint("stream", __name__), Blueprint("live", __name__)
programs.before_request(identify_by_key)
programs.register_error_handler(Exception, answer_to)

#: Milliseconds after which a client that was cut off comes back.
RETRY_MS = 2_000
#: Seconds after which one that was turned away may try again.
RETRY_AFTER = {429: 30, 503: 10}


@programs.get(f"{PREFIX}/stream")
def api() -> Response:
    """For programs; needs the scope `read`."""
    return answer(identify_again())


@people.get("/live/stream")
def live() -> Response:
    """For the admin's pages; the browser's session says who it is."""
    again = sessions.current_again()
    return answer(lambda: None if (user := again()) is None else identity_of(user))


def end_streams() -> None:
    """End all streams at once when the process stops. Takes no lock: a signal's handler calls it."""
    for stream_hub in hub.made():
        stream_hub.cut_all()


def register(app: Flask) -> None:
    app.register_blueprint(programs)
    app.register_blueprint(people)


def answer(identify_again: Callable[[], Identity | None]) -> Response:
    """The stream that the request asks for: ``group``, ``kinds``, ``after`` or the header ``Last-Event-ID``.

    ``identify_again``: returns the caller's current identity. The stream ends when there is none, or when it
    may no longer watch the group.
    """
    identity = need("read")
    group_id, kinds, after = _group(identity), _kinds(), _after()

    def allowed() -> bool:
        try:
            caller = identify_again()
        except SourceUnavailable:
            return False  # the client reconnects and gets status 503
        return caller is not None and caller.may("read") and caller.sees(group_id)

    try:
        watcher = hub().join(group_id, identity.actor, request.remote_addr or "")
        try:
            beginning, last = _beginning(watcher, after)
        except BaseException:
            hub().leave(watcher)
            raise
    except TooManyWatchers as error:
        return _refused(error)
    except (redis.RedisError, OSError) as error:
        raise SourceUnavailable("Valkey", one_line(error)) from error
    client = StreamClient.of(request.environ)
    sending = Sending(watcher, client, kinds, beginning, allowed, last)
    response = Response(sending.chunks(after), mimetype="text/event-stream")
    response.headers["X-Accel-Buffering"] = "no"  # nginx would gather it
    response.call_on_close(lambda: hub().leave(watcher))
    return response


def _beginning(watcher: Watcher, after: str | None) -> tuple[str, stream.Place]:
    """How soon to come back, whether something is missing, and up to where the client knows all."""
    opened = json.dumps({"group": watcher.group_id, "kept": stream.KEPT}, ensure_ascii=False)
    retry = f"retry: {RETRY_MS}\n"
    if after is None:
        return retry + event("stream.opened", opened, watcher.since), (0, 0)
    oldest, newest = stream.ends(watcher.group_id)
    position = place(after)
    begun = retry + event("stream.opened", opened)
    if position == (0, 0):  # all there is
        return begun, position
    missing = json.dumps({"asked": after, "oldest": None if oldest == "0-0" else oldest})
    if position > place(
        newest
    ):  # from before the server lost what it had: what comes follows no id that is known
        return begun + event("gap", missing, watcher.since), (0, 0)
    return (begun + event("gap", missing) if position < place(oldest) else begun), position


def _refused(error: TooManyWatchers) -> Response:
    status = 429 if error.of_this_one else 503
    whose = "You, or others at your address, have" if error.of_this_one else "The server has"
    detail = f"{whose} {error.limit} streams open already. Close one, or try again later."
    return problem(status, detail, headers={"Retry-After": str(RETRY_AFTER[status])})


def _group(identity: Identity) -> str:
    """The group asked for, else the one that the key speaks for. One that may not be seen is not there."""
    group_id = request.args.get("group") or group_of(identity)
    if not identity.sees(group_id) or any(True for _ in unstorable(group_id)):
        abort(404)
    return group_id


def _kinds() -> frozenset[str]:
    kinds = frozenset(filter(None, request.args.get("kinds", "").split(",")))
    unknown = sorted(kinds - set(KINDS))
    if unknown:
        abort(400, f"kinds: there is no kind “{unknown[0][:64]}”; there are {', '.join(KINDS)}.")
    return kinds


def _after() -> str | None:
    """The header comes from a client that was cut off, so it is later than what it once began with."""
    last_id = request.headers.get("Last-Event-ID") or request.args.get("after")
    if not last_id:
        return None
    try:
        return "{}-{}".format(*place(last_id))
    except ValueError:
        abort(400, "after, Last-Event-ID: must be the id of an event, or 0 for all there are.")


#: Longest that one live stream stays open; the client reconnects automatically.
STREAM_SECONDS = 3_600.0

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Seconds without live events after which a comment is sent, so that neither side, nor a proxy, takes the
#: other for dead.
HEARTBEAT = 15.0
#: Seconds of one wait: a client that has gone is noticed as soon, and one that may no longer watch.
LOOK = 1.0
#: Seconds after which a live stream whose client does not read is cut off.
PATIENCE_SECONDS = 20.0
#: Seconds between two looks whether a client has read what it was sent.
UNREAD_POLL = 0.05
#: Bytes that the kernel may hold for a client that does not read, and bytes sent at once, which fit in there.
SEND_BUFFER, CHUNK = 128 * 1024, 16 * 1024


#: Key of a request's environment: its connection, if the server provides it.
CONNECTION = "jiyi.connection"


class StreamConnection(Protocol):
    """The attributes of a client's connection that the HTTP server provides."""

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
    client: StreamClient
    kinds: frozenset[str]
    beginning: str
    #: Whether the client may still watch: its key may have been revoked, or its session ended, since the
    #: stream was opened.
    allowed: Callable[[], bool]
    #: Position of the last event sent, or known to the client before.
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
                yield from gathered(filter(None, map(self._message, self.watcher.missed(after))))
            except (redis.RedisError, OSError):
                return  # the client reconnects and gets status 503
        quiet_since = checked = time.monotonic()
        while not self.watcher.cut and time.monotonic() < end:
            entry = self.watcher.next(LOOK)
            if time.monotonic() - checked >= LOOK:
                if not self.allowed():
                    return  # the client reconnects and gets status 401 or 403
                checked = time.monotonic()
            if entry is not None and (text := self._message(entry)):
                yield text + "".join(filter(None, map(self._message, self._at_hand())))
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= HEARTBEAT:
                yield self._heartbeat()
                quiet_since = time.monotonic()
            elif self.client.gone():
                return
        if self.watcher.cut:
            yield ": come back with the last id\n\n"

    def _at_hand(self) -> Iterator[StreamEntry]:
        """What waits already goes along, as much as one sending may hold."""
        size = 0
        while size < CHUNK and (entry := self.watcher.next(0)) is not None:
            size += len(entry.data)
            yield entry

    def _message(self, entry: StreamEntry) -> str | None:
        if entry.place <= self.last:
            return None
        self.last = entry.place
        if self.kinds and entry.kind not in self.kinds:
            self.passed = entry.id
            return None
        self.passed = None
        return event(entry.kind, entry.data, entry.id)

    def _heartbeat(self) -> str:
        """For a client that wants few kinds also how far it is, so that it need not skip the others again."""
        passed, self.passed = self.passed, None
        return ":\n\n" if passed is None else event("stream.passed", "{}", passed)


class StreamClient:
    """The other end of the connection, if the server provides the connection."""

    def __init__(self, connection: StreamConnection | None) -> None:
        self._connection = connection
        if connection is not None:
            with suppress(OSError):
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    @classmethod
    def of(cls, environ: WSGIEnvironment) -> StreamClient:
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
                    self._connection.socket.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
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


def _poll(sock: socket.socket, mask: int, seconds: float) -> int:
    waiting = select.poll()
    try:
        waiting.register(sock, mask)
        return next((events for _, events in waiting.poll(seconds * 1_000)), 0)
    except (OSError, ValueError):  # closed
        return select.POLLNVAL


def event(kind: str, data: str, entry_id: str | None = None) -> str:
    """As it goes over the wire."""
    id_line = "" if entry_id is None else f"id: {entry_id}\n"
    return f"{id_line}event: {kind}\ndata: {data}\n\n"


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
