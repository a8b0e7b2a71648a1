"""Parsing in child processes: a few that are used again and again, so that a document costs no start of an
interpreter.

Works in threads and in processes that were forked: a fork begins without children.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, BinaryIO

from engine.stores.child import LENGTH, OUT_OF_MEMORY
from engine.stores.limits import MIB, LimitExceeded, Limits, Refused

#: Documents that one process has parsed at a time; others wait. Together with the memory of each: what
#: hostile ones can take.
MAX_CHILDREN = 4
#: Bytes of a document that are sent at once.
_BLOCK = MIB
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
        kept = {name: value for name, value in os.environ.items() if name in _ENVIRONMENT}
        self.process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "PYTHONPATH": _PACKAGES, "PYTHONDONTWRITEBYTECODE": "1"},
            bufsize=0,
            process_group=0,  # what is typed into a terminal is for the parent
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        os.set_blocking(self._in.fileno(), False)
        #: Whether it waits for a document, and whether it has parsed one.
        self.ready, self.used = True, False

    def parse(self, request: bytes, document: Iterator[bytes], limits: Limits) -> Iterator[Any]:
        """The parts of one document, as they come.

        Raises:
            Refused: the parser will not have it, or it exceeds its limits.
            _ChildGoneError: it ended before it began, having had nothing to do.
        """
        self.ready = False
        lines = self._lines(request, document, limits)
        begun = False
        for line in lines:
            answer = json.loads(line.decode("utf-8", "surrogatepass"))
            if "end" not in answer:
                begun = True
                if "part" in answer:
                    yield answer["part"]
                continue
            end = answer["end"]
            self.ready, self.used = end["reusable"], True
            if end["state"] == "refused":
                raise Refused(end["as"], end["reason"])
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

    def _lines(self, request: bytes, document: Iterator[bytes], limits: Limits) -> Iterator[bytes]:
        """The lines of the answer, while the document is sent; none any more when the child is gone."""
        left, room = limits.wall_seconds, limits.output_bytes + MIB
        unsent = memoryview(request)
        line = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            selector.register(self._in, selectors.EVENT_WRITE)
            sending = True
            while True:
                begun = time.monotonic()
                events = {key.fileobj for key, _ in selector.select(max(left, 0.0))}
                left -= (
                    time.monotonic() - begun
                )  # only what was waited for the child: who takes the parts may be slow
                if left <= 0:
                    raise LimitExceeded(limits.sentence("wall"))
                if sending and self._in in events:
                    if not unsent:
                        unsent = memoryview(next(document, b""))
                    written = self._write(unsent) if unsent else None
                    unsent = unsent[written:]
                    if written is None:
                        sending = False
                        selector.unregister(self._in)
                if self._out in events:
                    read = os.read(self._out.fileno(), _READ)
                    if not read:
                        return
                    room -= len(read)
                    if room < 0:
                        raise LimitExceeded(limits.sentence("output"))
                    *whole, rest = read.split(b"\n")
                    for child in whole:
                        yield bytes(line + child)
                        line.clear()
                    line += rest

    def _write(self, data: memoryview) -> int | None:
        """Send some of it. Returns how many bytes; None if the child reads no more: what it has to say is
        still to be read.
        """
        try:
            return os.write(self._in.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Kill it, and wait for it: nothing is left of it."""
        self.process.kill()
        self.forget()
        self.process.wait()

    def forget(self) -> None:
        """Close this process's ends of its pipes."""
        self._in.close()
        self._out.close()


class _Children:
    """The children of this process."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._lock = Lock()
        self._free = BoundedSemaphore(MAX_CHILDREN)

    @contextmanager
    def child(self) -> Iterator[_Child]:
        """One that nobody else uses meanwhile; waits for it. It is ended unless it is ready for another
        document.
        """
        with self._free:
            child = self._taken()
            try:
                yield child
            finally:
                if child.ready and child.alive:
                    with self._lock:
                        self._idle.append(child)
                else:
                    child.end()

    def _taken(self) -> _Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    return child
                child.end()
        return _Child()

    def end(self) -> None:
        """End those that wait for a document."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def forked(self) -> None:
        """In a fork: these are the parent's children, who must see that their pipes close when the parent is
        gone.
        """
        for child in self._idle:
            child.forget()
            child.process.returncode = 0  # nobody here is to wait for it
        self.__init__()  # type: ignore[misc]


_children = _Children()
os.register_at_fork(after_in_child=_children.forked)
atexit.register(_children.end)


def parse(parser: str, document: bytes | BinaryIO, limits: Limits, **options: Any) -> Iterator[Any]:
    """What a parser yields of a document.

    Args:
        parser: a name of :data:`engine.stores.child.PARSERS`.
        document: its bytes, or a file that is sent while it is read.
        limits: the most that it may cost.
        options: the parser's; values of JSON.

    Raises:
        Refused: the parser will not have it.
        LimitExceeded: it costs more than ``limits``.
    """
    request = json.dumps({"parser": parser, "options": options, "limits": asdict(limits)}).encode() + b"\n"
    while True:
        try:
            with _children.child() as child:
                yield from child.parse(request, _blocks(document), limits)
        except (
            _ChildGoneError
        ):  # it ended, having had nothing to do, just when it was taken: nothing was parsed yet
            if not isinstance(document, bytes):
                document.seek(0)
            continue
        return


def _blocks(document: bytes | BinaryIO) -> Iterator[bytes]:
    """The document as it is sent: each block after its length, a length of 0 at the end."""
    if isinstance(document, bytes):
        if document:
            yield LENGTH.pack(len(document)) + document
    else:
        while block := document.read(_BLOCK):
            yield LENGTH.pack(len(block)) + block
    yield LENGTH.pack(0)
