"""A private service for one run, and what it ran on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from jiyi import Client
from jiyi.protocol.accounts import CreateKey, NewKey
from jiyi.protocol.wire.signatures import KeyScope, new_key
from models.accounts.actions import create_key
from models.db.actions import Actor
from models.db.scope import whole_service
from workers import ephemeral

#: More importance than any benchmark's events add up to.
NEVER = 1_000_000


@contextmanager
def running(names: Sequence[str] | None = None, **settings: str) -> Iterator[Client]:
    """A client of a service of its own, with the processes named; ``settings`` by lower-case name.

    Nothing reflects unless it is asked to: what is measured is what was asked for. What looks at the database
    from outside, as benchmarks do, sees all of it.
    """
    settings["agent_defaults"] = f"importance_trigger_max={NEVER} {settings.get('agent_defaults', '')}"
    with (
        ephemeral.folder("jiyi-bench-") as home,
        ephemeral.database(home, **settings),
        ephemeral.processes(home / "log", names),
        Client("bench") as client,
        whole_service(),
    ):
        yield client


def key_of(group: str, *scopes: KeyScope) -> str:
    """A new key of the service, with all that it may do."""
    key = new_key()
    create_key.perform(
        Actor(group, "bench", operator=True), CreateKey(key=NewKey.of(key), name="bench", scopes=list(scopes))
    )
    return str(key)


def machine() -> str:
    """What a figure was measured on, in one line."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} × {_cpu_model()}, {memory:.0f} GiB, {platform.system()}, Python"
        f" {platform.python_version()}"
    )


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
