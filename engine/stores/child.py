"""``python -m engine.stores.child``: parses the documents that its parent sends, one after the other, each
within its limits.

It is a program of its own rather than a fork of the worker, so that it has neither the worker's connections
nor its threads, and it imports nothing but what the parser needs. It ends with its parent, when it has had
nothing to do for a while, and after a document that took much memory.

A request is a line of JSON (parser, options, limits), then the document in blocks: four bytes with a block's
length, the block; a length of 0 ends it. The answer is ``{"begun": true}``, a line of JSON for
each part that the parser yields, then a last one: ``{"end": …}``.
"""

from __future__ import annotations

import fcntl
import gc
import io
import json
import os
import resource
import select
import signal
import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from engine.stores.limits import MIB, Limits, Refused

#: Parsers by name: module and function. Each gets the document as a binary file and its options, and yields
#: values of JSON.
PARSERS: Final = {
    "document": ("engine.stores.chunks", "parse_document"),
    "items": ("engine.stores.saved_files", "parse_items"),
    "index": ("engine.stores.saved_files", "parse_index"),
}
LENGTH: Final = struct.Struct("!I")
#: Seconds without a document after which the child ends, so that no worker keeps memory for what it rarely
#: does.
IDLE_SECONDS = 30
#: Bytes of resident memory after which a child is not used again: most allocators do not give back what one
#: document took.
REUSABLE_BYTES = 128 * MIB
#: What the process ends with when it cannot even say that memory is at its end; of ``sysexits.h``, an error
#: of the system.
OUT_OF_MEMORY = 71
#: Files that the child may have open: its pipes, and the modules that a parser imports.
_OPEN_FILES = 64
#: On Linux: pages of memory that this process has, the second number those that are resident.
_MEMORY = Path("/proc/self/statm")
#: Bytes that are read of a pipe at once.
_PIPE_BYTES = 1 << 16


class Document(io.RawIOBase):
    """The document that is being sent, as a file that can be read once."""

    def __init__(self, pipe: io.BufferedReader) -> None:
        super().__init__()
        self._pipe = pipe
        #: Bytes of the current block that were not read yet.
        self._left = 0
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left and not self.ended:
            (self._left,) = LENGTH.unpack(_exactly(self._pipe, LENGTH.size))
            self.ended = not self._left
            if self.ended:
                _end_with_parent(self._pipe.fileno(), now=True)
        if self.ended:
            return 0
        view = memoryview(buffer)[: self._left]
        count = self._pipe.readinto(view) or 0
        if not count:
            raise EOFError
        self._left -= count
        return count


def main() -> None:
    """Answer requests until the parent is gone or sends none."""
    pipe, answers = _pipes()
    # what a document makes is no cycle, and looking for some in a large one takes most of the time
    gc.disable()
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        resource.setrlimit(limit, (value, value))
    while select.select([pipe], [], [], IDLE_SECONDS)[0]:
        line = pipe.readline()
        if not line or not _answered(json.loads(line), pipe, answers):
            return


def _pipes() -> tuple[io.BufferedReader, io.BufferedWriter]:
    """Where requests come from and answers go to; what a library prints goes nowhere."""
    for signal_number in (signal.SIGIO, signal.SIGXCPU):
        signal.signal(signal_number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for printed in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(nowhere, printed)
    return io.BufferedReader(io.FileIO(os.dup(sys.stdin.fileno())), _PIPE_BYTES), answers


def _answered(request: dict[str, Any], pipe: io.BufferedReader, answers: io.BufferedWriter) -> bool:
    """Parse one document. Returns whether the process can parse another one."""
    answers.write(_line({"begun": True}))
    answers.flush()
    limits = Limits(**request["limits"])
    document = Document(pipe)
    end: dict[str, Any] = {"state": "ok"}
    room = limits.output_bytes
    try:
        _bound(limits)
        parser = getattr(import_module(PARSERS[request["parser"]][0]), PARSERS[request["parser"]][1])
        for part in parser(io.BufferedReader(document, _PIPE_BYTES), **request["options"]):
            line = _line({"part": part})
            room -= len(line)
            if room < 0:
                end = {"state": "limit", "limit": "output"}
                break
            answers.write(line)
    except Refused as refusal:
        end = {"state": "refused", "as": refusal.state, "reason": refusal.reason}
    except EOFError:
        return False
    except MemoryError:
        end = {"state": "limit", "limit": "memory"}
    except Exception as error:  # noqa: BLE001 – a damaged document makes libraries raise nearly anything
        end = {
            "state": "refused",
            "as": "malformed",
            "reason": f"it cannot be parsed ({type(error).__name__}): save it anew",
        }
    except BaseException:  # noqa: BLE001 – libraries in Rust panic when they are left without memory
        end = {"state": "limit", "limit": "memory"}
    # What is left of a document that was refused early would be taken for the next request.
    end["reusable"] = document.ended and end.get("limit") != "memory" and _resident_bytes() < REUSABLE_BYTES
    _end_with_parent(pipe.fileno(), now=False)
    answers.write(_line({"end": end}))
    answers.flush()
    return bool(end["reusable"])


def _bound(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, resource.RLIM_INFINITY))
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))


def _end_with_parent(pipe: int, *, now: bool) -> None:
    """From ``now`` on the kernel ends this process as soon as the parent's end of the pipe is closed,
    whatever code is running.

    Only while a whole document is here: the same signal says that something was sent.
    """
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC if now else flags & ~os.O_ASYNC)
    if now and select.select([pipe], [], [], 0)[0]:  # it was closed before
        raise EOFError


def _exactly(pipe: io.BufferedReader, count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _line(value: Any) -> bytes:
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
    )


def _resident_bytes() -> int:
    """Memory that this process has; 0 where the system does not say. Its peak would be the parent's, which an
    ``exec`` keeps.
    """
    if not _MEMORY.exists():
        return 0
    return int(_MEMORY.read_text(encoding="ascii").split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    try:
        main()
    except MemoryError:  # so little is left that it could not even be told
        os._exit(OUT_OF_MEMORY)
