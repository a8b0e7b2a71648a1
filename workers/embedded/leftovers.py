"""What a crashed copy has left running: noted in ``processes.json``, found, and ended by the next start."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil

from jiyi.protocol.base import JsonMapping, JsonObject
from workers.supervision.processes import end_processes, is_alive, session_members

log = logging.getLogger(__name__)

APPLICATION_STOP_SECONDS = 8.0  # a left-over worker finishes its batch; then SIGKILL (work stays owed).
SERVER_STOP_SECONDS = 20.0  # fast shutdown writes a checkpoint; then SIGKILL (nothing committed is lost).
CREATE_TIME_SLACK = 5.0  # seconds the system clock may be corrected by between two looks at one process.
#: The servers' programs, and the signal that stops each (SIGINT: PostgreSQL's fast shutdown).
SERVER_SIGNALS = {"postgres": signal.SIGINT, "initdb": signal.SIGINT, "valkey-server": signal.SIGTERM}


class ProcessNotes:
    """``processes.json``: the sessions that a running copy has begun."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._notes: list[JsonObject] = []

    def add(self, pid: int, role: str) -> None:
        """Note a session's leader; nothing happens if it has ended already."""
        try:
            created = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return
        self._notes.append({"pid": pid, "create_time": created, "boot": _boot_id(), "role": role})
        unfinished = self._path.with_suffix(".new")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(self._notes), encoding="utf-8")
        unfinished.replace(self._path)  # whole or not at all: a crash may come between

    def read(self) -> list[JsonObject]:
        """What an earlier copy has noted; nothing if a crash of the machine has damaged the file."""
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return []
        return entries if isinstance(entries, list) else []

    def clear(self) -> None:
        self._notes.clear()
        self._path.unlink(missing_ok=True)


def end_leftovers(notes: ProcessNotes, folders: Iterable[Path]) -> None:
    """End what a crashed copy has left. Only for who holds the home's lock: it proves that nobody needs them.

    Args:
        notes: the applications that it had started.
        folders: the servers are those that work in one of these.
    """
    applications = {process: number for note in notes.read() for process, number in _session(note).items()}
    if applications:
        log.warning("ending %d processes left by a crash", len(applications))
    end_processes(applications, APPLICATION_STOP_SECONDS)
    end_servers(folders)
    notes.clear()


def end_servers(folders: Iterable[Path]) -> None:
    """End the servers that work in one of the folders, and wait until their last process has gone."""
    servers = _servers(folders)
    if servers:
        log.warning("ending %d processes of servers left by a crash", len(servers))
    end_processes(servers, SERVER_STOP_SECONDS)


def _session(note: JsonMapping) -> dict[psutil.Process, int | None]:
    """What is left of a noted session; its leader, if alive, is asked to end, and ends its children."""
    pid, created = note.get("pid"), note.get("create_time")
    if not isinstance(pid, int) or not isinstance(created, float) or note.get("boot") != _boot_id():
        return {}
    members = {process.pid: process for process in session_members(pid)}
    try:
        if pid in members and abs(members[pid].create_time() - created) > CREATE_TIME_SLACK:
            return {}  # the number belongs to somebody else by now
        ours = [p for p in members.values() if p.create_time() >= created - CREATE_TIME_SLACK]
    except psutil.NoSuchProcess:  # one has ended while we looked
        return _session(note)
    return {p: signal.SIGTERM if p.pid == pid or pid not in members else None for p in ours}


def _servers(folders: Iterable[Path]) -> dict[psutil.Process, int | None]:
    """Servers that work in the folders, with the signal that stops each."""
    entries: dict[psutil.Process, int | None] = {}
    places = {name for folder in folders for name in (str(folder), os.path.realpath(folder))}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.name() not in SERVER_SIGNALS or not is_alive(process):
                continue
            command = process.cmdline()
            try:
                ours = process.cwd() in places
            except psutil.AccessDenied:  # root in a container may lack the right to look
                ours = any(argument in places for argument in command)
            if ours:
                # PostgreSQL's helper processes end with their postmaster; a signal would confuse them.
                helper = bool(command) and command[0].startswith("postgres: ")
                entries[process] = None if helper else SERVER_SIGNALS[process.name()]
    return entries


def _boot_id() -> str:
    """Process ids mean nothing after a reboot or in another container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux
        return str(round(psutil.boot_time()))
