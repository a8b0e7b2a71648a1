"""workers.gc_tuning: unused memory goes back, in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CYCLE = """
import gc, time, weakref
from workers import gc_tuning

class Thing: pass

gc.disable()  # nothing but the clock looks
gc_tuning.GC_SECONDS = 0.01
gc_tuning.tune_gc()
thing = Thing()
thing.itself, gone = thing, weakref.ref(thing)
del thing
while gone() is not None:
    time.sleep(0.01)
print("gone")
"""
HEAPS = """
import ctypes, threading
from workers import gc_tuning

gc_tuning.tune_malloc()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
started = threading.Barrier(8)

def hold():
    started.wait()
    libc.malloc(ctypes.c_size_t(100_000))
    started.wait()

threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_cycles_go_by_the_clock_in_a_process_that_makes_few_objects() -> None:
    assert run(CYCLE) == "gone\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such heaps")
def test_threads_share_two_heaps() -> None:
    assert run(HEAPS).count("<heap ") == 2
