"""A small cache in front of the database, for what is looked up at every request or message: API keys and people."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    """A value, or that there is none; when it was loaded, and when it was last asked for, on the monotonic clock."""

    value: V | None
    loaded_at: float
    asked_at: float


class LookupCache(Generic[K, V]):
    """Values by key, each asked for again after ``fresh_seconds``. That there is none is remembered, too. Thread-safe.

    Args:
        load: looks keys up; what it does not return does not exist.
        fresh_seconds: how long an answer is believed.
        max_entries: how many are kept; of more the one that was asked for first goes.
        stale_seconds: how old a value may be that still serves while ``load`` raises one of ``unavailable``.
        unavailable: errors of ``load`` that mean that nobody can say; without an old value they are raised.
    """

    def __init__(
        self,
        load: Callable[[Collection[K]], Mapping[K, V]],
        *,
        fresh_seconds: float,
        max_entries: int,
        stale_seconds: float = 0.0,
        unavailable: tuple[type[Exception], ...] = (),
    ) -> None:
        self._load, self._unavailable = load, unavailable
        self.fresh_seconds, self.stale_seconds, self.max_entries = fresh_seconds, stale_seconds, max_entries
        self._entries: dict[K, _Entry[V]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value of one key."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """The values of those keys that have one; all that are not fresh are looked up at once."""
        now = time.monotonic()
        kept = {key: self._entries.get(key) for key in keys}
        fresh = {key: entry for key, entry in kept.items() if entry is not None and now - entry.asked_at <= self.fresh_seconds}
        wanted = kept.keys() - fresh.keys()
        if wanted:
            try:
                value = self._load(wanted)
                loaded = {key: _Entry(value.get(key), now, now) for key in wanted}
            except self._unavailable:
                loaded = {key: entry for key in wanted if (entry := self._stale(kept[key], now)) is not None}
                if len(loaded) < len(wanted):
                    raise
            self._keep(loaded)
            fresh |= loaded
        return {key: entry.value for key, entry in fresh.items() if entry.value is not None}

    def forget(self, key: K) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def _stale(self, entry: _Entry[V] | None, now: float) -> _Entry[V] | None:
        """An old value that still serves, as if it had just been asked for: not every request waits for a dead database."""
        if entry is None or entry.value is None or now - entry.loaded_at > self.stale_seconds:
            return None
        return _Entry(entry.value, entry.loaded_at, time.monotonic())

    def _keep(self, loaded: Mapping[K, _Entry[V]]) -> None:
        with self._lock:
            for key, entry in loaded.items():
                self._entries.pop(key, None)
                if len(self._entries) >= self.max_entries:
                    del self._entries[next(iter(self._entries))]
                self._entries[key] = entry
