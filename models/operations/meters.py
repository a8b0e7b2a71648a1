"""How much was done, how fast, and how much failed: by minute, for plots and for Prometheus.

Numbers grow in this process; a thread carries them to Valkey every second. While it is away they gather; if
its answer is lost they may be counted twice.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypedDict, cast

from models.db import valkey_keys
from models.db.valkey import valkey

log = logging.getLogger(__name__)
#: Seconds between two deliveries.
EVERY = 1.0
#: Seconds that a minute is kept: a day and a little, for plots of a day.
KEPT_SECONDS = 25 * 3_600
#: Minutes that can be looked back.
MAX_MINUTES = 24 * 60
#: Milliseconds: upper bounds of the classes that durations of retrievals are counted in; the last class has
#: no bound.
BOUNDS_MS = (1, 2, 3, 5, 8, 13, 20, 35, 60, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
#: Between the parts of a number's name. No task's name has one.
SEPARATOR = "|"
TASK, WORK, RETRIEVAL = "task", "work", "retrieval"
#: At the end of a name: the greatest value of the minute; all others are sums.
GREATEST = "max"


_NONE: Mapping[str, Any] = MappingProxyType({})


class Meters:
    """The numbers of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = defaultdict(float)
        self._greatest: dict[str, float] = {}
        #: Sums that are kept since the beginning only, and examples of what they count.
        self._lasting: dict[str, float] = defaultdict(float)
        self._examples: dict[str, str] = {}
        self._thread: threading.Thread | None = None
        self._answers = True

    def add(
        self,
        sums: Mapping[str, float],
        greatest: Mapping[str, float] = _NONE,
        lasting: Mapping[str, float] = _NONE,
        examples: Mapping[str, str] = _NONE,
    ) -> None:
        with self._lock:
            for name, number in sums.items():
                self._sums[name] += number
            for name, number in greatest.items():
                self._greatest[name] = max(number, self._greatest.get(name, 0.0))
            for name, number in lasting.items():
                self._lasting[name] += number
            self._examples.update(examples)
        if self._thread is None:
            self._begin()

    def flush(self) -> None:
        """Carry what has gathered to Valkey. Raises what Valkey raises; nothing is lost then."""
        with self._lock:
            sums, greatest, lasting, examples = self._sums, self._greatest, self._lasting, self._examples
            self._sums, self._lasting = defaultdict(float), defaultdict(float)
            self._greatest, self._examples = {}, {}
        if not sums and not greatest and not lasting:
            return
        minute = int(time.time() // 60)
        fields = [part for numbers in (sums, lasting, greatest) for item in numbers.items() for part in item]
        keys = (valkey_keys.meters(minute), valkey_keys.METERS_TOTAL)
        try:
            valkey().eval(_CARRY, len(keys), *keys, KEPT_SECONDS, len(sums), len(lasting), *fields)
        except Exception:
            self.add(sums, greatest, lasting, examples)
            raise
        if examples:
            valkey().hset(
                valkey_keys.METERS_EXAMPLES, items=[part for item in examples.items() for part in item]
            )

    def _begin(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._carry, name="meters", daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        while True:
            time.sleep(EVERY)
            self.try_flush()

    def try_flush(self) -> None:
        """The same, for whom it must not stop; says so when Valkey goes away and when it is back."""
        try:
            self.flush()
        except Exception as error:  # noqa: BLE001 – whatever it is, the next second tries again
            if self._answers:
                log.warning("numbers are not delivered: %s", error)
            self._answers = False
        else:
            self._answers = True

    def renew(self) -> None:
        """In a forked child: the parent delivers what is the parent's, and its thread is not here."""
        self.__init__()  # type: ignore[misc]


def _at_exit() -> None:
    """The last second, if there is anywhere to deliver it to."""
    with suppress(Exception):
        _meters.flush()


def add(*parts: str, number: float = 1) -> None:
    """Add to a number: ``add("events")``, ``add("work", "embed", "done", number=64)``."""
    _meters.add({SEPARATOR.join(parts): number})


def lasting(sums: Mapping[str, float], examples: Mapping[str, str]) -> None:
    """Add to numbers that nobody asks for by the minute; ``examples`` replace those of the same names."""
    _meters.add({}, lasting=sums, examples=examples)


def examples() -> dict[str, str]:
    examples = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.METERS_EXAMPLES))
    return {name.decode(): example.decode() for name, example in examples.items()}


