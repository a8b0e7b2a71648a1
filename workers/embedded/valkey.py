"""The embedded Valkey: Celery's broker and the service's Redis, on a unix socket."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.parse import quote

import redis

from jiyi.settings import get_settings
from workers.embedded.folders import private_folder
from workers.embedded.programs import valkey_program
from workers.embedded.server import CLIENT_SECONDS, Server


class Valkey(Server):
    """Valkey on the unix socket ``listen_on``."""

    name = "valkey"
    start_seconds = 60.0  # loading a large append-only file.
    stop_signal = signal.SIGTERM

    def __init__(self, data: Path, log_dir: Path, listen_on: Path) -> None:
        super().__init__(data, log_dir)
        self._socket = listen_on

    @property
    def redis_url(self) -> str:
        return f"unix://{quote(str(self._socket))}?db=0"

    @property
    def broker_url(self) -> str:
        return f"redis+socket://{quote(str(self._socket))}?virtual_host=0"

    def start(self) -> None:
        private_folder(self.data)
        command = [str(valkey_program()), "--port", "0", "--unixsocket", str(self._socket)]
        command += ["--unixsocketperm", "700", "--dir", str(self.data), "--daemonize", "no"]
        # What each policy can lose, and costs: docs/deployment.md.
        command += ["--appendonly", "yes", "--appendfsync", get_settings().valkey_appendfsync, "--save", ""]
        command += ["--maxmemory-policy", "noeviction"]  # a broker must not drop keys
        self.run(command, self.data)

    def answers(self) -> bool:
        with redis.Redis(unix_socket_path=str(self._socket), socket_timeout=CLIENT_SECONDS) as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.TimeoutError):  # not there yet, or still loading its data
                return False
