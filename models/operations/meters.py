"""How much was done, how fast, and how much failed: by minute, for plots and for Prometheus.

On the way of the work a number in this process's memory grows, no more. One thread carries what has gathered to Valkey
every second. While Valkey is away the numbers gather; if its answer is lost on the way they may be counted twice.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import cast

from models.db import valkey_keys
from models.db.valkey import valkey
from models.operations.series import GREATEST, RETRIEVAL, SEPARATOR, TASK, Series, counted, place_of

log = logging.getLogger(__name__)

#: Seconds between two deliveries.
EVERY = 1.0
#: Seconds that a minute is kept: a day and a little, for plots of a day.
KEPT_SECONDS = 25 * 3_600


class Meters:
    """The numbers of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = defaultdict(float)
        self._greatest: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._answers = True

    def add(self, *parts: str, number: float = 1) -> None:
        with self._lock:
            self._sums[SEPARATOR.join(parts)] += number
        if self._thread is None:
            self._begin()

    def add_all(self, sums: dict[str, float], greatest: dict[str, float]) -> None:
        with self._lock:
            for name, number in sums.items():
                self._sums[name] += number
            for name, number in greatest.items():
                self._greatest[name] = max(number, self._greatest.get(name, 0.0))
        if self._thread is None:
            self._begin()

    def flush(self) -> None:
        """Carry what has gathered to Valkey. Raises what Valkey raises; nothing is lost then."""
        with self._lock:
            sums, greatest = self._sums, self._greatest
            self._sums, self._greatest = defaultdict(float), {}
        if not sums and not greatest:
            return
        minute = int(time.time() // 60)
        fields = [part for numbers in (sums, greatest) for item in numbers.items() for part in item]
        try:
            script = _CARRY
            valkey().eval(script, 2, valkey_keys.meters(minute), valkey_keys.METERS_TOTAL, KEPT_SECONDS, len(sums), *fields)
        except Exception:
            self.add_all(sums, greatest)
            raise

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


_meters = Meters()
_run = threading.local()
os.register_at_fork(after_in_child=_meters.renew)
atexit.register(_at_exit)


def add(*parts: str, number: float = 1) -> None:
    """Add to a number: ``add("events")``, ``add("work", "embed", "done", number=64)``."""
    _meters.add(*parts, number=number)


def flush() -> None:
    """Deliver at once: for tests, and for processes that end."""
    _meters.flush()


def retrieved(seconds: float) -> None:
    """A retrieval was answered, so many seconds after the worker took it."""
    sums = {f"{RETRIEVAL}|n": 1.0, f"{RETRIEVAL}|s": seconds, f"{RETRIEVAL}|b|{place_of(seconds)}": 1.0}
    _meters.add_all(sums, {f"{RETRIEVAL}|{GREATEST}": seconds})


def task(name: str, outcome: str, seconds: float, waited: float | None) -> None:
    """A task came to its end (``done``, ``failed`` or ``retried``), ``waited`` seconds after it was sent (None: unknown)."""
    own = f"{TASK}|{name}|"
    sums, greatest = {own + outcome: 1.0, own + "s": seconds}, {f"{own}s|{GREATEST}": seconds}
    if waited is not None:
        sums |= {own + "waited": 1.0, own + "wait": waited}
        greatest[f"{own}wait|{GREATEST}"] = waited
    _meters.add_all(sums, greatest)


def failing() -> None:
    """What this thread is running has failed, though it ends without an error: it took care of that itself."""
    _run.failed = True


def began() -> None:
    """This thread begins to run something."""
    _run.failed = False


def has_failed() -> bool:
    return bool(getattr(_run, "failed", False))


def series(minutes: int = 60, step: int = 1) -> Series:
    """What was done in the last ``minutes`` (at most a day), in steps of so many minutes, as columns for plots.

    The last step is not over yet. Steps begin at whole multiples, so that a plot that is asked for again does not tremble; so the first
    may begin earlier than asked.
    """
    return counted(minutes, step)


def totals() -> dict[str, float]:
    """All sums since the beginning, by name; names are parts with ``|`` between them."""
    found = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.METERS_TOTAL))
    return {name.decode(): float(number) for name, number in found.items()}


# One step, so that the numbers of a delivery are there together. Maxima mean nothing since the beginning.
_CARRY = """
local sums = tonumber(ARGV[2])
for i = 3, 2 + 2 * sums, 2 do
    redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i], ARGV[i + 1])
    redis.call('HINCRBYFLOAT', KEYS[2], ARGV[i], ARGV[i + 1])
end
for i = 3 + 2 * sums, #ARGV, 2 do
    local was = tonumber(redis.call('HGET', KEYS[1], ARGV[i]))
    if not was or was < tonumber(ARGV[i + 1]) then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""
