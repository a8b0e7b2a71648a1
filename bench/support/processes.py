"""What a service's processes take, as seen from the benchmark that started them."""

from __future__ import annotations

import psutil


def cpu_seconds() -> float:
    """CPU time so far of this process and all that it has started: workers, PostgreSQL, Valkey."""
    total = 0.0
    for process in _all():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def resident_bytes(worker: str) -> int:
    """The memory that a Celery worker takes, by its name (``retrieval``): the largest of its processes."""
    name = f"--hostname={worker}@"
    return max(
        int(process.memory_info().rss)
        for process in _all()
        if any(part.startswith(name) for part in process.cmdline())
    )


def _all() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]
