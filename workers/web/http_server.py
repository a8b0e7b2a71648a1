"""The HTTP server: waitress, whose one loop reads whole requests before a thread sees them, and sends what threads leave to it.

What a client may take its time with is bounded here: sending a request, being idle, reading an answer. However many are slow, the
threads answer those that are not. waitress itself bounds headers and bodies, and has no limit on how slowly they come.
"""

from __future__ import annotations

import json
import logging
import resource
import socket
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, Task, WSGITask

from web.accounts.api_keys import LIMITED
from web.probes import UP
from web.security import HEADERS
from web.stream import CONNECTION
from workers.web.dispatching import Dispatchers, TooManyRequests, is_liveness_probe

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
#: New connections that the loop takes in one turn: as many as the system keeps for it.
BACKLOG = 128
#: Seconds of one wait for sockets, and between two looks at who is too slow.
LOOK_SECONDS = 1.0
#: Seconds until the loop looks again whether a client has read what it was sent before, which the loop cannot wait for.
UNREAD_SECONDS = 0.05


class _Task(WSGITask):  # type: ignore[misc]  # waitress has no types
    def get_environment(self) -> WSGIEnvironment:
        environment: WSGIEnvironment = super().get_environment()
        environment[CONNECTION] = self.channel
        environment[LIMITED] = partial(self.channel.server.task_dispatcher.limited, self.channel)
        return environment


class _Up(Task):  # type: ignore[misc]
    """The answer of ``/healthz``, as the application would give it."""

    complete = True

    def execute(self) -> None:
        self.response_headers += [*HEADERS.items(), ("Cache-Control", "no-store"), ("Content-Type", "application/json")]
        self.content_length = len(UP)
        self.write(b"" if self.request.command == "HEAD" else UP)


class _Problem(ErrorTask):  # type: ignore[misc]
    """What is wrong with a request that no page sees, in the form of the API's problems."""

    def execute(self) -> None:
        error = self.request.error
        problem = {"type": "about:blank", "title": error.reason, "status": error.code, "detail": str(error.body)}
        body = json.dumps(problem).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/problem+json"))
        if isinstance(error, TooManyRequests):
            self.response_headers.append(("Retry-After", str(error.seconds)))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class Connection(HTTPChannel):  # type: ignore[misc]
    """One client's connection."""

    task_class: type[Task] = _Task
    error_task_class = _Problem
    #: The request that was being received when it was looked at last, and since when.
    _receiving: HTTPRequestParser | None = None
    _since = 0.0
    _served = False

    def service(self) -> None:
        self._served = True
        self.task_class = _Up if is_liveness_probe(self) else _Task
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
        proxies: reverse proxies in front of it.
    """

    channel_class = Connection

    def __init__(
        self, application: Callable[..., Any], sock: socket.socket, *, threads: int, max_body: int, patience: float, proxies: int = 0
    ) -> None:
        self._patience, self._stopping, self._looked = patience, False, 0.0
        settings = Adjustments(
            sockets=[sock],
            threads=threads,
            ident=None,
            max_request_header_size=MAX_HEAD,
            max_request_body_size=max_body,
            outbuf_high_watermark=HIGH_WATERMARK,
            connection_limit=MAX_CONNECTIONS + threads,  # it is kept below by _close_slow()
            clear_untrusted_proxy_headers=False,  # the application trusts as many proxies as it is told (ProxyFix)
            log_socket_errors=False,
        )
        name = (sock.family, sock.type, sock.proto, sock.getsockname())
        dispatchers = Dispatchers(proxies)
        dispatchers.set_thread_count(threads)
        super().__init__(application, _sock=sock, dispatcher=dispatchers, adj=settings, bind_socket=False, sockinfo=name)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it would tell of every request that waits for a thread
        _allow_files(2 * MAX_CONNECTIONS)

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

    def handle_accept(self) -> None:
        """Take all connections that wait. The base takes one a turn, and a turn is long while many threads compute: a probe would wait
        as many turns as there are connections before it.
        """
        for _ in range(BACKLOG):
            before = len(self.active_channels)
            super().handle_accept()
            if len(self.active_channels) <= before:
                return

    def maintenance(self, now: float) -> None:
        """The base's own look, from within its loop over the sockets; ours is beside it."""

    def _turn(self, seconds: float) -> None:
        """Read and write what can be, wait for more if there is nothing, answer what needs no thread, and look who is too slow."""
        loop = self.task_dispatcher.loop
        wasyncore.poll2(loop.seconds(seconds), self._map)
        for connection in loop.due():
            if connection.total_outbufs_len:
                loop.add(connection, UNREAD_SECONDS)
            else:
                connection.service()
        self.task_dispatcher.end_turn()
        now = time.time()
        if now - self._looked >= LOOK_SECONDS or now < self._looked:
            self._looked = now
            self._close_slow(now)

    def _close_slow(self, now: float) -> None:
        """Close connections whose clients have used up their time, and of too many those that can best be spared."""
        for one in self._connections():
            if one.too_slow(now, self._patience):
                one.handle_close()  # at once: a client that does not read would never let it close in order
        spare = len(self.active_channels) - MAX_CONNECTIONS * 9 // 10
        if spare > 0:
            idle = sorted((connection for connection in self._connections() if connection.idle), key=lambda one: one.last_activity)
            for one in islice(idle, spare):
                one.handle_close()

    def _connections(self) -> list[Connection]:
        return list(self.active_channels.values())


def _allow_files(wanted: int) -> None:
    """Sockets are files, of which many systems allow a process 1,024 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
