"""A RabbitMQ of the tests' own: Debian's, on ports of this machine that nobody uses, with its data in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal as signals
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.smoke.nodes import STOP_SECONDS, ProcessNode
from workers.ephemeral import free_port

#: Debian's own wrapper in /usr/sbin runs as another user.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: Erlang's names are told to whoever asks on this port; a daemon of our own, which ends with the tests.
EPMD = shutil.which("epmd")


def why_absent() -> str:
    """Why it cannot be started; empty if it can."""
    return "" if SERVER.exists() and EPMD else "needs RabbitMQ: apt-get install --no-install-recommends rabbitmq-server"


class RabbitNode(ProcessNode):
    """One broker that can be killed and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        names = {
            "RABBITMQ_NODENAME": f"jiyi{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(free_port()),
            "HOME": str(folder),
        }
        (folder / "plugins").write_text("[].\n")
        self._names = os.environ | names
        self._epmd: subprocess.Popen[bytes] | None = None
        super().__init__("rabbitmq", [str(SERVER)], folder / "rabbitmq.log", "Server startup complete", folder)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self._port}//"

    def start(self, extra: Mapping[str, str] | None = None, command: Sequence[str] | None = None) -> None:
        if self._epmd is None or self._epmd.poll() is not None:
            assert EPMD is not None
            self._epmd = subprocess.Popen([EPMD, "-address", "127.0.0.1", "-port", self._names["ERL_EPMD_PORT"]], env=self._names)
        super().start({**self._names, **(extra or {})}, command)

    def kill(self, signal: str | int = "SIGKILL") -> None:
        """The script's child is the server: it gets the signal, and all are waited for."""
        if self.status != "running":
            return
        everything = [*psutil.Process(self.pid).children(recursive=True), psutil.Process(self.pid)]
        number = getattr(signals, signal) if isinstance(signal, str) else signal
        for process in everything:
            with suppress(psutil.NoSuchProcess):
                if number == signals.SIGKILL or process.name().startswith("beam"):  # which ends its helpers in good order
                    process.send_signal(number)
        assert self._process is not None
        _, left = psutil.wait_procs(everything, timeout=STOP_SECONDS, callback=lambda _: self._process.poll())  # type: ignore[union-attr]
        for process in left:
            process.kill()
        self._process.wait(STOP_SECONDS)

    def restart(self, timeout: int = STOP_SECONDS) -> None:
        """As after a crash: to end in good order takes it half a minute."""
        self.kill()
        self.start()

    def teardown(self) -> None:
        self.kill("SIGTERM")
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(STOP_SECONDS)
