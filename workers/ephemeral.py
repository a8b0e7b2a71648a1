"""A whole service for a while, in a folder of its own: for tests and benchmarks."""

from __future__ import annotations

import http.client
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from sqlalchemy import event

from engine.providers.embedders import embedder, embedder_of
from jiyi import Client
from jiyi.errors import JiyiError
from jiyi.polling import poll
from jiyi.settings import get_settings
from models.db.connection import engine, reading_engine, session_engine
from models.db.valkey import valkey
from models.queue.wakeups import own_app
from workers.embedded.stack import Stack
from workers.migrate import CHECKOUT, upgrade
from workers.procfile import commands
from workers.supervision.processes import wait_until

#: All processes at once read in all of the service: some 20 s of computing, and a machine that does much else
#: takes minutes.
START_SECONDS = 180
STOP_SECONDS = 15
#: Signals that end a run.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Ports below those that connections get by themselves: 32768 and above on Linux, 49152 and above elsewhere.
FIRST_PORT, PORTS, PORT_TRIES = 20_000, 12_000, 100


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A folder for one run, deleted however the run ends.

    SIGTERM and SIGHUP become ``SystemExit`` in the main thread, so that what was begun within ends too;
    further
    signals change nothing then.
    """
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ENDING if in_main}
    for number in before:
        signal.signal(number, _end)
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as path:
            yield Path(path)
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _end:  # else it is ending, and nothing may hold that up
                signal.signal(number, handler)


def _end(number: int, _frame: object) -> None:
    for each in ENDING:
        signal.signal(each, lambda *_: None)  # the run is being ended
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def environment(**settings: str) -> Iterator[None]:
    """``JIYI_…`` variables, by lower-case name, for this process and its children; undone afterwards."""
    before = dict(os.environ)
    if "database_url" in settings:  # another database's own address is not this one's
        settings = {"database_direct_url": "", **settings}
    os.environ.update({f"JIYI_{name.upper()}": value for name, value in settings.items()})
    forget()
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        forget()  # afterwards: what another thread makes meanwhile is not kept


def forget() -> None:
    """Drop what this process keeps of its settings: they have changed."""
    for connections in (*engine.made(), *reading_engine.made(), *session_engine.made()):
        # what a thread still has comes back to a pool that nobody keeps
        event.listen(connections.pool, "checkin", _close)
        connections.dispose()
    for client in valkey.made():
        client.close()
    engines = (engine, reading_engine, session_engine)
    for cached in (get_settings, *engines, valkey, own_app, embedder, embedder_of):
        cached.cache_clear()


def _close(connection: Any, _record: object) -> None:
    if connection is not None:
        connection.close()


@contextmanager
def database(home: Path, **settings: str) -> Iterator[Stack]:
    """Embedded PostgreSQL, migrated, and Valkey; this process's settings point to them."""
    own = {"secret_key": secrets.token_hex(), **settings, "home": str(home)}
    with Stack(home) as stack, environment(**own, **asdict(stack.urls)):
        upgrade()
        yield stack


@contextmanager
def processes(logs: Path, names: Sequence[str] | None = None) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The named processes (by default all but the web), ended afterwards; awaits that they answer."""
    names = [name for name in commands() if name != "web"] if names is None else names
    logs.mkdir(parents=True, exist_ok=True)
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            started[name] = start(name, logs)
        if "retrieval" in names:
            await_answers()
        yield started
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            process.kill()
            process.wait()


@contextmanager
def served(logs: Path, **settings: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The web as in production, and its port, once it answers. Raises TimeoutError with what it wrote."""
    with environment(web_port=str(free_port()), **settings):
        port = get_settings().web_port
        with processes(logs, ["web"]) as started:
            wait_until(lambda: answers(port) or started["web"].poll() is not None, START_SECONDS)
            if not answers(port):
                raise TimeoutError(f"no web on port {port}: {(logs / 'web.log').read_text(encoding='utf-8')}")
            yield port, started["web"]


def free_port() -> int:
    """A free port, outside of those that the system gives to connections."""
    for _ in range(PORT_TRIES):
        port = FIRST_PORT + secrets.randbelow(PORTS)
        with socket.socket() as probe, suppress(OSError):  # somebody has it
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"none of {PORT_TRIES} ports from {FIRST_PORT} on is free")


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start(name: str, logs: Path) -> subprocess.Popen[bytes]:
    with (logs / f"{name}.log").open("ab") as output:
        return begin(commands()[name], output)


def begin(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=output, stderr=subprocess.STDOUT)


def await_answers(seconds: float = START_SECONDS) -> None:
    """Return when a worker answers. Raises :class:`jiyi.errors.NoAnswer` after ``seconds``."""
    with Client() as client:

        def failure() -> JiyiError | None:
            try:
                client.within(1).agents.list(limit=1)
            except JiyiError as error:
                return error
            return None

        if (error := poll(failure, lambda error: error is None, seconds)) is not None:
            raise error
