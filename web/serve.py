"""``python -m web.serve``: the admin under gunicorn, one process with a few threads."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from jiyi.errors import SettingsError
from jiyi.settings import Settings, get_settings
from web import create_app
from web.security import refuse_foreign_address

THREADS = 4
BACKLOG = 128
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
        return create_app()


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


def main() -> int:
    try:
        settings = get_settings()
        refuse_foreign_address(settings)
        settings.need("database_url"), settings.need("broker_url"), settings.need("redis_url")
        sock = listen(settings)
    except SettingsError as error:
        print(f"web: {error}", file=sys.stderr)  # noqa: T201
        return 1
    host = f"[{settings.web_host}]" if ":" in settings.web_host else settings.web_host
    print(f"web: admin at http://{host}:{settings.web_port}/", file=sys.stderr, flush=True)  # noqa: T201
    _Server({
        "bind": f"fd://{sock.detach()}",
        "worker_class": "gthread",
        "workers": 1,
        "threads": THREADS,
        "graceful_timeout": GRACEFUL_SECONDS,
        "loglevel": "warning",
        "proc_name": "jiyi-web",
        "control_socket_disable": True,  # it would be a file in the home directory, shared by all copies
    }).run()  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
