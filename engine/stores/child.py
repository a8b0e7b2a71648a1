"""``python -m engine.stores.child``: parses the documents that its parent sends, one after the other, each
within its limits.

A program of its own rather than a fork of the worker, so that it has neither the worker's connections nor its
threads, and imports only what the parser needs. It ends with its parent, when it has had nothing to do for a
while, and after a document that took much memory.

Its standard input is a socket. A request is a line of JSON (parser, options, limits) with the document as an
open file. The answer is ``{"begun": true}``, a line of JSON for each part that the parser yields, then
``{"end": …}``.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from engine.stores.limits import MIB, ParseLimits, RefusedDocument

#: Each gets the document as a binary file and its options, and yields values of JSON.
Parser = Callable[..., Iterator[Any]]
#: Seconds without a document after which the child ends, so that workers keep no memory for rare work.
IDLE_SECONDS = 30
#: Bytes of resident memory after which a child is not used again: most allocators give little back.
REUSABLE_BYTES = 128 * MIB
#: The exit status when memory is so short that it cannot be said; ``EX_OSERR`` of ``sysexits.h``.
OUT_OF_MEMORY = os.EX_OSERR
#: Bytes of a request, at most.
_REQUEST = 1 << 16
#: Files that the child may have open: its socket, a document, and the modules that a parser imports.
_OPEN_FILES = 64
#: On Linux: pages of memory that this process has; the second number is of resident ones.
_MEMORY = Path("/proc/self/statm")


def main() -> None:
    """Answer requests until the parent is gone or sends none."""
    for signal_number in (signal.SIGIO, signal.SIGXCPU):
        signal.signal(signal_number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # what a document makes is no cycle, and looking for some in a large one takes most of the time
    gc.disable()
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        resource.setrlimit(limit, (value, value))
    parent = socket.socket(fileno=sys.stdin.fileno())
    while select.select([parent], [], [], IDLE_SECONDS)[0]:
        request, files, *_ = socket.recv_fds(parent, _REQUEST, 1)
        if not request:
            return
        with os.fdopen(files[0], "rb") as document, parent.makefile("wb") as answers:
            if not _answered(json.loads(request), document, parent.fileno(), answers):
                return


def _parser(name: str) -> Parser:
    """Imported within the limits of the document: its libraries are large."""
    if name == "document":
        from engine.stores.chunks import parse_document

        return parse_document
    from engine.stores.saved_files import parse_index, parse_items

    return {"items": parse_items, "index": parse_index}[name]


def _answered(request: dict[str, Any], document: BinaryIO, parent: int, answers: BinaryIO) -> bool:
    """Parse one document. Returns whether the process can parse another one."""
    answers.write(_line({"begun": True}))
    answers.flush()
    limits = ParseLimits(**request["limits"])
    end: dict[str, Any] = {"state": "ok"}
    room = limits.output_bytes
    _end_with_parent(parent, now=True)
    try:
        _bound(limits)
        for part in _parser(request["parser"])(document, **request["options"]):
            line = _line({"part": part})
            room -= len(line)
            if room < 0:
                end = {"state": "limit", "limit": "output"}
                break
            answers.write(line)
    except RefusedDocument as refusal:
        end = {"state": "refused", "as": refusal.state, "reason": refusal.reason}
    except MemoryError:
        end = {"state": "limit", "limit": "memory"}
    except Exception as error:  # noqa: BLE001 – a damaged document makes libraries raise nearly anything
        reason = f"it cannot be parsed ({type(error).__name__}): save it again"
        end = {"state": "refused", "as": "malformed", "reason": reason}
    except BaseException:  # noqa: BLE001 – libraries in Rust panic when they are left without memory
        end = {"state": "limit", "limit": "memory"}
    end["reusable"] = end.get("limit") != "memory" and _resident_bytes() < REUSABLE_BYTES
    _end_with_parent(parent, now=False)
    answers.write(_line({"end": end}))
    answers.flush()
    return bool(end["reusable"])


def _bound(limits: ParseLimits) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, resource.RLIM_INFINITY))
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))


def _end_with_parent(parent: int, *, now: bool) -> None:
    """From ``now`` on the kernel ends this process when the parent closes its socket, whatever code runs."""
    flags = fcntl.fcntl(parent, fcntl.F_GETFL)
    fcntl.fcntl(parent, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(parent, fcntl.F_SETFL, flags | os.O_ASYNC if now else flags & ~os.O_ASYNC)
    if now and select.select([parent], [], [], 0)[0]:  # it was closed before
        sys.exit()


def _line(value: Any) -> bytes:
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
    )


def _resident_bytes() -> int:
    """Memory that this process has now (its peak may be the parent's); 0 where the system does not say."""
    if not _MEMORY.exists():
        return 0
    return int(_MEMORY.read_text(encoding="ascii").split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    try:
        main()
    except MemoryError:  # too little is left even to report it
        os._exit(OUT_OF_MEMORY)
