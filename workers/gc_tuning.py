"""What a process does with memory that it does not use any more.

Cycles are looked for seldom: nearly no object is in one, and looking took a third of the intake's time. A
quiet process looks by the clock. What is free goes back to the system: glibc keeps a heap for each thread,
and
indexes of a retrieval worker left as much behind as they took.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from contextlib import suppress

from celery import signals

#: New objects between two looks; Python's own 700 come with every few events, or with one retrieval.
GC_THRESHOLD = 50_000
#: Seconds after which there is a look in any case, among the new objects and those that are not yet old.
GC_SECONDS = 60.0
YOUNG = 1

#: Heaps for all threads together; they seldom compute at the same time.
HEAPS = 2
#: Bytes of an array that gets pages of its own, which go back when it goes: a column of an index, not what is
#: worked out of it for each question, since to get new pages takes several times as long as to fill them. The
#: largest such are a thousand vectors of 384 values.
OWN_PAGES = 2 << 20
#: Free bytes at the end of a heap that are kept for the next task.
KEPT_FREE = 8 << 20
#: Of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def tune_gc(threshold: int = GC_THRESHOLD) -> None:
    """From now on. What is there already is never looked at again. ``threshold``: new objects a look."""
    gc.freeze()
    gc.set_threshold(threshold)
    threading.Thread(target=_look_by_the_clock, name="gc", daemon=True).start()


def tune_malloc() -> None:
    """To be called before the threads are made. A C library other than glibc is left unchanged."""
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in (
            (_M_ARENA_MAX, HEAPS),
            (_M_MMAP_THRESHOLD, OWN_PAGES),
            (_M_TRIM_THRESHOLD, KEPT_FREE),
        ):
            mallopt(name, value)


def install() -> None:
    """In every Celery worker, and in beat: malloc when it begins, the rest when it is ready."""
    signals.worker_init.connect(lambda **_: tune_malloc(), weak=False)
    for ready in (signals.worker_ready, signals.beat_init):
        ready.connect(lambda **_: tune_gc(), weak=False)


def _look_by_the_clock() -> None:
    while True:
        time.sleep(GC_SECONDS)
        gc.collect(YOUNG)
