"""What can go wrong on a bad day, done to the processes and servers of a running service: each fault by its
name.
"""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import LiteralString

import psutil
import psycopg
import redis

from bench.support.storm import valkey_faults
from bench.support.storm.programs import SERVERS, programs
from workers.embedded.stack import Stack

#: Seconds that what is paused, full or exhausted stays so, unless told otherwise.
PAUSE_SECONDS = 3.0
#: Seconds that a fault itself may wait for PostgreSQL: one that is away for another reason is not struck
#: again.
CONNECT_SECONDS = 2
#: Crashes of one target within its window: one more, and its supervisor would rightly give up.
MOST_CRASHES, WINDOW_SECONDS = 3, 60.0
#: What is done to a process or a server.
DEEDS = ("kill", "pause", "stop", "restart", "cut", "hang", "crash")
#: What costs seconds of computing: programs that start anew, PostgreSQL's recovery and its reconnected
#: sessions, a hundred connections.
HEAVY = ("kill", "stop", "restart", "crash", "no")

#: Does it, and tells whether there was something to strike.
Fault = Callable[[], bool]


class Faults:
    """The faults there are for one service.

    Args:
        stack: its embedded servers.
        names: its programs, started as :func:`named` says.
        more: faults of servers beside it.
        pause: seconds that what is paused, full or exhausted stays so.
        most_heavy: faults a minute that cost seconds of computing; None: as many as the supervision bears.
    """

    def __init__(
        self,
        stack: Stack,
        names: list[str],
        more: Mapping[str, Fault] | None = None,
        *,
        pause: float = PAUSE_SECONDS,
        most_heavy: int | None = None,
    ) -> None:
        self._address = stack.urls.database_url.replace("+psycopg", "")
        self._pause_seconds = pause
        self._most_heavy = most_heavy
        self._crashes: defaultdict[str, list[float]] = defaultdict(list)
        self._heavy: list[float] = []
        targets = [*names, *SERVERS]
        self.all: dict[str, Fault] = {
            **{f"kill {name}": partial(self._signal, name, signal.SIGKILL) for name in targets},
            **{f"pause {name}": partial(self._pause, name) for name in targets},
            **{f"stop {name}": partial(self._signal, name, signal.SIGTERM) for name in names},
            **{f"cut {name}": partial(self._cut, name) for name in names},
            **{f"hang {name}": partial(self._hang, name) for name in names},
            "cut valkey": valkey_faults.cut,
            "crash postgres": self._crash_postgres,
            "bindings lost": valkey_faults.lose_bindings,
            "Valkey full": self._for_a_while(valkey_faults.full),
            "Valkey's disk full": self._for_a_while(valkey_faults.disk_full),
            "no connection left": self._for_a_while(self._connections_exhausted),
            **(more or {}),
        }

    def strike(self, name: str) -> bool:
        """Do it; whether there was something to strike."""
        struck = self.all[name]()
        if struck and name.split(maxsplit=1)[0] in HEAVY:
            self._heavy.append(time.monotonic())
        return struck

    def may(self, name: str) -> bool:
        """Whether the target has not crashed too often lately, and faults as heavy as this have not been too
        many.
        """
        deed, _, target = name.partition(" ")
        if deed in HEAVY and self._most_heavy is not None and _lately(self._heavy) >= self._most_heavy:
            return False
        return _lately(self._crashes[target]) < MOST_CRASHES

    def _signal(self, name: str, number: signal.Signals) -> bool:
        with suppress(KeyError, psutil.NoSuchProcess):
            programs()[name].send_signal(number)
            self._crashes[name].append(time.monotonic())
            return True
        return False

    def _pause(self, name: str) -> bool:
        process = programs().get(name)
        return process is not None and self._suspend([process])

    def _suspend(self, processes: Iterable[psutil.Process]) -> bool:
        stopped = []
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped.append(process)
        if stopped:
            time.sleep(self._pause_seconds)
        for process in stopped:
            with suppress(psutil.NoSuchProcess):
                process.resume()
        return bool(stopped)

    def _cut(self, name: str) -> bool:
        """End a program's sessions of PostgreSQL, in the midst of what they are at."""
        return bool(
            self._ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", name
            )
        )

    def _hang(self, name: str) -> bool:
        """What serves a program's sessions stands still, with the locks that it holds."""
        found = []
        for (pid,) in self._ask("SELECT pid FROM pg_stat_activity WHERE application_name = %s", name):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return self._suspend(found)

    def _crash_postgres(self) -> bool:
        """One of its processes dies, as under the hand of a kernel without memory: PostgreSQL ends all
        sessions and recovers.
        """
        for (pid,) in self._ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = %s", "background writer"
        ):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
                self._crashes["postgres"].append(time.monotonic())
                return True
        return False

    def _ask(self, statement: LiteralString, value: str) -> list[tuple[int]]:
        with suppress(psycopg.Error), self._connect() as connection:
            return connection.execute(statement, (value,)).fetchall()
        return []

    def _for_a_while(self, outage: Callable[[], Iterator[None]]) -> Fault:
        def fault() -> bool:
            struck = False
            with suppress(redis.RedisError, psycopg.Error, OSError), contextmanager(outage)():
                struck = True
                time.sleep(self._pause_seconds)
            return struck

        return fault

    def _connections_exhausted(self) -> Iterator[None]:
        with ExitStack() as held:
            held.enter_context(self._connect())
            with suppress(psycopg.Error):
                while True:
                    held.enter_context(self._connect())
            yield

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self._address, connect_timeout=CONNECT_SECONDS)


def _lately(times: Iterable[float]) -> int:
    return sum(time.monotonic() - at < WINDOW_SECONDS for at in times)
