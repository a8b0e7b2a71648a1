"""The day that a file is about, as its name or its first line tells: ``notes-2026-03-02.md``, ``# 8 May, 2023``, 2026年3月2日."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from engine.times.past import named_spans

#: Two moments far apart: what both understand as the same day was written with its year.
_MOMENTS = (datetime(2001, 1, 1, tzinfo=UTC), datetime(2099, 7, 1, tzinfo=UTC))
#: Characters of the first line that are looked at.
_FIRST_LINE = 200
#: A day as file names have it, whatever stands around it.
_STAMP = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})([-_.]?)([0-9]{2})\2([0-9]{2})(?![0-9])")


def day_of(name: str, text: str) -> datetime | None:
    """The first day, written with its year, in a file's name or, else, in the first line of its text; None without one."""
    for stamp in _STAMP.finditer(name):
        with suppress(ValueError):  # no day: 20231342
            return datetime(int(stamp[1]), int(stamp[3]), int(stamp[4]), tzinfo=UTC)
    for told in (name, text.lstrip().split("\n", 1)[0][:_FIRST_LINE]):
        spans = [set(named_spans(told, moment)) for moment in _MOMENTS]
        days = sorted(start for start, end in spans[0] & spans[1] if end - start == timedelta(days=1))
        if days:
            return days[0]
    return None
