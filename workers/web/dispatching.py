"""Which request gets a thread next: callers in turn, each with so many at a time. Some need no thread.

Otherwise the requests that came first would hold all threads, whoever sent them. A caller is whoever brings the same key or the same
session, or comes from the same address; whether the key is good is found out later, by the application.

The server's loop itself answers ``/healthz``, and whoever is over a limit: a refusal costs a fraction of a request that the application
sees. Who asks again before the time that a refusal named is answered a moment later than others, so that asking at once gains nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

from jiyi.protocol.limits import REFUSAL_PAUSE, REFUSALS_HELD, REQUESTS_OF_CALLER, REQUESTS_WAITING, RETRY_SECONDS

if TYPE_CHECKING:
    from workers.web.http_server import Connection

#: Path of the probe that the loop answers. It is asked by whoever restarts the process when it does not answer.
LIVENESS = "/healthz"
#: Paths of probes that the application answers, and the threads that each has.
PROBES = {"/readyz": 2}
#: Refused callers that are remembered; of more those go that were refused first.
MOST_REFUSED = 10_000
#: In place of a path: any at all.
ANYTHING = ""
#: Bytes of the digest by which a caller is known: its key is kept nowhere.
DIGEST_BYTES = 16


class TooManyRequests(Error):  # type: ignore[misc]  # noqa: N818 – named as waitress names its own
    """A caller's request that is not to wait with all its others."""

    code, reason = 429, "Too many requests"

    def __init__(self, detail: str, seconds: int) -> None:
        """``seconds``: after which the caller may ask again."""
        super().__init__(detail)
        self.seconds = seconds


def is_liveness_probe(connection: Connection) -> bool:
    """Whether the next request of a connection asks only whether the process is up."""
    request = connection.requests[0]
    return getattr(request, "path", "") == LIVENESS and request.command in ("GET", "HEAD")  # what is no request has no path


@dataclass(slots=True)
class _Caller:
    """Of one caller: how many are served, and which wait."""

    serving: int = 0
    waiting: deque[Connection] = field(default_factory=deque)


class _Served:
    """A request that a thread has taken; in the end the caller may have another one served."""

    def __init__(self, connection: Connection, done: Callable[[], None]) -> None:
        self._connection, self._done = connection, done

    def service(self) -> None:
        try:
            self._connection.service()
        finally:
            self._done()

    def cancel(self) -> None:
        self._connection.cancel()


class FairQueue:
    """Requests that wait for a thread. In length and truth only those count that may be taken now.

    Waitress's dispatcher uses it in place of a deque, with its lock held.

    Args:
        lock: the dispatcher's.
        caller_of: who has sent the request that is next on a connection.
        at_once: requests of one caller that are served at a time.
        most: those of one caller that wait; more are not taken.
    """

    def __init__(self, lock: threading.Lock, caller_of: Callable[[Connection], str], at_once: int, most: int) -> None:
        self._lock, self._caller_of, self._at_once, self._most = lock, caller_of, at_once, most
        self._callers: dict[str, _Caller] = {}
        #: Callers of whom a request may be taken, each once, in turn.
        self._ready: deque[str] = deque()

    def __len__(self) -> int:
        ready = (self._callers[name] for name in self._ready)
        return sum(min(len(caller.waiting), self._at_once - caller.serving) for caller in ready)

    def __bool__(self) -> bool:
        return bool(self._ready)

    def append(self, connection: Connection) -> bool:
        """Whether the request was taken; else too many of its caller's wait."""
        name = self._caller_of(connection)
        caller = self._callers.setdefault(name, _Caller())
        if len(caller.waiting) >= self._most:
            return False
        caller.waiting.append(connection)
        if caller.serving < self._at_once and name not in self._ready:
            self._ready.append(name)
        return True

    def popleft(self) -> _Served:
        name = self._ready.popleft()
        caller = self._callers[name]
        connection = caller.waiting.popleft()
        caller.serving += 1
        if caller.waiting and caller.serving < self._at_once:
            self._ready.append(name)
        return _Served(connection, lambda: self._done(name))

    def cancel_all(self) -> None:
        """The process ends: those that wait get no answer."""
        for connection in [waiting for caller in self._callers.values() for waiting in caller.waiting]:
            connection.cancel()
        self._ready.clear()
        self._callers.clear()

    def _done(self, name: str) -> None:
        """The thread that has served the request takes the next one by itself."""
        with self._lock:
            caller = self._callers.get(name)
            if caller is None:  # the process ends
                return
            caller.serving -= 1
            if caller.waiting and name not in self._ready:
                self._ready.append(name)
            elif not caller.waiting and not caller.serving:
                del self._callers[name]


class FairDispatcher(ThreadedTaskDispatcher):  # type: ignore[misc]
    """Waitress's threads, which take requests from a :class:`FairQueue`."""

    def __init__(self, caller_of: Callable[[Connection], str], at_once: int, most: int = REQUESTS_WAITING) -> None:
        super().__init__()
        self.queue = FairQueue(self.lock, caller_of, at_once, most)
        self.refusal = f"{at_once} requests of this caller are being answered and {most} wait; send fewer at a time."

    def add_task(self, connection: Connection) -> bool:
        """Whether a thread will see the request; else too many of its caller's wait."""
        with self.lock:
            if taken := self.queue.append(connection):
                self.queue_cv.notify()
        return taken

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        ended: bool = super().shutdown(False, timeout)
        if cancel_pending:
            with self.lock:
                self.queue.cancel_all()
        return ended


