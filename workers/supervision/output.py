"""What the processes print: shown in the terminal, each line with its process's name, and kept in log files."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable
from datetime import datetime
from typing import BinaryIO

from honcho.printer import Message, Printer

SYSTEM = "system"  # name before the supervisor's own lines.


class Output:
    """The terminal, shared by the threads that read from the processes.

    Args:
        names: the processes' names.
        quiet: print nothing; the log files have it anyway.
    """

    def __init__(self, names: Iterable[str], *, quiet: bool) -> None:
        self._quiet = quiet
        self._gone = False
        self._printer = Printer(sys.stdout, width=max(map(len, [*names, SYSTEM])))
        self._guard = threading.Lock()

    def copy(self, lines: Iterable[bytes], name: str, colour: str, log: BinaryIO | None) -> None:
        """Show and keep what one process prints, until its output ends."""
        for line in lines:
            if log is not None:
                # A full disk must not stop the reading: the process would block on its output.
                with contextlib.suppress(OSError):
                    log.write(line)
                    log.flush()
            self.show(line, name, colour)

    def show(self, line: str | bytes, name: str = SYSTEM, colour: str | None = None, *, always: bool = False) -> None:
        """Print one line; ``always``: even if the rest is kept out of the terminal."""
        if self._gone or (self._quiet and not always):
            return
        with self._guard:
            try:
                now = datetime.now().astimezone()
                self._printer.write(Message(type="line", data=line, time=now, name=name, colour=colour))
            except (OSError, ValueError):  # the terminal is gone; the processes need not end for that
                self._gone = True
