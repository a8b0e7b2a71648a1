"""A RabbitMQ of one's own: Debian's, on ports of this machine that nobody uses, with its data in a folder of
its own.
"""

from __future__ import annotations

import os
import shutil
import signal as signals
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

from workers.ephemeral import free_port

#: Debian's own wrapper in /usr/sbin runs as another user.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: Erlang's names are told to whoever asks on this port; a daemon of our own, which ends with the server.
EPMD = shutil.which("epmd")
READY = "Server startup complete"
START_SECONDS, STOP_SECONDS, POLL_SECONDS = 180, 20, 0.05


def why_absent() -> str:
    """Why it cannot be started; empty if it can."""
    return (
        ""
        if SERVER.exists() and EPMD
        else "needs RabbitMQ: apt-get install --no-install-recommends rabbitmq-server"
    )


class RabbitMQ:
    """One broker that can be killed and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self._port, self.log = free_port(), folder / "rabbitmq.log"
        names = {
            "RABBITMQ_NODENAME": f"jiyi{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"
            ),
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
        self._folder, self._names = folder, os.environ | names
        self._epmd: subprocess.Popen[bytes] | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self._port}//"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it with an empty log, and wait until it is ready. RuntimeError with the log if it does not
        get so.
        """
        if self._epmd is None or self._epmd.poll() is not None:
            assert EPMD is not None
            self._epmd = subprocess.Popen(
                [EPMD, "-address", "127.0.0.1", "-port", self._names["ERL_EPMD_PORT"]], env=self._names
            )
        self.log.write_bytes(b"")
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [SERVER], cwd=self._folder, stdout=output, stderr=subprocess.STDOUT, env=self._names
            )
        deadline = time.monotonic() + START_SECONDS
        while READY not in (told := self.log.read_text(errors="replace")):
            if not self.running or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not get ready:\n{told}")
            time.sleep(POLL_SECONDS)

    def kill(self, number: int = signals.SIGKILL) -> None:
        """The script's child is the server: it gets the signal, and all are waited for."""
        if not self.running:
            return
        assert self.process is not None
        everything = [
            *psutil.Process(self.process.pid).children(recursive=True),
            psutil.Process(self.process.pid),
        ]
        for process in everything:
            with suppress(psutil.NoSuchProcess):
                if number == signals.SIGKILL or process.name().startswith(
                    "beam"
                ):  # which ends its helpers in good order
                    process.send_signal(number)
        _, left = psutil.wait_procs(everything, timeout=STOP_SECONDS, callback=lambda _: self.process.poll())
        for process in left:
            process.kill()
        self.process.wait(STOP_SECONDS)

    def restart(self) -> None:
        """As after a crash: to end in good order takes it half a minute."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it and its daemon of names."""
        self.kill(signals.SIGTERM)
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(STOP_SECONDS)