class Refusals:
    """Who was refused, what, and until when. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By caller and path, on ``time.monotonic``'s clock.
        self._until: dict[tuple[str, str], float] = {}

    def remember(self, caller: str, path: str, seconds: float) -> None:
        """The caller was told to ask for this path again after so many seconds."""
        now = time.monotonic()
        with self._lock:
            self._until.pop((caller, path), None)
            if len(self._until) >= MOST_REFUSED:
                self._until = {key: until for key, until in self._until.items() if until > now}
            if len(self._until) >= MOST_REFUSED:
                del self._until[next(iter(self._until))]
            self._until[caller, path] = now + seconds

    def seconds(self, caller: str, path: str) -> float:
        """Until the caller may ask for this path again; 0 if it may."""
        until = self._until.get((caller, path))
        return 0.0 if until is None else max(0.0, until - time.monotonic())


class Loop:
    """Requests that the server's loop answers itself, each at its time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[tuple[float, int, Connection]] = []
        self._added = 0

    def add(self, connection: Connection, seconds: float = 0.0) -> None:
        """To be answered in so many seconds; now, if too many are held back already."""
        with self._lock:
            due = time.monotonic() + (seconds if len(self._entries) < REFUSALS_HELD else 0.0)
            self._added += 1
            heapq.heappush(self._entries, (due, self._added, connection))

    def due(self) -> list[Connection]:
        """Those to be answered now, which are forgotten."""
        now, idle = time.monotonic(), []
        with self._lock:
            while self._entries and self._entries[0][0] <= now:
                idle.append(heapq.heappop(self._entries)[2])
        return idle

    def seconds(self, most: float) -> float:
        """Until the next is to be answered, at most ``most``."""
        with self._lock:
            return min(most, max(0.0, self._entries[0][0] - time.monotonic())) if self._entries else most

    def cancel_all(self) -> None:
        """The process ends: those that are held back get no answer."""
        with self._lock:
            for _, _, connection in self._entries:
                connection.cancel()
            self._entries.clear()


class Dispatchers:
    """Threads for probes, threads for everything else, and what needs none. Has what waitress needs of a dispatcher.

    Args:
        proxies: reverse proxies in front, whose word on where a request comes from counts.
    """

    def __init__(self, proxies: int) -> None:
        self._proxies = proxies
        self._probes = {path: FairDispatcher(self._address, threads) for path, threads in PROBES.items()}
        self._others = FairDispatcher(self._caller, REQUESTS_OF_CALLER)
        self._refusals, self.loop = Refusals(), Loop()
        self._arrived: deque[Connection] = deque()
        self._dispatched: SimpleQueue[Connection | None] = SimpleQueue()
        threading.Thread(target=self._dispatch_arrived, name="dispatch", daemon=True).start()

    def set_thread_count(self, count: int) -> None:
        self._others.set_thread_count(count)
        for path, probe in self._probes.items():
            probe.set_thread_count(PROBES[path])

    def add_task(self, connection: Connection) -> None:
        if is_liveness_probe(connection):
            self.loop.add(connection)
        else:
            self._arrived.append(connection)

    def end_turn(self) -> None:
        """For the loop, which has now read what there was: threads may see the requests that arrived. Earlier, they would compete with
        it for each of its reads. It never waits itself: the threads' lock is held by one that waits to compute, up to a quarter second.
        """
        while self._arrived:
            self._dispatched.put(self._arrived.popleft())

    def dispatch(self, connection: Connection) -> None:
        """Let a thread see the next request of a connection, or refuse it."""
        path, caller = getattr(connection.requests[0], "path", ""), self._caller(connection)  # what is no request has no path
        dispatcher = self._probes.get(path, self._others)
        if seconds := self._refusals.seconds(caller, path):
            self._refuse(connection, caller, "This was asked too often.", math.ceil(seconds))
        elif not dispatcher.add_task(connection):
            self._refuse(connection, caller, dispatcher.refusal, RETRY_SECONDS)

    def limited(self, connection: Connection, seconds: float) -> None:
        """For the application: until then it would refuse what is being asked on a connection, whenever the same caller asks."""
        path, caller = connection.requests[0].path, self._caller(connection)
        for refused in (path, ANYTHING):
            self._refusals.remember(caller, refused, seconds)

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        self._dispatched.put(None)
        for probe in self._probes.values():
            probe.shutdown(cancel_pending, 0)
        self.loop.cancel_all()
        return self._others.shutdown(cancel_pending, timeout)

    def _refuse(self, connection: Connection, caller: str, detail: str, seconds: int) -> None:
        connection.requests[0].error = TooManyRequests(f"{detail} Ask again in {seconds} s.", seconds)
        early = self._refusals.seconds(caller, ANYTHING)
        self._refusals.remember(caller, ANYTHING, seconds)
        self.loop.add(connection, min(early, REFUSAL_PAUSE))
        connection.server.pull_trigger()

    def _dispatch_arrived(self) -> None:
        while (connection := self._dispatched.get()) is not None:
            self.dispatch(connection)

    def _caller(self, connection: Connection) -> str:
        headers = connection.requests[0].headers
        # What surrounds a key makes no other caller of it: the application does not look at it either.
        scheme, _, key = headers.get("AUTHORIZATION", "").partition(" ")
        credentials = key.strip() or scheme or headers.get("COOKIE")
        if not credentials:
            return self._address(connection)
        return hashlib.blake2b(credentials.encode("latin-1", "replace"), digest_size=DIGEST_BYTES).hexdigest()

    def _address(self, connection: Connection) -> str:
        """As ``werkzeug.middleware.proxy_fix`` reads it."""
        if self._proxies:
            told = connection.requests[0].headers.get("X_FORWARDED_FOR", "").split(",")
            if len(told) >= self._proxies:
                return str(told[-self._proxies].strip())
        return str(connection.addr[0] if isinstance(connection.addr, tuple) else connection.addr)
