"""Parsing in child processes: a few that are used again and again, so that a document costs no start of an
interpreter. Works in threads and in forks, which begin without children.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from threading import BoundedSemaphore, Lock
from typing import Any, BinaryIO

from engine.stores.child import OUT_OF_MEMORY
from engine.stores.limits import MIB, LimitExceeded, ParseLimits, RefusedDocument

#: Documents that one process has parsed at a time; others wait. So many times
#: ``ParseLimits.memory_bytes`` is what hostile ones can take.
MAX_CHILDREN = 4
#: Bytes that are read from a child at once.
_READ = MIB
#: Of the environment, what a child needs to find its interpreter's modules; no secrets.
_ENVIRONMENT = frozenset(
    {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "VIRTUAL_ENV", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT", "TZ"}
)
_COMMAND = (sys.executable, "-P", "-m", "engine.stores.child")
#: Where the package is, for a child of a program that was started in its checkout.
_PACKAGES = str(Path(__file__).resolve().parents[2])


class _ChildGoneError(Exception):
    """The child was gone before it began."""


class _Child:
    def __init__(self) -> None:
        self.connection, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name in _ENVIRONMENT}
        with theirs:
            self.process = subprocess.Popen(
                _COMMAND,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**environment, "PYTHONPATH": _PACKAGES, "PYTHONDONTWRITEBYTECODE": "1"},
                process_group=0,  # what is typed into a terminal is for the parent
            )
        #: Whether it waits for a document, and whether it has parsed one.
        self.ready, self.used = True, False

    def parse(self, request: bytes, document: BinaryIO, limits: ParseLimits) -> Iterator[Any]:
        """The parts of one document, as they come.

        Raises:
            RefusedDocument: the parser will not have it, or it exceeds its limits.
            _ChildGoneError: it ended before it began, having had nothing to do.
        """
        self.ready = begun = False
        with suppress(BrokenPipeError):  # what it has to say is read below
            socket.send_fds(self.connection, [request], [document.fileno()])
        for line in self._lines(limits):
            answer = json.loads(line.decode("utf-8", "surrogatepass"))
            if "end" not in answer:
                begun = True
                if "part" in answer:
                    yield answer["part"]
                continue
            end = answer["end"]
            self.ready, self.used = end["reusable"], True
            if end["state"] == "refused":
                raise RefusedDocument(end["as"], end["reason"])
            if end["state"] == "limit":
                raise LimitExceeded(limits.sentence(end["limit"]))
            return
        code = self.process.wait()
        if not begun and self.used:
            raise _ChildGoneError
        if code < 0 or code == OUT_OF_MEMORY:  # libraries that are left without memory abort
            raise LimitExceeded(limits.sentence("cpu" if code == -signal.SIGXCPU else "memory"))
        raise RuntimeError(
            f"the parsing process ended with status {code}: start `{' '.join(_COMMAND)}` by hand to see why"
        )

    def _lines(self, limits: ParseLimits) -> Iterator[bytes]:
        """The lines of the answer; none any more when the child is gone."""
        remaining, room = limits.wall_seconds, limits.output_bytes + MIB
        line = bytearray()
        while remaining > 0:
            begun = time.monotonic()
            self.connection.settimeout(remaining)
            try:
                read = self.connection.recv(_READ)
            except TimeoutError:
                break
            except ConnectionResetError:
                return
            remaining -= (
                time.monotonic() - begun
            )  # only the wait for the child: who takes the parts may be slow
            room -= len(read)
            if room < 0:
                raise LimitExceeded(limits.sentence("output"))
            if not read:
                return
            *whole, rest = read.split(b"\n")
            for end in whole:
                yield bytes(line + end)
                line.clear()
            line += rest
        raise LimitExceeded(limits.sentence("wall"))

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Kill it, and wait for it: nothing is left of it."""
        self.process.kill()
        self.forget()
        self.process.wait()

    def forget(self) -> None:
        """Close this process's end of the socket."""
        self.connection.close()


class _Children:
    """The children of this process."""

    def __init__(self) -> None:
        self.idle: list[_Child] = []
        self._lock = Lock()
        self._free = BoundedSemaphore(MAX_CHILDREN)

    @contextmanager
    def child(self) -> Iterator[_Child]:
        """One that nobody else uses; it is ended afterwards unless it is ready for another document."""
        with self._free:
            child = self._take_child()
            try:
                yield child
            finally:
                if child.ready and child.alive:
                    with self._lock:
                        self.idle.append(child)
                else:
                    child.end()

    def _take_child(self) -> _Child:
        with self._lock:
            while self.idle:
                child = self.idle.pop()
                if child.alive:
                    return child
                child.end()
        return _Child()

    def end(self) -> None:
        """End those that wait for a document."""
        with self._lock:
            while self.idle:
                self.idle.pop().end()

    def forked(self) -> None:
        """These are the parent's children: close the sockets, so that they see when the parent is gone."""
        for child in self.idle:
            child.forget()
            child.process.returncode = 0  # nobody here is to wait for it
        self.__init__()  # type: ignore[misc]


pool = _Children()
os.register_at_fork(after_in_child=pool.forked)
atexit.register(pool.end)


def parse(parser: str, document: bytes | BinaryIO, limits: ParseLimits, **options: Any) -> Iterator[Any]:
    """What a parser yields of a document.

    Args:
        parser: ``document``, ``items`` or ``index``.
        document: its bytes, or an open file of the system.
        limits: the most that it may cost.
        options: the parser's; values of JSON.

    Raises:
        RefusedDocument: the parser will not have it.
        LimitExceeded: it costs more than ``limits``.
    """
    request = json.dumps({"parser": parser, "options": options, "limits": asdict(limits)}).encode()
    with ExitStack() as opened:
        if isinstance(document, bytes):
            file: BinaryIO = opened.enter_context(TemporaryFile(buffering=0))
            file.write(document)
        else:
            file = document
        while True:
            os.lseek(file.fileno(), 0, os.SEEK_SET)  # the child moves it
            with suppress(_ChildGoneError), pool.child() as child:
                yield from child.parse(request, file, limits)
                return
