"""Waiting for what another thread or process does, instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: For a slow machine that does much else; the ordinary case takes a moment.
PATIENCE_SECONDS = 60.0


def until(
    condition: Callable[[], T], seconds: float = PATIENCE_SECONDS, what: object = "waited too long"
) -> T:
    """What the condition gives once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found
