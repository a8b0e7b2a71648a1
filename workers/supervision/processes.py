"""Look at processes and end them, also those that are not our children."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import psutil

from jiyi.polling import poll

KILL_SECONDS = 5.0  # SIGKILL takes effect at once unless the disk hangs.
POLL_SECONDS = 0.02  # how often a start or an end is looked for.
#: The priority of this process's session, where Linux shares out cores by session first: ``nice`` then counts
#: within one only.
AUTOGROUP = Path("/proc/self/autogroup")
log = logging.getLogger("jiyi.processes")


def session_members(leader: int) -> list[psutil.Process]:
    """Every process of the session that ``leader`` has begun, whether or not the leader still lives."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if pid != os.getpid() and os.getsid(pid) == leader:
                members.append(psutil.Process(pid))
    return members


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs. A zombie, which some containers never reap, counts as gone."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to each process that is still there, and that we may kill."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.kill()


def end_processes(processes: Mapping[psutil.Process, int | None], seconds: float) -> None:
    """Send each process its signal (None: only wait), then SIGKILL what is left after ``seconds``."""
    for process, number in processes.items():
        if number is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
    for patience in (seconds, KILL_SECONDS):
        if wait_until(lambda: not any(map(is_alive, processes)), patience):
            return
        kill(processes)


def lower_priority(by: int) -> None:
    """Let others go first, ``by`` as of ``nice``; other sessions, too, unless this is a terminal's."""
    os.nice(by)
    if AUTOGROUP.exists() and psutil.Process().terminal() is None:
        try:
            AUTOGROUP.write_text(str(by), encoding="ascii")
        except OSError as error:  # read-only in some containers, where cores are shared out among these
            log.debug("the session keeps its priority: %s", error)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition. Returns whether it has come true within ``seconds``."""
    return poll(condition, bool, seconds, first=POLL_SECONDS, last=POLL_SECONDS)


LOG_BYTES = 10 * 1024 * 1024  # a log larger than this is set aside at the next start.
TAIL_LINES = 15  # enough to show the cause, short enough for a terminal.
TAIL_BYTES = 16 * 1024  # read at most this much to find those lines.


def open_log(path: Path) -> BinaryIO:
    """Open a private log file for appending; one past LOG_BYTES becomes ``<name>.1`` first."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    opened = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")
    # it is there already, and somebody else's: another user ran Jiyi before
    with contextlib.suppress(PermissionError):
        os.fchmod(opened.fileno(), 0o600)
    return opened


def tail(path: Path, start: int) -> str:
    """The last lines of a log, indented, but none from before the byte ``start``."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines) or "  (nothing)"
