"""Which request gets a thread next: callers in turn, each with so many at a time; and probes, which have threads of their own.

Otherwise the requests that came first would hold all threads, whoever sent them. A caller is whoever brings the same key or the same
session, or comes from the same address; whether the key is good is found out later, by the application.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

from jiyi.operations.budget import REQUESTS_OF_CALLER, REQUESTS_WAITING

if TYPE_CHECKING:
    from workers.web.http_server import Connection

#: Addresses of the probes, and the threads that each has. They are asked by whoever restarts the process when it does not answer.
PROBES = {"/healthz": 1, "/readyz": 2}
#: Bytes of the digest by which a caller is known: its key is kept nowhere.
DIGEST_BYTES = 16


class TooManyRequests(Error):  # type: ignore[misc]  # noqa: N818 – named as waitress names its own
    """A caller's request that is not to wait with all its others."""

    code, reason = 429, "Too many requests"


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
        most: those of one caller that wait; more are answered with 429.
    """

    def __init__(self, lock: threading.Lock, caller_of: Callable[[Connection], str], at_once: int, most: int) -> None:
        self._lock, self._caller_of, self._at_once, self._most = lock, caller_of, at_once, most
        self._callers: dict[str, _Caller] = {}
        #: Callers of whom a request may be taken, each once, in turn.
        self._ready: deque[str] = deque()
        self._refused: deque[Connection] = deque()

    def __len__(self) -> int:
        ready = (self._callers[name] for name in self._ready)
        return len(self._refused) + sum(min(len(one.waiting), self._at_once - one.serving) for one in ready)

    def __bool__(self) -> bool:
        return bool(self._refused or self._ready)

    def append(self, connection: Connection) -> None:
        name = self._caller_of(connection)
        caller = self._callers.setdefault(name, _Caller())
        if len(caller.waiting) >= self._most:
            connection.requests[0].error = TooManyRequests(
                f"{self._at_once} requests of this caller are being answered and {self._most} wait; send fewer at a time"
            )
            self._refused.append(connection)
            return
        caller.waiting.append(connection)
        if caller.serving < self._at_once and name not in self._ready:
            self._ready.append(name)

    def popleft(self) -> _Served:
        if self._refused:
            return _Served(self._refused.popleft(), lambda: None)
        name = self._ready.popleft()
        caller = self._callers[name]
        connection = caller.waiting.popleft()
        caller.serving += 1
        if caller.waiting and caller.serving < self._at_once:
            self._ready.append(name)
        return _Served(connection, lambda: self._done(name))

    def cancel_all(self) -> None:
        """The process ends: those that wait get no answer."""
        for connection in [*self._refused, *(one for caller in self._callers.values() for one in caller.waiting)]:
            connection.cancel()
        for kept in (self._refused, self._ready, self._callers):
            kept.clear()

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

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        ended: bool = super().shutdown(False, timeout)
        if cancel_pending:
            with self.lock:
                self.queue.cancel_all()
        return ended


class Dispatchers:
    """Threads for probes, and threads for everything else. Has what waitress needs of a dispatcher.

    Args:
        proxies: reverse proxies in front, whose word on where a request comes from counts.
    """

    def __init__(self, proxies: int) -> None:
        self._proxies = proxies
        self._probes = {path: FairDispatcher(self._address, threads) for path, threads in PROBES.items()}
        self._others = FairDispatcher(self._caller, REQUESTS_OF_CALLER)

    def set_thread_count(self, count: int) -> None:
        self._others.set_thread_count(count)
        for path, probe in self._probes.items():
            probe.set_thread_count(PROBES[path])

    def add_task(self, connection: Connection) -> None:
        path = getattr(connection.requests[0], "path", "")  # what is no request has none
        self._probes.get(path, self._others).add_task(connection)

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        for probe in self._probes.values():
            probe.shutdown(cancel_pending, 0)
        return self._others.shutdown(cancel_pending, timeout)

    def _caller(self, connection: Connection) -> str:
        headers = connection.requests[0].headers
        credentials = headers.get("AUTHORIZATION") or headers.get("COOKIE")
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
