"""Until when somebody waits for what a thread computes: long computations look now and then, and end when nobody does any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jiyi.errors import NoAnswer

#: On ``time.monotonic``'s clock; None: nobody has said.
_UNTIL: ContextVar[float | None] = ContextVar("_UNTIL", default=None)


@contextmanager
def deadline(until: float) -> Iterator[None]:
    """What is computed within is waited for until then, on ``time.monotonic``'s clock."""
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


def seconds_left() -> float | None:
    """How long whoever asked goes on waiting; below 0 they have stopped. None where nobody has said."""
    until = _UNTIL.get()
    return None if until is None else until - time.monotonic()


def check_deadline() -> None:
    """To be called between the steps of a long computation.

    Raises:
        NoAnswer: whoever asked has stopped waiting.
    """
    until = _UNTIL.get()
    if until is not None and time.monotonic() > until:
        raise NoAnswer("the time for the answer was over before it was ready; ask with fewer or shorter texts, or a longer timeout")
