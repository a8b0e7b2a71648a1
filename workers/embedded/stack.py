"""PostgreSQL 18 with pgvector and Valkey, run from their wheels inside one folder, on unix sockets only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psutil
import redis

from jiyi.settings import EMBEDDED_DATA, get_settings
from workers.embedded.folders import (
    HomeInUse,
    HomeLock,
    StackError,
    make_traversable,
    private_folder,
    private_home,
    socket_folder,
)
from workers.embedded.postgres import LONGEST_SOCKET, Postgres, unfinished_folder
from workers.embedded.server import (
    CLIENT_SECONDS,
    SERVER_STOP_SECONDS,
    ProcessNotes,
    Server,
    end_leftovers,
    valkey_program,
)
from workers.supervision.processes import KILL_SECONDS, end_processes
from workers.supervision.restarts import MAX_CRASHES, TOO_OFTEN, Restarts, describe

__all__ = ["HomeInUse", "Stack", "StackError", "Urls"]
TICK_SECONDS = 0.2  # how often each server is looked at.


@dataclass(frozen=True)
class Urls:
    """Where the embedded servers answer."""

    database_url: str
    redis_url: str
    broker_url: str


class Stack:
    """The two servers of one home (``postgres``, ``valkey``, ``run``, ``log``); a context manager."""

    def __init__(self, home: Path) -> None:
        self.home = Path(os.path.realpath(home.expanduser()))
        self.run_dir = self.home / "run"
        self.log_dir = self.home / "log"
        self._notes = ProcessNotes(self.run_dir / "processes.json")
        self._lock: HomeLock | None = None
        self._sockets = self.run_dir
        self._servers: list[Server] = []
        self._urls: Urls | None = None
        self._watch: ServerWatch | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def urls(self) -> Urls:
        """Where the servers answer. Raises StackError when they are not started."""
        if self._urls is None:
            raise StackError(f"The stack in {self.home} is not started: call start() first.")
        return self._urls

    def start(self) -> Urls:
        """Start both servers, wait until they answer, and return their addresses.

        Raises:
            HomeInUse: another running copy owns the home.
            StackError: the folder cannot be used, or a server does not start.
        """
        if self._lock is not None:
            raise StackError(f"The stack in {self.home} is already started: call stop() first.")
        try:
            self._urls = self._start()
        except OSError as error:
            self.stop()
            hint = f"Jiyi keeps its data in {self.home}; set JIYI_HOME to a folder that you may write to."
            raise StackError(f"{error.filename or self.home}: {error.strerror or error}. {hint}") from error
        except BaseException:
            self.stop()
            raise
        return self._urls

    def stop(self) -> None:
        """Stop both servers and release the home. Harmless when nothing, or only a part, has been started."""
        if self._lock is None:
            return
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        children = {server.child: server.stop_signal for server in self._servers if server.child is not None}
        running: dict[psutil.Process, int | None] = {}
        for child, number in children.items():
            with suppress(psutil.NoSuchProcess):
                if child.poll() is None:
                    running[psutil.Process(child.pid)] = number
        end_processes(running, SERVER_STOP_SECONDS)
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(KILL_SECONDS)
        self._servers.clear()
        self._urls = None
        self._notes.clear()
        if self._sockets != self.run_dir:
            shutil.rmtree(self._sockets, ignore_errors=True)
        self._lock.release()
        self._lock = None

    def track(self, pid: int, role: str = "application") -> None:
        """Note a session's leader, so that the next start ends what a crash leaves of it."""
        if self._lock is None:
            raise StackError(f"The stack in {self.home} is not started: call start() before track().")
        self._notes.add(pid, role)

    def watch(self, say: Callable[[str], None], give_up: Callable[[str], None]) -> None:
        """Restart servers that end, until :meth:`stop`; ``say`` and ``give_up`` get lines for people."""
        self._watch = ServerWatch(self._servers, say, give_up)

    def announce(self, admin_url: str) -> None:
        """Store this copy's admin address for a second copy that tries the same home."""
        if self._lock is not None:
            self._lock.announce(admin_url)

    def _start(self) -> Urls:
        private_home(self.home)
        private_folder(self.run_dir, make_traversable())
        private_folder(self.log_dir)
        self._lock = HomeLock(self.home, self.run_dir / "lock")
        self._sockets = socket_folder(self.home, self.run_dir, longest=f"postgres/{LONGEST_SOCKET}")
        postgres = Postgres(self.home / EMBEDDED_DATA, self.log_dir, self._sockets / "postgres")
        valkey = Valkey(self.home / "valkey", self.log_dir, self._sockets / "valkey.sock")
        self._servers = [postgres, valkey]
        end_leftovers(self._notes, [postgres.data, unfinished_folder(postgres.data), valkey.data])
        for server in self._servers:  # both at once: each takes its time
            server.start()
        for server in self._servers:
            server.await_answers()
        postgres.create_database()
        return Urls(postgres.url, valkey.redis_url, valkey.broker_url)


class ServerWatch:
    """A thread for each running server, until :meth:`stop`, as :meth:`Stack.watch` says."""

    def __init__(
        self, servers: Iterable[Server], say: Callable[[str], None], give_up: Callable[[str], None]
    ) -> None:
        self._say, self._give_up = say, give_up
        self._stop = threading.Event()
        #: Held while a server is started, so that none is after :meth:`stop`.
        self._starting = threading.Lock()
        for server in servers:
            name = f"watch-{server.name}"
            threading.Thread(target=self._watch, args=(server,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Start nothing any more; the servers may now be ended."""
        with self._starting:
            self._stop.set()

    def _watch(self, server: Server) -> None:
        restarts, began, failed_starts, problem = Restarts(), time.monotonic(), 0, ""
        while not self._stop.wait(TICK_SECONDS):
            child = server.child
            if child is None or child.poll() is None:  # poll() reaps it
                continue
            ended = describe(child.returncode)
            # Only we ask a server to end, so a clean exit is a crash here.
            pause = restarts.pause(child.returncode or 1, began, time.monotonic())
            if pause is None or failed_starts >= MAX_CRASHES:
                reason = f"the embedded {server.name} cannot live: {problem or ended}, {TOO_OFTEN}"
                self._give_up(f"{reason}. Its log: {server.log}")
                return
            self._say(f"the embedded {server.name} is away: {ended}; starting it again in {pause:g} s")
            if self._stop.wait(pause):
                return
            began = time.monotonic()
            try:
                self._restart(server)
            except (StackError, OSError) as error:
                failed_starts += 1
                problem = str(error).partition(" Last lines of ")[0].rstrip(".")
            else:
                failed_starts, problem = 0, ""

    def _restart(self, server: Server) -> None:
        server.end_leftovers()
        with self._starting:
            if self._stop.is_set():
                return
            server.restart()
        try:
            server.await_answers()
        except StackError:
            if server.child is not None and not self._stop.is_set():
                # one that does not answer is as good as dead, and the next one needs its place
                server.child.kill()
                server.child.wait()
            raise
        if not self._stop.is_set():
            self._say(f"the embedded {server.name} is back")


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
