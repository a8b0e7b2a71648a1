"""How often a process looks for cycles among its objects: seldom, for nearly all of them are in none.

In the intake, whose batches are many thousand small objects, the looking took a third of the time; in a retrieval
worker, which reads a large agent, as well.
"""

from __future__ import annotations

import gc

from celery import signals

#: New objects between two looks; Python's own 700 come with every few events, or with one retrieval.
GARBAGE_AFTER = 50_000


def seldom() -> None:
    """From now on; what is there already, modules above all, is never looked at again."""
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)


def install() -> None:
    """In every Celery worker, when it is ready to begin."""
    signals.worker_ready.connect(lambda **_: seldom(), weak=False)
