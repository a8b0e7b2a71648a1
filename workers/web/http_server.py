"""The HTTP server: waitress, whose one loop reads whole requests before a thread sees them, and sends what threads leave to it.

What a client may take its time with is bounded here: sending a request, being idle, reading an answer. However many are slow, the
threads answer those that are not. waitress itself bounds headers and bodies, and has no limit on how slowly they come. A caller that
asks again at once for what was refused as too much is answered a second later, so that it gains nothing and takes no thread from others.
"""

from __future__ import annotations

import json
import logging
import resource
import socket
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, WSGITask

from web.stream import CONNECTION

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Seconds that a request's head may take, and a new connection until it begins with one.
HEAD_SECONDS = 10.0
#: Bytes a second that a body has to come at, on average, beyond those seconds: the slowest mobile networks are faster.
BODY_RATE = 16 * 1024
#: Bytes of a request's head: questions may name many events in their address.
MAX_HEAD = 64 * 1024
#: Seconds that a connection is kept open for its next request.
KEEPALIVE_SECONDS = 75.0
#: Connections of one process. Of more those go first that have nothing to do, and of them the longest idle.
MAX_CONNECTIONS = 4_000
#: Bytes that an answer may be ahead of its client; then its thread waits.
HIGH_WATERMARK = 1024 * 1024
#: Connections that the system keeps until the loop takes them.
BACKLOG = 128
#: Seconds for which a caller's next requests for what was refused are held back.
REFUSAL_PAUSE = 1.0
#: Seconds of one wait for sockets, and between two looks at who is too slow.
LOOK_SECONDS = 1.0


class _Task(WSGITask):  # type: ignore[misc]  # waitress has no types
    def get_environment(self) -> WSGIEnvironment:
        environment: WSGIEnvironment = super().get_environment()
        environment[CONNECTION] = self.channel
        return environment

    def finish(self) -> None:
        super().finish()
        if self.status.startswith("429"):
            self.channel.server.refused[self.channel.caller()] = time.monotonic() + REFUSAL_PAUSE


class _Problem(ErrorTask):  # type: ignore[misc]
    """What is wrong with a request that no page sees, in the form of the API's problems."""

    def execute(self) -> None:
        error = self.request.error
        problem = {"type": "about:blank", "title": error.reason, "status": error.code, "detail": str(error.body)}
        body = json.dumps(problem).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/problem+json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Connection(HTTPChannel):  # type: ignore[misc]
    """One client's connection."""

    task_class = _Task
    error_task_class = _Problem
    #: The request that was being received when it was looked at last, and since when.
    _receiving: HTTPRequestParser | None = None
    _since = 0.0
    _served = False

    def service(self) -> None:
        self._served = True
        super().service()

    def too_slow(self, now: float, patience: float) -> bool:
        """Whether the client has used up its time: it has to be looked at every second or so."""
        request = self.request
        if request is not self._receiving:
            self._receiving, self._since = request, now
        if self.total_outbufs_len:
            return bool(now - self.last_activity > patience)
        if request is not None:
            return bool(now - self._since > HEAD_SECONDS + request.body_bytes_received / BODY_RATE)
        return self.idle and now - self.last_activity > (KEEPALIVE_SECONDS if self._served else HEAD_SECONDS)

    def caller(self) -> tuple[str, str]:
        """Who sent the next request (a key, good or not, a session, or else an address), and for which path."""
        request = self.requests[0]
        headers, proxies = request.headers, self.server.proxies
        scheme, _, key = headers.get("AUTHORIZATION", "").partition(" ")
        who = key.strip() or scheme or headers.get("COOKIE", "")
        forwarded = headers.get("X_FORWARDED_FOR", "").split(",")
        if not who and 0 < proxies <= len(forwarded):  # as ``werkzeug.middleware.proxy_fix`` reads it
            who = forwarded[-proxies].strip()
        return who or str(self.addr[0]), getattr(request, "path", "")  # nonsense has no path

    @property
    def idle(self) -> bool:
        """Nothing of it is being answered."""
        return not self.requests and not self.total_outbufs_len


