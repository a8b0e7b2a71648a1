"""What a process remembers of texts, and the one way to forget all of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_K = TypeVar("_K")

_forgetting: list[Callable[[], object]] = []


def remembered(texts: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Keep the answers for the latest ``texts`` texts: by this alone, because erasures clear it."""

    def keep(function: Callable[_P, _T]) -> Callable[_P, _T]:
        cache = lru_cache(texts)(function)
        _forgetting.append(cache.cache_clear)
        return cache  # type: ignore[return-value] # the same arguments, which functools does not say

    return keep


class Latest(Generic[_K, _T]):
    """What was worked out of the latest ``size`` texts, by text; forgotten with all of them. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, Lock()
        self._values: OrderedDict[_K, _T] = OrderedDict()
        _forgetting.append(self.clear)

    def of(self, keys: Iterable[_K]) -> dict[_K, _T]:
        """Those that are known."""
        with self._lock:
            values = {key: self._values[key] for key in keys if key in self._values}
            for key in values:
                self._values.move_to_end(key)
            return values

    def keep(self, values: Mapping[_K, _T]) -> None:
        with self._lock:
            self._values.update(values)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def clear(self) -> int:
        """Forget all; returns how many."""
        with self._lock:
            count = len(self._values)
            self._values.clear()
            return count


def forget_texts() -> None:
    """Forget every text, and every word of one: some are names."""
    for forget in _forgetting:
        forget()
