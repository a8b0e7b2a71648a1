"""``python -m workers.web.serve``: the web, one process with many threads."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import socket
import sys
from types import FrameType

from flask import Flask
from sqlalchemy.exc import SQLAlchemyError

from engine.text.keywords import words_of
from jiyi.errors import SettingsError
from jiyi.protocol import limits
from jiyi.protocol.limits import OTHER_THREADS, REQUESTS_AT_ONCE
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
from web.security import LOOPBACK, require_login_on_public_bind
from workers import gc_tuning, logs, tracing
from workers.web.http_server import BACKLOG, Server

#: Seconds after which a thread that computes gives way to those that wait: the loop that answers probes is one of a hundred when as many
#: requests have waited for one thing, and a small request of another group stands behind a large body.
SWITCH_INTERVAL = 0.0002
#: Seconds that requests under way get when the process is told to stop.
GRACEFUL_SECONDS = 5
#: Bytes that a body may be too large and is still read, so that the application says in its own words that it is.
ROOM_FOR_413 = 1024 * 1024


def listen(settings: Settings) -> socket.socket:
    """The listening socket, made first of all: a port that is taken is said in one sentence.

    Raises:
        SettingsError: the address is taken or cannot be used; names the variable that chooses another.
    """
    family = socket.AF_INET6 if ":" in settings.web_host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.web_host, settings.web_port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        place = f"port {settings.web_port} of {settings.web_host}"
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"{place} is taken by another program; choose another with JIYI_WEB_PORT") from None
        raise SettingsError(
            f"cannot listen on {place} ({os.strerror(error.errno or 0)}); choose with JIYI_WEB_HOST and JIYI_WEB_PORT"
        ) from None
    return sock


def somebody_signs_in() -> bool:
    """Raises :class:`SettingsError` when the database does not tell: then the door stays shut."""
    try:
        with whole_service(), unit_of_work() as connection:
            return users.any_at_all(connection)
    except SQLAlchemyError as error:
        raise SettingsError(
            f"JIYI_WEB_HOST is not this machine alone, and the database does not tell whether anybody can sign in: {one_line(error)}"
        ) from None


def warm_up(app: Flask) -> None:
    """Make what the first requests would all wait for, some of it with Python's lock held: documents, types of bodies, Chinese words."""
    with app.app_context():
        docs.make()
    for operation in OPERATIONS:
        if operation.body is not None:
            schema_of(operation.body)
    words_of("")


def serve(sock: socket.socket) -> None:
    """Serve until told to stop; whoever watches is let go at once, and requests under way get some seconds."""
    app = create_app()
    warm_up(app)
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc_tuning.tune_gc()  # to look through all of it for garbage took a fifth of a second, again and again, in which nobody was answered
    server = Server(
        app,
        sock,
        threads=REQUESTS_AT_ONCE + OTHER_THREADS,
        max_body=limits.MAX_MESSAGE_BYTES + ROOM_FOR_413,
        patience=stream.PATIENCE_SECONDS,
        proxies=get_settings().web_proxies,
    )

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # told twice, it goes at once
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


if __name__ == "__main__":
    sys.exit(main())