def flush() -> None:
    """Deliver at once: for tests, and for processes that end."""
    _meters.flush()


def retrieved(seconds: float) -> None:
    """A retrieval was answered, so many seconds after the worker took it."""
    sums = {f"{RETRIEVAL}|n": 1.0, f"{RETRIEVAL}|s": seconds, f"{RETRIEVAL}|b|{place_of(seconds)}": 1.0}
    _meters.add(sums, {f"{RETRIEVAL}|{GREATEST}": seconds})


def task(name: str, outcome: str, seconds: float, waited: float | None) -> None:
    """A task ended (``done``, ``failed`` or ``retried``), ``waited`` seconds after it was sent."""
    own = f"{TASK}|{name}|"
    sums, greatest = {own + outcome: 1.0, own + "s": seconds}, {f"{own}s|{GREATEST}": seconds}
    if waited is not None:
        sums |= {own + "waited": 1.0, own + "wait": waited}
        greatest[f"{own}wait|{GREATEST}"] = waited
    _meters.add(sums, greatest)


def failing() -> None:
    """What this thread runs has failed, though without an error: it took care of that itself."""
    _run.failed = True


def idling() -> None:
    """What this thread is running had nothing to do: it is no run."""
    _run.idle = True


def was_idle() -> bool:
    return bool(getattr(_run, "idle", False))


def began() -> None:
    _run.failed = _run.idle = False


def has_failed() -> bool:
    return bool(getattr(_run, "failed", False))


def series(minutes: int = 60, step: int = 1) -> Series:
    """The last ``minutes`` (at most a day) in steps, as columns; the last step is not over yet.

    Steps begin at whole multiples, so that a refreshed plot does not tremble.
    """
    minutes, step = min(max(minutes, step), MAX_MINUTES), max(step, 1)
    last = int(time.time() // 60)
    first = (last - minutes + 1) // step * step
    steps = _steps(first, last, step)
    names = {name for counts in steps for name in counts}
    tasks = sorted({name.split(SEPARATOR)[1] for name in names if name.startswith(TASK + SEPARATOR)})
    kinds = sorted({name.split(SEPARATOR)[1] for name in names if name.startswith(WORK + SEPARATOR)})
    each = {name: _of_task(steps, f"{TASK}|{name}|") for name in tasks}
    ends = [(task["done"], task["failed"], task["retried"]) for task in each.values()]

    def together(end: int) -> list[float]:
        return [sum(row) for row in zip(*(task[end] for task in ends), strict=True)] or [0] * len(steps)

    return {
        "step_seconds": step * 60,
        "times": [(first + place * step) * 60 for place in range(len(steps))],
        "events": _column(steps, "events"),
        "events_repeated": _column(steps, "events|repeated"),
        "events_rejected": _column(steps, "events|rejected"),
        "retrievals": _column(steps, f"{RETRIEVAL}|n"),
        "retrieval_ms": _of_retrievals(steps),
        "done": together(0),
        "failed": together(1),
        "retried": together(2),
        "tasks": each,
        "work": {
            kind: {end: _column(steps, f"{WORK}|{kind}|{end}") for end in ("done", "failed")}
            for kind in kinds
        },
    }


def totals() -> dict[str, float]:
    """All sums since the beginning, by name; names are parts with ``|`` between them."""
    counts = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.METERS_TOTAL))
    return {name.decode(): float(number) for name, number in counts.items()}


class TaskSeries(TypedDict):
    """Of one task: how its runs ended, seconds (mean and greatest) of a run, and of the wait before it."""

    done: list[float]
    failed: list[float]
    retried: list[float]
    seconds: list[float | None]
    seconds_max: list[float | None]
    wait: list[float | None]
    wait_max: list[float | None]


class Series(TypedDict):
    """Columns of one length, oldest first: a count is 0 where nothing was done, a duration None."""

    step_seconds: int
    #: Epoch seconds at which each step begins.
    times: list[int]
    #: Accepted by the intake or the API; known already; refused.
    events: list[float]
    events_repeated: list[float]
    events_rejected: list[float]
    retrievals: list[float]
    #: ``mean``, ``p50``, ``p95`` (estimated from classes) and ``max``, measured in the worker.
    retrieval_ms: dict[str, list[float | None]]
    #: Of all tasks together.
    done: list[float]
    failed: list[float]
    retried: list[float]
    #: By the task's name.
    tasks: dict[str, TaskSeries]
    #: Kind → subjects that were ``done`` and ``failed``.
    work: dict[str, dict[str, list[float]]]


