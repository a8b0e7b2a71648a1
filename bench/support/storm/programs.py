"""The programs and servers of a running service, found among the processes that this one has started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import psutil

SERVERS = {"postgres": "postgres", "valkey": "valkey-server"}


def named(commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The commands, each of which names its sessions of PostgreSQL, so that those of one program can be
    ended.
    """
    return {name: ["env", f"PGAPPNAME={name}", *command] for name, command in commands.items()}


def programs() -> dict[str, psutil.Process]:
    """The supervised programs that run now, and the servers, by name. Those that are just starting are not
    among them.
    """
    found: dict[str, psutil.Process] = {}
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if name := child.environ().get("PGAPPNAME"):
                found[name] = child
            for name, executable in SERVERS.items():
                if child.name() == executable:
                    found[name] = child
    return found
