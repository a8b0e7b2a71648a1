"""Numbers as they stand in times, in digits and in the words of both languages."""

from __future__ import annotations

import re

_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_ENGLISH = {word: n for n, word in enumerate(_ONES.split(), 1)} | {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
_ENGLISH |= {"ninety": 90, "a": 1, "an": 1, "a couple of": 2, "couple of": 2, "oh": 0}
_CHINESE = {char: n for n, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "俩": 2}

#: A whole number in Chinese text, and in English text.
ZH = r"(?:\d{1,4}|[〇零一二两三四五六七八九十百]{1,5})"
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
