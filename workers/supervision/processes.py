"""Look at processes and end them, also those that are not our children."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping

import psutil

from jiyi.polling import poll

KILL_SECONDS = 5.0  # SIGKILL takes effect at once unless the disk hangs.
POLL_SECONDS = 0.02  # how often a start or an end is looked for.


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


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition. Returns whether it has come true within ``seconds``."""
    return poll(condition, bool, seconds, first=POLL_SECONDS, last=POLL_SECONDS)