class Server(TcpWSGIServer):  # type: ignore[misc]
    """Serves a WSGI application on a listening socket, with threads.

    Args:
        application: WSGI.
        sock: bound and listening.
        threads: requests answered at a time.
        max_body: bytes of a request's body.
        patience: seconds that a client may leave an answer unread.
        proxies: reverse proxies in front, whose word on where a request comes from counts.
    """

    channel_class = Connection

    def __init__(
        self, application: Callable[..., Any], sock: socket.socket, *, threads: int, max_body: int, patience: float, proxies: int = 0
    ) -> None:
        self._patience, self._stopping, self.proxies = patience, False, proxies
        #: Until when callers that were refused are held back, and the connections that are held, with the end of
        #: each; on ``time.monotonic``'s clock.
        self.refused: dict[tuple[str, str], float] = {}
        self._held: deque[tuple[float, Connection]] = deque()
        settings = Adjustments(
            sockets=[sock],
            threads=threads,
            ident=None,
            max_request_header_size=MAX_HEAD,
            max_request_body_size=max_body,
            outbuf_high_watermark=HIGH_WATERMARK,
            connection_limit=MAX_CONNECTIONS + threads,  # it is kept below by maintenance()
            cleanup_interval=LOOK_SECONDS,
            clear_untrusted_proxy_headers=False,  # the application trusts as many proxies as it is told (ProxyFix)
            log_socket_errors=False,
        )
        name = (sock.family, sock.type, sock.proto, sock.getsockname())
        super().__init__(application, _sock=sock, adj=settings, bind_socket=False, sockinfo=name)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it would tell of every request that waits for a thread
        _allow_files(2 * MAX_CONNECTIONS)

    def add_task(self, task: Connection) -> None:
        now = time.monotonic()
        if self.refused.get(task.caller(), 0.0) > now:
            self._held.append((now + REFUSAL_PAUSE, task))
        else:
            super().add_task(task)

    def run(self) -> None:
        """Serve until :meth:`stop`."""
        while not self._stopping:
            self._turn(LOOK_SECONDS)

    def stop(self) -> None:
        """For signals' handlers: accept nothing more, and return from :meth:`run`."""
        self._stopping = True
        self.pull_trigger()

    def finish(self, seconds: float) -> None:
        """Let requests under way be answered, for so long at most."""
        self.accepting = False
        self.del_channel()
        self.socket.close()
        until = time.monotonic() + seconds
        while any(not connection.idle for connection in self._connections()) and time.monotonic() < until:
            self._turn(0.05)
        self.task_dispatcher.shutdown(timeout=max(0.0, until - time.monotonic()))
        wasyncore.close_all(self._map, ignore_all=True)

    def maintenance(self, now: float) -> None:
        """Close connections whose clients have used up their time, and of too many those that can best be spared."""
        self.refused = {caller: until for caller, until in self.refused.copy().items() if until > time.monotonic()}
        for connection in self._connections():
            if connection.too_slow(now, self._patience):
                connection.handle_close()  # at once: a client that does not read would never let it close in order
        spare = len(self.active_channels) - MAX_CONNECTIONS * 9 // 10
        if spare > 0:
            idle = sorted((each for each in self._connections() if each.idle), key=lambda each: each.last_activity)
            for connection in islice(idle, spare):
                connection.handle_close()

    def _turn(self, seconds: float) -> None:
        """Read and write what can be, wait for more if there is nothing; threads see what was held for long enough."""
        if self._held:
            seconds = min(seconds, max(0.0, self._held[0][0] - time.monotonic()))
        wasyncore.loop(seconds, use_poll=True, map=self._map, count=1)
        while self._held and self._held[0][0] <= time.monotonic():
            super().add_task(self._held.popleft()[1])

    def _connections(self) -> list[Connection]:
        return list(self.active_channels.values())


def _allow_files(wanted: int) -> None:
    """Sockets are files, of which many systems allow a process 1,024 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
