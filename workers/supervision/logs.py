"""Log files of the processes: opened without growing for ever, and their last lines shown."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

LOG_BYTES = 10 * 1024 * 1024  # a log larger than this is set aside at the next start.
TAIL_LINES = 15  # enough to show the cause, short enough for a terminal.
TAIL_BYTES = 16 * 1024  # read at most this much to find those lines.


def open_log(path: Path) -> BinaryIO:
    """Open a log file for appending, its owner's alone; one that has grown past LOG_BYTES becomes ``<name>.1`` first."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    opened = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")
    with contextlib.suppress(PermissionError):  # it is there already, and somebody else's: another user ran Jiyi before
        os.fchmod(opened.fileno(), 0o600)
    return opened


def tail(path: Path, start: int) -> str:
    """The last lines of a log, indented, but none from before the byte ``start``."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines) or "  (nothing)"