def place_of(seconds: float) -> int:
    return bisect_left(BOUNDS_MS, seconds * 1_000)


def quantile(counts: list[float], share: float, bounds: Sequence[float] = BOUNDS_MS) -> float | None:
    """The duration below which that share is, in the bounds' unit; even within each class."""
    total = sum(counts)
    if not total:
        return None
    below = 0.0
    for place, count in enumerate(counts[: len(bounds)]):
        if below + count >= share * total and count:
            low = bounds[place - 1] if place else 0
            return low + (bounds[place] - low) * (share * total - below) / count
        below += count
    return float(bounds[-1])


def _steps(first: int, last: int, step: int) -> list[dict[str, float]]:
    """The minutes from ``first`` to ``last``, put together to steps."""
    with valkey().pipeline(transaction=False) as pipe:
        for minute in range(first, last + 1):
            pipe.hgetall(valkey_keys.meters(minute))
        minutes = pipe.execute()
    steps: list[dict[str, float]] = [{} for _ in range(0, last + 1 - first, step)]
    for place, numbers in enumerate(minutes):
        counts = steps[place // step]
        for key, value in numbers.items():
            name, number = key.decode(), float(value)
            was = counts.get(name, 0.0)
            counts[name] = max(was, number) if name.endswith(GREATEST) else was + number
    return steps


def _column(steps: list[dict[str, float]], name: str) -> list[float]:
    return [step.get(name, 0.0) for step in steps]


def _durations(
    steps: list[dict[str, float]], total: str, counts: list[float], factor: float = 1
) -> list[float | None]:
    pairs = zip(steps, counts, strict=True)
    return [step.get(total, 0.0) / count * factor if count else None for step, count in pairs]


def _of_task(steps: list[dict[str, float]], own: str) -> TaskSeries:
    finished, failed, retried = (_column(steps, own + outcome) for outcome in ("done", "failed", "retried"))
    runs = [sum(row) for row in zip(finished, failed, retried, strict=True)]
    return {
        "done": finished,
        "failed": failed,
        "retried": retried,
        "seconds": _durations(steps, own + "s", runs),
        "seconds_max": [step.get(f"{own}s|{GREATEST}") for step in steps],
        "wait": _durations(steps, own + "wait", _column(steps, own + "waited")),
        "wait_max": [counts.get(f"{own}wait|{GREATEST}") for counts in steps],
    }


def _of_retrievals(steps: list[dict[str, float]]) -> dict[str, list[float | None]]:
    classes = [
        [step.get(f"{RETRIEVAL}|b|{place}", 0.0) for place in range(len(BOUNDS_MS) + 1)] for step in steps
    ]
    slowest = [counts.get(f"{RETRIEVAL}|{GREATEST}") for counts in steps]
    most = [None if seconds is None else seconds * 1_000 for seconds in slowest]

    def share(fraction: float) -> list[float | None]:
        estimated = [quantile(counts, fraction) for counts in classes]
        return [None if ms is None else min(ms, top or ms) for ms, top in zip(estimated, most, strict=True)]

    return {
        "mean": _durations(steps, f"{RETRIEVAL}|s", _column(steps, f"{RETRIEVAL}|n"), 1_000),
        "p50": share(0.5),
        "p95": share(0.95),
        "max": most,
    }


_meters = Meters()
_run = threading.local()
# One step, so that the numbers of a delivery are there together. Maxima mean nothing since the beginning.
_CARRY = """
local sums, lasting = 3 + 2 * tonumber(ARGV[2]), 3 + 2 * (tonumber(ARGV[2]) + tonumber(ARGV[3]))
for i = 4, lasting, 2 do
    if i <= sums then redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i], ARGV[i + 1]) end
    redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1])
end
for i = lasting + 1, #ARGV, 2 do
    local was = tonumber(redis.call('HGET', KEYS[1], ARGV[i]))
    if not was or was < tonumber(ARGV[i + 1]) then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""


os.register_at_fork(after_in_child=_meters.renew)
atexit.register(_at_exit)
