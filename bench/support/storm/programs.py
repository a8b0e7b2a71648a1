"""The programs and servers of a running service, found among the processes that this one has started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import psutil

SERVERS = {"postgres": "postgres", "valkey": "valkey-server"}


def named(commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The commands, each of which names its sessions of PostgreSQL, so that those of one program can be ended."""
    return {name: ["env", f"PGAPPNAME={name}", *command] for name, command in commands.items()}


def programs() -> dict[str, psutil.Process]:
    """The supervised programs that run now, and the servers, by name. Those that are just starting are not among them."""
    found: dict[str, psutil.Process] = {}
    own = psutil.Process()
    everything = own.children(recursive=True)  # one look at all of the machine's processes, which takes its time
    parents = {child.pid: _parent(child) for child in everything}
    for child in everything:
        with suppress(psutil.NoSuchProcess, ValueError, IndexError, StopIteration):
            if parents[child.pid] != own.pid:
                continue
            words = child.cmdline()
            if "workers.supervision.respawn" in words:
                name = words[words.index("workers.supervision.respawn") + 1]
                found[name] = next(program for program in everything if parents[program.pid] == child.pid)
            for name, executable in SERVERS.items():
                if child.name() == executable:
                    found[name] = child
    return found


def _parent(process: psutil.Process) -> int | None:
    with suppress(psutil.NoSuchProcess):
        return int(process.ppid())
    return None
