"""For tests without any service: settings by environment, a clock, and Hypothesis without a stopwatch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jiyi.settings import OTHER_NAMES, Settings, get_settings

# A loaded machine is slow, not wrong.
settings.register_profile(
    "jiyi", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("jiyi")


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Settings]]:
    """Set ``JIYI_…`` variables, in a home of the test's own, and read the settings again."""

    def use(**values: object) -> Settings:
        for name, value in values.items():
            monkeypatch.setenv(f"JIYI_{name.upper()}", str(value))
        get_settings.cache_clear()
        return get_settings()

    monkeypatch.setenv("JIYI_HOME", str(tmp_path))
    for name in OTHER_NAMES:  # of the machine that the tests run on
        monkeypatch.delenv(name, raising=False)
    get_settings.cache_clear()
    yield use
    monkeypatch.undo()
    get_settings.cache_clear()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass, by every clock of this process; fewer than none: set it back."""
    passed = [0.0]

    def shifted(now: Callable[[], float]) -> Callable[[], float]:
        return lambda: now() + passed[0]

    for now in (time.time, time.monotonic):
        monkeypatch.setattr(time, now.__name__, shifted(now))

    def let_pass(seconds: float) -> None:
        passed[0] += seconds

    return let_pass
