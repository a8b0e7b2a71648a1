"""Work in the background gives way: what nobody waits for takes the processor when the web and the answers leave it."""

from __future__ import annotations

import os

from celery import signals

#: Names of the workers (``workers.procfile``) that do such work.
BACKGROUND = frozenset({"embedding", "upkeep", "reflection", "growth"})
#: How far they give way (``nice``): of a core that is wanted by both they get a quarter.
NICENESS = 5


def install() -> None:
    """In every Celery worker, before it makes threads, which inherit it."""
    signals.celeryd_init.connect(give_way, weak=False)


def give_way(sender: str, **_: object) -> None:
    """``sender``: the worker's name, ``name@host``."""
    if sender.partition("@")[0] in BACKGROUND:
        os.nice(NICENESS)
