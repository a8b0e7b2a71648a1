"""``python -m workers.web.serve``: the web, one process with many threads.

waitress reads whole requests before a thread sees them, and sends answers; slow clients, which it does not
bound, are bounded here. A caller that asks again at once for what was refused as too much waits a second.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from flask import Flask
from sqlalchemy.exc import SQLAlchemyError
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, Task, WSGITask
from waitress.utilities import Error

from engine.text.keywords import words_of
from jiyi.errors import SettingsError
from jiyi.protocol import limits
from jiyi.protocol.limits import (
    OTHER_THREADS,
    REQUESTS_AT_ONCE,
    REQUESTS_OF_ADDRESS,
    REQUESTS_OF_CALLER,
    REQUESTS_WAITING,
    RETRY_SECONDS,
)
from jiyi.protocol.wire.json_checks import schema_of
from jiyi.protocol.wire.signatures import need_secret_key
from jiyi.settings import Settings, get_settings
from models.accounts import users
from models.db.bounded_reads import one_line
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from web import create_app, stream
from web.api import docs
from web.api.registry import OPERATIONS
from web.probes import LIVENESS, UP
from web.security import HEADERS, LOOPBACK, require_login_on_public_bind
from web.stream import CONNECTION
from workers import gc_tuning, logs, tracing
from workers.web.callers import Callers

#: Seconds after which a thread that computes gives way to those that wait: the loop that answers probes is
#: one of a hundred when as many requests have waited for one thing, and a small request of another group
#: stands behind a large body.
SWITCH_INTERVAL = 0.0002
#: Seconds that requests in progress get when the process is stopped.
GRACEFUL_SECONDS = 5
#: Bytes that a body may be too large and is still read, so that the application says in its own words that it
#: is.
ROOM_FOR_413 = 1024 * 1024


def listen(settings: Settings) -> socket.socket:
    """The listening socket. Raises :class:`SettingsError`, with the variable that chooses another."""
    family = socket.AF_INET6 if ":" in settings.web_host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.web_host, settings.web_port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        place = f"port {settings.web_port} of {settings.web_host}"
        problem = f"{place} is taken by another program; choose another with JIYI_WEB_PORT"
        if error.errno != errno.EADDRINUSE:
            why = os.strerror(error.errno or 0)
            problem = f"cannot listen on {place} ({why}); choose with JIYI_WEB_HOST and JIYI_WEB_PORT"
        raise SettingsError(problem) from None
    return sock


def somebody_signs_in() -> bool:
    """Raises :class:`SettingsError` when the database does not answer: then the port stays closed."""
    try:
        with whole_service(), unit_of_work() as connection:
            return users.any_at_all(connection)
    except SQLAlchemyError as error:
        raise SettingsError(
            "JIYI_WEB_HOST is not this machine alone, and the database does not say whether anybody can"
            f" sign in: {one_line(error)}"
        ) from None


def warm_up(app: Flask) -> None:
    """Make what the first requests would all wait for: documents, types of bodies, Chinese words."""
    with app.app_context():
        docs.make()
    for operation in OPERATIONS:
        if operation.body is not None:
            schema_of(operation.body)
    words_of("")


def serve(sock: socket.socket) -> None:
    """Serve until stopped; streams end at once, and requests under way get some seconds."""
    app = create_app()
    warm_up(app)
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    # to look through all of it for garbage took a fifth of a second, again and again, in which nobody was
    # answered
    gc_tuning.tune_gc()
    server = WebServer(
        app,
        sock,
        threads=REQUESTS_AT_ONCE + OTHER_THREADS,
        max_body=limits.MAX_MESSAGE_BYTES + ROOM_FOR_413,
        patience=stream.PATIENCE_SECONDS,
        proxies=get_settings().web_proxies,
    )

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
        stream.end_streams()
        server.stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, stop)
    server.run()
    server.finish(GRACEFUL_SECONDS)


def main() -> int:
    gc_tuning.tune_malloc()  # what a large body took goes back to the system
    try:
        settings = get_settings()
        need_secret_key(settings)
        settings.need("database_url"), settings.need("broker_url"), settings.need("redis_url")
        logs.install("web", logging.WARNING)
        tracing.install("web")
        if settings.oidc_file:
            from web.accounts import single_sign_on

            single_sign_on.read(settings.oidc_file)
        unasked = settings.web_host in LOOPBACK or bool(settings.oidc_file)
        require_login_on_public_bind(settings, somebody_signs_in=unasked or somebody_signs_in())
        sock = listen(settings)
    except SettingsError as error:
        print(f"web: {error}", file=sys.stderr)  # noqa: T201
        return 1
    host = f"[{settings.web_host}]" if ":" in settings.web_host else settings.web_host
    logs.say(f"web: admin at http://{host}:{settings.web_port}/")
    serve(sock)
    return 0


if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Seconds that a request's head may take, and a new connection until it begins with one.
HEAD_SECONDS = 10.0
#: Bytes a second that a body has to come at, on average, beyond those seconds: the slowest mobile networks
#: are faster.
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
#: Seconds between two that are let through: together they would compete with a probe for Python's lock.
HELD_APART = 0.005
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
            request = (self.channel.caller(), self.channel.path())
            self.channel.server.refused[request] = time.monotonic() + REFUSAL_PAUSE


class _Up(Task):  # type: ignore[misc]
    """The answer of ``/healthz``, given by the loop, however busy the threads are."""

    complete = True

    def execute(self) -> None:
        self.response_headers += HEADERS.items()
        self.response_headers += [("Cache-Control", "no-store"), ("Content-Type", "application/json")]
        self.content_length = len(UP)
        self.write(b"" if self.request.command == "HEAD" else UP)


class _TooMany(Error):  # type: ignore[misc]  # noqa: N818 – as waitress names its own
    """A caller's request beside which too many of theirs wait."""

    code, reason = 429, "Too many requests"

    def __init__(self) -> None:
        waiting = f"{REQUESTS_WAITING} requests of this caller wait already"
        super().__init__(f"{waiting}; send fewer at a time. Retry in {RETRY_SECONDS} s.")


