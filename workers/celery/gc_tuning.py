"""How often a process looks for cycles among its objects: seldom, for nearly all of them are in none.

In the intake, whose batches are many thousand small objects, the looking took a third of the time; in a retrieval
worker, which reads a large agent, as well.
"""

from __future__ import annotations

import gc

from celery import signals

#: New objects between two looks; Python's own 700 come with every few events, or with one retrieval.
GC_THRESHOLD = 50_000


def tune_gc() -> None:
    """From now on; what is there already, modules above all, is never looked at again."""
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def install() -> None:
    """In every Celery worker, when it is ready to begin."""
    signals.worker_ready.connect(lambda **_: tune_gc(), weak=False)
