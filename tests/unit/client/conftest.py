"""What tests of the client and the command line share."""

from __future__ import annotations

import asyncio
import time

import pytest


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the program would have waited, in seconds: it does not wait."""
    taken: list[float] = []

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    for module, instead in ((time, taken.append), (asyncio, sleep)):
        monkeypatch.setattr(module, "sleep", instead)
    return taken
