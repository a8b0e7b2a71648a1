"""The processes and their wiring: Celery app, intake, embedded stack, process supervision."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Read when numpy is loaded, so set before anything of ours loads it. One product of a matrix and a vector is
# bound by memory, not by the processor: more threads only get into each other's way (a retrieval took three
# times as long).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# New objects between two looks for garbage while a process starts: more than all modules make, and they stay.
# To look through them again and again took a quarter of the start. Processes that go on for long set their
# own (:mod:`workers.gc_tuning`).
gc.set_threshold(500_000)

#: A supervisor's process id, for those that it starts: they end with it, even if it is killed (on Linux;
#: elsewhere the next start ends them).
SUPERVISOR = "_JIYI_SUPERVISOR"
_PR_SET_PDEATHSIG = 1
if (supervisor := os.environ.pop(SUPERVISOR, "")) and sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(supervisor):
        sys.exit("its supervisor is gone")


@contextmanager
def errors_in_one_line(name: str) -> Iterator[None]:
    """What is wrong, such as with a setting, is one line on stderr, with exit status 1."""
    from jiyi.errors import JiyiError  # late: most of what imports this package needs none of it

    try:
        yield
    except JiyiError as error:
        sys.exit(f"jiyi {name}: {error}")
