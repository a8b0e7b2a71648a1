"""Days of the Chinese calendar, and which of them are asked back."""

from __future__ import annotations

from datetime import date

from engine.times.clocks import Day, Impossible
from engine.times.lunar import find_lunar
from tests.unit.text.labelled import labelled

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


@labelled
def test_a_day_is_the_next_of_its_name(text: str, today: date, day: date) -> None:
    assert found(text, today) == day


@labelled
def test_what_is_not_sure_says_why_and_other_words_are_no_lunar_day(
    text: str, today: date, reason: str | None
) -> None:
    assert found(text, today) == reason


def test_outside_of_the_calendars_tables_there_are_none_and_their_last_day_is_found() -> None:
    for today in (date.min, date(1900, 1, 1), date(2101, 2, 1), date.max):
        assert found("大年初一", today) is None
    assert found("农历十二月初一", date(2100, 12, 1)) == date(2100, 12, 31)
