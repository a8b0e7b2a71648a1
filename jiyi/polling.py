"""Waiting for something by asking again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from jiyi.errors import NoAnswer

T = TypeVar("T")

#: Seconds between two looks at something that is awaited: doubled each time, from the first to the last.
FIRST_POLL, LAST_POLL = 0.01, 0.5


def poll(
    look: Callable[[], T],
    final: Callable[[T], bool],
    seconds: float,
    late: Callable[[T], str] | None = None,
    *,
    first: float = FIRST_POLL,
    last: float = LAST_POLL,
) -> T:
    """Look until it is final, at most for so many seconds; returns what was found last. Raises NoAnswer with
    the words of ``late``, if that is given.
    """
    deadline, pause = time.monotonic() + seconds, first
    while not final(result := look()):
        if time.monotonic() > deadline:
            if late is not None:
                raise NoAnswer(late(result))
            break
        time.sleep(pause)
        pause = min(pause * 2, last)
    return result
