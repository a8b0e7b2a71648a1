"""What a process has one of (a connection pool, a model): made by the first thread that asks, while others
wait.

``functools.lru_cache`` lets two threads make it twice; the one that nobody keeps still holds its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Once(Generic[P, T]):
    """Calls ``make`` once for the same positional arguments; what raises is not kept."""

    def __init__(self, make: Callable[P, T], size: int) -> None:
        self.__wrapped__, self.__doc__, self.__name__ = make, make.__doc__, make.__name__
        self._make, self._size, self._lock = make, size, RLock()
        self._made: dict[Any, T] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._made[args]  # a dict's own answer needs no lock
        except KeyError:
            pass
        with self._lock:
            if args not in self._made:
                value = self._make(*args, **kwargs)
                if len(self._made) >= self._size:
                    del self._made[next(iter(self._made))]
                self._made[args] = value
            return self._made[args]

    def made(self) -> Iterator[T]:
        """Those there are now, to be closed before they are forgotten."""
        return iter(list(self._made.values()))

    def cache_clear(self) -> None:
        """Forget them all; named as in ``functools``."""
        with self._lock:
            self._made.clear()


def once(make: Callable[P, T]) -> Once[P, T]:
    """Decorator: one value a process, or one for the arguments last asked with."""
    return Once(make, 1)


def once_each(size: int) -> Callable[[Callable[P, T]], Once[P, T]]:
    """Decorator: one value for each set of positional arguments; of more than ``size`` the oldest goes."""
    return lambda make: Once(make, size)
