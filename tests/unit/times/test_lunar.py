"""Days of the Chinese calendar, and which of them are asked back."""

from __future__ import annotations

from datetime import date

import pytest

from engine.times.clocks import Day, Impossible
from engine.times.lunar import EACH_YEAR, WHICH_YEAR, find_lunar

#: A day of lunar 2026 (from 17 February 2026 to 5 February 2027), one before it, and one after New Year's Day
#: within it.
SPRING, BEFORE, JANUARY = date(2026, 3, 4), date(2026, 2, 1), date(2027, 1, 5)


def found(text: str, today: date = SPRING) -> date | str | None:
    """The first day that it may be, or why it is none."""
    days = list(find_lunar(text, today))
    if not days:
        return None
    longest = max(days, key=lambda day: day.end - day.start)
    if isinstance(longest, Impossible):
        return longest.reason
    assert isinstance(longest, Day)
    return next(day for day in longest.dates if day >= today)


@pytest.mark.parametrize(
    ("text", "today", "day"),
    [
        ("农历八月十五", SPRING, date(2026, 9, 25)),
        ("阴历9月9日", SPRING, date(2026, 10, 18)),
        ("五月初五", SPRING, date(2026, 6, 19)),
        ("八月廿三", SPRING, date(2026, 10, 3)),
        ("农历十二月二十", SPRING, date(2027, 1, 27)),
        ("腊月二十三", SPRING, date(2027, 1, 30)),
        ("腊月二十三", BEFORE, date(2026, 2, 10)),
        ("大年初一", BEFORE, date(2026, 2, 17)),
        ("大年初一", SPRING, date(2027, 2, 6)),
        ("大年三十", SPRING, date(2027, 2, 5)),
        ("腊月三十", SPRING, date(2027, 2, 5)),  # of 29 days: the last
        ("除夕", BEFORE, date(2026, 2, 16)),
        ("农历闰六月初三", SPRING, date(2036, 7, 25)),
        ("2027年正月十五", SPRING, date(2027, 2, 20)),
        ("明年中秋节", SPRING, date(2027, 9, 15)),
        ("今年除夕", JANUARY, date(2027, 2, 5)),
        ("on Chinese New Year's Eve", SPRING, date(2027, 2, 5)),
        ("on the Mid-Autumn Festival", SPRING, date(2026, 9, 25)),
    ],
)
def test_a_day_is_the_next_of_its_name(text: str, today: date, day: date) -> None:
    assert found(text, today) == day


@pytest.mark.parametrize(
    ("text", "today", "reason"),
    [
        ("2026年腊月二十三", SPRING, WHICH_YEAR),
        ("明年除夕", SPRING, WHICH_YEAR),
        ("明年大年初一", JANUARY, WHICH_YEAR),
        ("每月初一", SPRING, EACH_YEAR),
        *(
            (text, SPRING, "there is no day of this name in the lunar calendar")
            for text in ("农历十三月初一", "农历0月99日", "9999年正月初一")
        ),
    ],
)
def test_what_is_not_sure_says_why(text: str, today: date, reason: str) -> None:
    assert found(text, today) == reason


@pytest.mark.parametrize(
    "text",
    [
        "八月十五",
        "我今年三十岁",
        "今年初三",
        "买中秋月饼",
        "gifts for Lunar New Year",
        "年初",
        "农历",
        "😀",
        "",
    ],
)
def test_other_words_are_no_lunar_day(text: str) -> None:
    assert found(text) is None


@pytest.mark.parametrize("today", [date.min, date(1900, 1, 1), date(2101, 2, 1), date.max])
def test_outside_of_the_calendars_tables_there_are_none(today: date) -> None:
    assert found("大年初一", today) is None


def test_at_the_end_of_the_tables_the_last_day_is_found() -> None:
    assert found("农历十二月初一", date(2100, 12, 1)) == date(2100, 12, 31)
