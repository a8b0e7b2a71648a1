"""The one place that decides what the tokens of a text are, for memories and questions alike (design §8).

NFKC and lower case; Latin words stemmed; runs of Chinese, Japanese and Korean characters as overlapping pairs,
which find more than segmented words do once there is noise; identifiers whole and in parts; numbers without
leading zeros; emoji one by one.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import add

import snowballstemmer

from jiyi.text.words import ENGLISH_STOP_WORDS, FILLER_CHARACTERS, FILLER_WORDS, beginning

#: Words that have been stemmed before: the vocabulary of a busy service, some megabytes.
STEMS_KEPT = 100_000
#: Longer "words" (encoded data, run-together text) are no words that anybody asks for.
MAX_TOKEN_CHARS = 64

#: Positions in what :func:`_word_tokens` returns.
ALL, TELLING = 0, 1

_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_UNIT = re.compile(
    # A number and its unit belong together, and a date is the same in either spelling: 08月17号 is 8月 17日.
    r"(?P<counted>\d{1,8}[年月日号点时分秒岁元块个])"
    rf"|(?P<cjk>[{_CJK}]+)"
    # Inner marks join: it's, INV-2093, 2026-03-02, a.b@example.org, 10:30.
    rf"|(?P<word>[^\W_{_CJK}]+(?:[-'’_.@/:+][^\W_{_CJK}]+)*)"
    r"|(?P<emoji>[\u2600-\u27bf\U0001f300-\U0001faff])"
)
#: The same in ASCII, where there is nothing but words: three times as fast.
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:[-'_.@/:+][a-z0-9]+)*")
_PART = re.compile(rf"\d+|[^\W\d_{_CJK}]+")
_POSSESSIVE = re.compile(r"['’](?:s|re|ve|ll|d|m|t)?\Z")


_PAIR = re.compile(rf"[{_CJK}]{{2}}")


class _Stemmers(threading.local):
    """One a thread: a stemmer works on the word within itself, so two threads would mix theirs up."""

    def __init__(self) -> None:
        self.english = snowballstemmer.stemmer("english")


_stemmers = _Stemmers()


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order, with repetitions. Function words are left out, unless there is nothing else."""
    text = beginning(text)
    find = _in_ascii if text.isascii() else _in_any_script
    return find(text, TELLING) or find(text, ALL)


def telling(text: str) -> list[str]:
    """As :func:`tokens`, but nothing where there are only function words."""
    text = beginning(text)
    return (_in_ascii if text.isascii() else _in_any_script)(text, TELLING)


def is_pair(token: str) -> bool:
    """Whether a token is two Chinese, Japanese or Korean characters."""
    return len(token) == 2 and _PAIR.fullmatch(token) is not None


def is_filler(token: str) -> bool:
    """Whether a token is of small talk only: ok, haha, thanks; 嗯嗯, 好的, 哈哈; an emoji."""
    if token.isascii():
        return token in _FILLER_STEMS
    return all(char in FILLER_CHARACTERS or unicodedata.category(char) == "So" for char in token)


def fillers(words: Sequence[str]) -> Iterable[bool]:
    """:func:`is_filler` of each token."""
    return map(_FILLER_STEMS.__contains__ if all(map(str.isascii, words)) else is_filler, words)


def _in_ascii(text: str, which: int) -> list[str]:
    return [token for word in _ASCII_WORD.findall(text) if len(word) <= MAX_TOKEN_CHARS for token in _word_tokens(word)[which]]


def _in_any_script(text: str, which: int) -> list[str]:
    pieces_of: list[str] = []
    for match in _UNIT.finditer(text):
        unit, kind = match[0], match.lastgroup
        if kind == "cjk":
            pieces_of.extend(map(add, unit, unit[1:]) if len(unit) > 1 else (unit,))
        elif kind == "counted":
            number, unit = stem(unit[:-1]), unit[-1].replace("号", "日")
            pieces_of.extend((number + unit, number))
        elif kind == "emoji":
            pieces_of.append(unit)
        elif len(unit) <= MAX_TOKEN_CHARS:
            pieces_of.extend(_word_tokens(unit)[which])
    return pieces_of


@lru_cache(maxsize=STEMS_KEPT)
def _word_tokens(word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of one word ALL tokens, and the TELLING ones, which are no function words.

    A plain word gives its stem, anything with marks or digits inside itself and its parts.
    """
    word = _POSSESSIVE.sub("", word)
    if word.isalpha() or word.isdecimal():
        plain = (stem(word),)
        return plain, () if word in ENGLISH_STOP_WORDS else plain
    pieces = [(stem(part), part not in ENGLISH_STOP_WORDS) for part in _PART.findall(word)]
    variants = [(word, True), *(piece for piece in pieces if piece[0] != word)]
    return tuple(token for token, _ in variants), tuple(token for token, telling in variants if telling)


def forget() -> None:
    """Forget the words that were met: some may be names."""
    _word_tokens.cache_clear()
    stem.cache_clear()


@lru_cache(maxsize=STEMS_KEPT)
def stem(word: str) -> str:
    """The stem of a lower-case word, a number without leading zeros. Thread-safe."""
    if word.isdigit():
        return word.lstrip("0") or "0"
    stemmed: str = _stemmers.english.stemWord(word)
    return stemmed


_FILLER_STEMS = frozenset(stem(word) for word in FILLER_WORDS)
