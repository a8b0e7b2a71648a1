"""Words of times in both languages: numbers, days of the week, months, holidays."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from importlib.resources import files

_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_ENGLISH = {word: n for n, word in enumerate(_ONES.split(), 1)} | {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
_ENGLISH |= {"ninety": 90, "a": 1, "an": 1, "a couple of": 2, "couple of": 2, "couple": 2, "oh": 0}
_CHINESE = {char: n for n, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "俩": 2}

WEEK = r"(?:周|星期|礼拜)"
ZH_WEEKDAYS = "一二三四五六日"
EN_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EN_WEEKDAY = r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
EN_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
EN_MONTH_NAMES = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
EN_MONTH = rf"{EN_MONTH_NAMES}\.?"

#: A whole number in Chinese text, and in English text.
ZH = r"(?:\d{1,4}|[〇零一二两三四五六七八九十百]{1,5})"
#: The same up to ten, as a pattern without digits.
SMALL_EN = rf"(?:{'|'.join(_ONES.split()[:10])}|an?)"
EN = (
    r"(?:\d{1,4}|(?:twenty|thirty|forty|fifty)(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?|sixty|ninety|a couple of|"
    rf"{'|'.join(sorted(_ONES.split(), key=len, reverse=True))}|an?)"
)


def number(word: str) -> int:
    """The number of a word that :data:`ZH` or :data:`EN` finds.

    Raises:
        ValueError: it is none.
    """
    word = " ".join(word.lower().split())
    if word.isdecimal():
        return int(word)
    if word.isascii():
        if word in _ENGLISH:
            return _ENGLISH[word]
        return sum(_known(part, _ENGLISH) for part in re.split(r"[- ]", word))
    hundreds, hundred, rest = word.rpartition("百")
    tens, ten, ones = rest.rpartition("十")
    if not ten and len(rest) > 1:  # 二零: digit by digit
        return 100 * _digits(hundreds) * bool(hundred) + _digits(rest)
    return 100 * (_digits(hundreds) or 1) * bool(hundred) + (10 * (_digits(tens) or 1) if ten else 0) + _digits(ones)


def _digits(text: str) -> int:
    value = 0
    for char in text:
        value = 10 * value + _known(char, _CHINESE)
    return value


def _known(word: str, words: dict[str, int]) -> int:
    if word not in words:
        raise ValueError(f"no number: {word}")
    return words[word]


def _holidays() -> dict[str, tuple[int, int]]:
    """Name → month and day."""
    lines = files("engine.times").joinpath("holidays.txt").read_text(encoding="utf-8").splitlines()
    dated = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    return {name: (int(day[:2]), int(day[3:])) for day, _, names in dated for name in names.split(", ")}


#: Days that have a name, as month and day.
HOLIDAYS = _holidays()


def weekday_index(word: str) -> int:
    """0 for Monday, of a weekday in either language."""
    word = word.lower().replace("天", "日")
    if word.isdecimal():
        return (int(word) - 1) % 7
    return ZH_WEEKDAYS.index(word) if word in ZH_WEEKDAYS else EN_WEEKDAYS.index(word[:3])


def month_index(word: str) -> int:
    """1 for January, of an English month."""
    return EN_MONTHS.index(word.lower()[:3]) + 1


def add_months(day: date, months: int) -> date:
    """So many months later, on the same day of the month, or the last one there is."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
