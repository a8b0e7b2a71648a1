"""What can go wrong on a bad day, done to the processes and servers of a running service: each fault by its name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import redis

from models.db.valkey import valkey
from workers.embedded.stack import Stack

#: Seconds that what is paused, full or exhausted stays so.
PAUSE_SECONDS = 3.0
#: Crashes of one target within its window: one more, and its supervisor would rightly give up.
MOST_CRASHES, WINDOW_SECONDS = 3, 60.0
#: What is done to a process or a server.
DEEDS = ("kill", "pause", "stop", "restart")
SERVERS = {"postgres": "postgres", "valkey": "valkey-server"}

Fault = Callable[[], None]


def programs() -> dict[str, psutil.Process]:
    """The supervised programs that run now, and the servers, by name. Those that are just starting are not among them."""
    found = {}
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess, ValueError, IndexError):
            words = child.cmdline()
            if "workers.supervision.respawn" in words:
                found[words[words.index("workers.supervision.respawn") + 1]] = child.children()[0]
            for name, program in SERVERS.items():
                if child.name() == program:
                    found[name] = child
    return found


class Faults:
    """The faults there are for one service, with ``more`` of servers beside it."""

    def __init__(self, stack: Stack, names: list[str], more: Mapping[str, Fault] | None = None) -> None:
        self._stack = stack
        self._crashes: dict[str, list[float]] = {}
        targets = [*names, *SERVERS]
        self.all: dict[str, Fault] = {f"kill {name}": lambda name=name: self._signal(name, signal.SIGKILL) for name in targets}  # type: ignore[misc]
        self.all |= {f"pause {name}": lambda name=name: self._pause(name) for name in targets}  # type: ignore[misc]
        self.all |= {f"stop {name}": lambda name=name: self._signal(name, signal.SIGTERM) for name in names}  # type: ignore[misc]
        self.all |= {
            "bindings lost": _lose_bindings,
            "Valkey full": _for_a_while(_valkey_full),
            "Valkey's disk full": _for_a_while(_valkey_disk_full),
            "no connection left": _for_a_while(lambda: _connections_exhausted(stack)),
            **(more or {}),
        }

    def may(self, name: str) -> bool:
        """Whether the target has not crashed too often lately."""
        target = name.partition(" ")[2]
        recent = [at for at in self._crashes.get(target, []) if time.monotonic() - at < WINDOW_SECONDS]
        return len(recent) < MOST_CRASHES

    def _signal(self, name: str, number: signal.Signals) -> None:
        self._crashes.setdefault(name, []).append(time.monotonic())
        with suppress(KeyError, psutil.NoSuchProcess):
            programs()[name].send_signal(number)

    def _pause(self, name: str) -> None:
        with suppress(KeyError, psutil.NoSuchProcess):
            process = programs()[name]
            process.suspend()
            time.sleep(PAUSE_SECONDS)
            process.resume()


def _lose_bindings() -> None:
    with suppress(redis.RedisError):
        if keys := list(valkey().scan_iter("_kombu.binding.*")):
            valkey().delete(*keys)


def _for_a_while(outage: Callable[[], Iterator[None]]) -> Fault:
    def fault() -> None:
        with contextmanager(outage)():
            time.sleep(PAUSE_SECONDS)

    return fault


def _until_done(step: Callable[[], object]) -> None:
    """What takes an outage away must not fail because Valkey is just away for another reason."""
    for _ in range(100):
        with suppress(redis.RedisError):
            step()
            return
        time.sleep(0.1)


def _valkey_full() -> Iterator[None]:
    _until_done(lambda: valkey().config_set("maxmemory", "1"))
    yield
    _until_done(lambda: valkey().config_set("maxmemory", "0"))


def _valkey_disk_full() -> Iterator[None]:
    """As Valkey sees it: the last snapshot could not be written, so it takes no writes."""
    with suppress(redis.RedisError, OSError):
        obstacle = Path(str(valkey().config_get("dir")["dir"])) / "dump.rdb"
        obstacle.unlink(missing_ok=True)
        (obstacle / "in the way").mkdir(parents=True, exist_ok=True)
        valkey().config_set("save", "3600 1000000")
        valkey().bgsave()
    yield
    _until_done(lambda: valkey().config_set("save", ""))
    with suppress(OSError):
        (obstacle / "in the way").rmdir()
        obstacle.rmdir()


def _connections_exhausted(stack: Stack) -> Iterator[None]:
    address = stack.urls.database_url.replace("+psycopg", "")
    with ExitStack() as held:
        with suppress(psycopg.Error):
            while True:
                held.enter_context(psycopg.connect(address, connect_timeout=2))
        yield
