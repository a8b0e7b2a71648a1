"""``python -m web.serve``: the web under gunicorn, one process with many threads."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from sqlalchemy.exc import SQLAlchemyError

from jiyi.accounts.signatures import need_secret_key
from jiyi.errors import SettingsError
from jiyi.settings import Settings, get_settings
from models.accounts import users
from models.db.connection import engine, unit_of_work
from models.db.scope import whole_service
from web import create_app
from web.security import LOOPBACK, require_login_on_public_bind
from web.sources import one_line
from web.stream import routes

#: Requests at a time. Most of them wait: for an answer of a worker, or, as streams do, for news.
THREADS = 64
BACKLOG = 128
#: Seconds that a program's connection is kept open for its next request.
KEEPALIVE_SECONDS = 75
#: Bytes of a request's first line, gunicorn's maximum: questions may name many events (``web.api.memory.events``).
REQUEST_LINE = 8_190
#: Seconds that requests under way get when the process is told to stop.
GRACEFUL_SECONDS = 5


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        app = create_app()
        routes.end_with_process()
        return app


def listen(settings: Settings) -> socket.socket:
    """The listening socket, made here because gunicorn would try a taken port for five seconds, in many lines.

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
    sock.set_inheritable(True)
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
    finally:
        for pool in engine.made():  # gunicorn forks: its worker opens connections of its own
            pool.dispose()
        engine.cache_clear()


def main() -> int:
    try:
        settings = get_settings()
        need_secret_key(settings)
        settings.need("database_url"), settings.need("broker_url"), settings.need("redis_url")
        require_login_on_public_bind(settings, somebody_signs_in=settings.web_host in LOOPBACK or somebody_signs_in())
        sock = listen(settings)
    except SettingsError as error:
        print(f"web: {error}", file=sys.stderr)  # noqa: T201
        return 1
    host = f"[{settings.web_host}]" if ":" in settings.web_host else settings.web_host
    print(f"web: admin at http://{host}:{settings.web_port}/", file=sys.stderr, flush=True)  # noqa: T201
    _Server(
        {
            "bind": f"fd://{sock.detach()}",
            "worker_class": "gthread",
            "workers": 1,
            "threads": THREADS,
            "graceful_timeout": GRACEFUL_SECONDS,
            "keepalive": KEEPALIVE_SECONDS,
            "limit_request_line": REQUEST_LINE,
            "loglevel": "warning",
            "proc_name": "jiyi-web",
            "control_socket_disable": True,  # it would be a file in the home directory, shared by all copies
        }
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