class _RefusalTask(ErrorTask):  # type: ignore[misc]
    """What is wrong with a request that no page sees, in the form of the API's problems."""

    def execute(self) -> None:
        error = self.request.error
        problem = {"type": "about:blank", "title": error.reason, "status": error.code}
        body = json.dumps({**problem, "detail": str(error.body)}).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/problem+json"))
        if isinstance(error, _TooMany):
            self.response_headers.append(("Retry-After", str(RETRY_SECONDS)))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class ClientConnection(HTTPChannel):  # type: ignore[misc]
    """One client's connection."""

    task_class: type[Task] = _Task
    error_task_class = _RefusalTask
    #: The request that was being received when it was looked at last, and since when.
    _receiving: HTTPRequestParser | None = None
    _since = 0.0
    _served = False

    def service(self) -> None:
        self._served = True
        self.task_class = _Up if self.is_probe() else _Task
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

    def path(self) -> str:
        """Of the next request; nonsense has none."""
        return getattr(self.requests[0], "path", "")

    def is_probe(self) -> bool:
        """Whether the next request asks only if the process is up."""
        return self.path() == LIVENESS and self.requests[0].command in ("GET", "HEAD")

    def credentials(self) -> str:
        """What the next request has of them: a key, good or not, or a session; empty without."""
        headers = self.requests[0].headers
        scheme, _, key = headers.get("AUTHORIZATION", "").partition(" ")
        return str(key.strip() or scheme or headers.get("COOKIE", ""))

    def caller(self) -> str:
        """Who sent the next request: by its credentials, or else an address."""
        headers, proxies, who = self.requests[0].headers, self.server.proxies, self.credentials()
        forwarded = headers.get("X_FORWARDED_FOR", "").split(",")
        if not who and 0 < proxies <= len(forwarded):  # as ``werkzeug.middleware.proxy_fix`` reads it
            who = forwarded[-proxies].strip()
        return who or str(self.addr[0])

    @property
    def idle(self) -> bool:
        """Nothing of it is being answered."""
        return not self.requests and not self.total_outbufs_len

    @property
    def idle_since(self) -> float:
        """Since when: a byte now and then of its first request, which does not end, is no activity."""
        return float(self.last_activity if self._served else self.creation_time)


class _Begun:
    """A request that a thread answers."""

    def __init__(self, connection: ClientConnection, caller: str) -> None:
        self._connection, self._caller = connection, caller

    def service(self) -> None:
        try:
            self._connection.service()
        finally:
            self._connection.server.end(self._caller)

    def cancel(self) -> None:
        self._connection.cancel()


