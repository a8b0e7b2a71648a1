"""When turns are looked through: at once, at the window's end, with more, at the session's end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jiyi.settings import Settings
from models.conversations.extraction_schedule import Waiting, due_at

NOW = datetime(2026, 5, 1, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (Waiting(0, None), None),
        (Waiting(4, NOW), NOW),
        (Waiting(4, NOW, NOW - 10 * SECOND), NOW + 20 * SECOND),
        (Waiting(4, NOW, NOW - 31 * SECOND), NOW),
        (Waiting(3, NOW - 590 * SECOND), NOW + 10 * SECOND),
        (Waiting(3, NOW - 700 * SECOND, NOW - 10 * SECOND), NOW + 20 * SECOND),
        (Waiting(1, NOW, NOW - SECOND, ended=True), NOW),
        (Waiting(0, None, NOW, ended=True), None),
    ],
)
def test_due_at(waiting: Waiting, expected: datetime | None) -> None:
    assert due_at(waiting, NOW, Settings(_env_file=None)) == expected