class WebServer(TcpWSGIServer):  # type: ignore[misc]
    """Serves a WSGI application on a bound, listening socket, with threads.

    ``patience``: seconds that a client may leave an answer unread; ``proxies``: trusted reverse proxies.
    """

    channel_class = ClientConnection

    def __init__(
        self,
        application: Callable[..., Any],
        sock: socket.socket,
        *,
        threads: int,
        max_body: int,
        patience: float,
        proxies: int = 0,
    ) -> None:
        self._patience, self._stopping, self.proxies = patience, False, proxies
        #: Until when callers that were refused are held back, and the connections that are held, with the end
        #: of each; on ``time.monotonic``'s clock.
        self.refused: dict[tuple[str, str], float] = {}
        self._held: deque[tuple[float, ClientConnection]] = deque()
        #: Probes, which the loop answers; and whose requests the threads have.
        self._probes: deque[ClientConnection] = deque()
        self._callers: Callers[ClientConnection] = Callers(REQUESTS_WAITING)
        settings = Adjustments(
            sockets=[sock],
            threads=threads,
            ident=None,
            max_request_header_size=MAX_HEAD,
            max_request_body_size=max_body,
            outbuf_high_watermark=HIGH_WATERMARK,
            connection_limit=MAX_CONNECTIONS + threads,  # it is kept below by maintenance()
            cleanup_interval=LOOK_SECONDS,
            # the application trusts the configured number of proxies (ProxyFix)
            clear_untrusted_proxy_headers=False,
            log_socket_errors=False,
        )
        name = (sock.family, sock.type, sock.proto, sock.getsockname())
        super().__init__(application, _sock=sock, adj=settings, bind_socket=False, sockinfo=name)
        # it would log every request that waits for a thread
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        _allow_files(2 * MAX_CONNECTIONS)

    def add_task(self, task: ClientConnection) -> None:
        """Decide when the next request of a connection is answered."""
        now, path = time.monotonic(), task.path()
        if task.is_probe():
            self._probes.append(task)
            self.pull_trigger()
        elif self.refused.get((task.caller(), path), 0.0) > now:
            after = self._held[-1][0] + HELD_APART if self._held else 0.0
            self._held.append((max(now + REFUSAL_PAUSE, after), task))
        else:
            self._begin(task)

    def _begin(self, task: ClientConnection) -> None:
        caller = task.caller()
        at_once = REQUESTS_OF_CALLER if task.credentials() else REQUESTS_OF_ADDRESS
        match self._callers.begin(caller, task, at_once):
            case "begun":
                self.task_dispatcher.add_task(_Begun(task, caller))
            case "refused":
                task.requests[0].error = _TooMany()
                self.refused[caller, task.path()] = time.monotonic() + REFUSAL_PAUSE
                self.task_dispatcher.add_task(task)
            case "waits":
                pass

    def end(self, caller: str) -> None:
        """A caller's request is answered: their next one is begun."""
        if (following := self._callers.end(caller)) is not None:
            self.task_dispatcher.add_task(_Begun(following, caller))

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
        """Take all that wait: the base takes one a turn, which under load is long, and probes would wait."""
        for _ in range(BACKLOG):
            before = len(self.active_channels)
            super().handle_accept()
            if len(self.active_channels) <= before:
                return

    def maintenance(self, now: float) -> None:
        """Close connections whose clients are too slow, and of too many the idlest."""
        refused = self.refused.copy().items()
        self.refused = {caller: until for caller, until in refused if until > time.monotonic()}
        for connection in self._connections():
            if connection.too_slow(now, self._patience):
                # at once: a client that does not read would never let it close in order
                connection.handle_close()
        spare = len(self.active_channels) - MAX_CONNECTIONS * 9 // 10
        if spare > 0:
            idle = [connection for connection in self._connections() if connection.idle]
            for connection in sorted(idle, key=lambda each: each.idle_since)[:spare]:
                connection.handle_close()

    def _turn(self, seconds: float) -> None:
        """Read and write what can be, or wait; hand on what was held for long enough."""
        if self._held:
            seconds = min(seconds, max(0.0, self._held[0][0] - time.monotonic()))
        wasyncore.loop(seconds, use_poll=True, map=self._map, count=1)
        while self._probes:
            self._probes.popleft().service()
        while self._held and self._held[0][0] <= time.monotonic():
            self._begin(self._held.popleft()[1])

    def _connections(self) -> list[ClientConnection]:
        return list(self.active_channels.values())


def _allow_files(files: int) -> None:
    """Sockets are files, of which many systems allow a process 1,024 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


if __name__ == "__main__":
    sys.exit(main())
