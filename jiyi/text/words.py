"""Analysis of Chinese and English texts: language, normal form, tokens, and what is idle.

Tokens are the same for memories and questions: NFKC and lower case; Latin words stemmed; runs of Chinese,
Japanese and Korean characters as overlapping pairs, which find more than segmented words do in noise;
identifiers whole and in parts; numbers without leading zeros; emoji one by one.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from operator import add
from typing import Any, Literal

from jiyi.text.remembering import remembered

Language = Literal["zh", "en"]

#: Characters of a text that are looked at: an index entry must stay small.
MAX_CHARS = 20_000

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
CJK_RUN, CJK_CHARACTER = re.compile(rf"[{CJK}]+"), re.compile(f"[{CJK}]")
#: Words with inner marks stay whole: it's, INV-2093, a.b@example.org.
LATIN_WORD = re.compile(rf"[^\W_{CJK}]+(?:[-'’_.@/][^\W_{CJK}]+)*")

#: A short statement that some object is idle, and nothing else: a wrong match hides a memory.
_IDLE = re.compile(
    r"^\s*(?:(?:\S+\s+){1,6}(?:is|are)\s+)?idle[.!]?\s*$"
    r"|^[^,，。;；\s]{1,12}(?:闲置(?:着|中|状态)?|处于空闲(?:状态)?|空闲(?:中|状态))[。.!！]?\s*$",
    re.IGNORECASE,
)

ENGLISH_STOP_WORDS = frozenset(
    """a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further get got had has
    have having he her here hers herself him himself his how i if in into is it it's its itself just me more
    most my myself no nor not now of off on once only or other our ours ourselves out over own same she
    should so some such than that the their theirs them themselves then there these they this those through
    to too under until up very was we were what when where which while who whom why will with would you your
    yours yourself yourselves""".split()
)


#: Words that keep a conversation going and say nothing that anybody will ask for.
FILLER_WORDS = frozenset(
    """ah aha ahh alright amazing anyway aw aww awesome bye cheers cool fine good goodbye great ha haha
    hahaha hehe hello hey hi hmm hurray indeed lol lovely nice night nope oh ok okay okey oops ouch perfect
    please really right sigh sure sweet thank thanks thx totally true ty ugh uh um welcome well wonderful
    wow yay yeah yep yes yup""".split()
)
#: Chinese characters of small talk: a text with no others says nothing (嗯嗯, 好的好的, 早上好).
FILLER_CHARACTERS = frozenset(
    "嗯啊哦噢呃哈嘿呵呀哎唉嗨哇嘻嘛吧呢啦喔嘞了吗么的是对行好谢多再见拜早晚上午安您你客气辛苦没事收到明白知道"
)


#: Marks in a row on one letter; more are parted, as in Unicode's stream-safe text format (UAX 15):
#: normalisation sorts each row in time that grows with its square.
MAX_MARKS = 30


def _rows_of_marks(last: int) -> re.Pattern[str]:
    marks = "".join(char for char in map(chr, range(0x300, last + 1)) if unicodedata.combining(char))
    return re.compile(f"[{marks}]{{{MAX_MARKS}}}(?=[{marks}])")


#: Those of rare scripts apart: a class with them is forty times as slow.
_RARE_MARK = re.compile("[\U000101fd-\U0001e94a]")
_MARKS, _ALL_MARKS = _rows_of_marks(0xFFFF), _rows_of_marks(0x1E94A)


def nfkc(text: str) -> str:
    """The text in Unicode's form NFKC, in time that grows with its length, whatever it holds."""
    if not text.isascii():
        marks = _ALL_MARKS if _RARE_MARK.search(text) else _MARKS
        if marks.search(text):  # replacing what is not there takes fifteen times as long as not finding it
            text = marks.sub("\\g<0>\u034f", text)
    return unicodedata.normalize("NFKC", text)


@remembered(8)  # hash, tokens and keywords of a memory each ask for the same text, one after the other
def normalise(text: str) -> str:
    """NFKC and lower case: full-width and half-width forms, upper and lower case become the same."""
    return nfkc(text).lower()


def beginning(text: str) -> str:
    """As much of a text as words are looked for in. Some characters become eighteen (ﷺ): cut twice."""
    return normalise(text[:MAX_CHARS])[:MAX_CHARS]


def one_line(text: str) -> str:
    """A text on one line, without characters that cannot be seen."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def shortened(text: str, room: int) -> str:
    """A text on one line of at most ``room`` characters."""
    line = one_line(text)
    return line if len(line) <= room else f"{line[: room - 1].rstrip()}…"


def storable(text: str) -> str:
    """A text without what the database cannot hold: NUL, halves of surrogate pairs."""
    if text.isascii():
        return text.replace("\x00", "")
    return "".join(char for char in text if char != "\x00" and not "\ud800" <= char <= "\udfff")


def language_of(text: str) -> Language:
    """``zh`` if more Chinese characters than words in other letters are in the text, else ``en``.

    Words, not letters: 她在读 Neuromancer is Chinese.
    """
    if text.isascii():
        return "en"
    chinese = sum(map(len, CJK_RUN.findall(text)))
    return "zh" if chinese > len(LATIN_WORD.findall(text)) else "en"


def is_idle(description: str, predicate: str | None = None, object: str | None = None) -> bool:  # noqa: A002
    """Whether a memory only says that something is idle: such memories are stored, but not retrieved."""
    if predicate is not None and object is not None:
        return f"{predicate} {object}".lower() == "is idle"
    return _IDLE.search(description) is not None


def last_segment(path: str) -> str:
    """The object in ``world:sector:arena:object``, which is what a keyword names."""
    return path.rsplit(":", 1)[-1].strip()


def text_digest(text: str) -> bytes:
    """The SHA-256 of exactly this text."""
    return hashlib.sha256(text.encode()).digest()


def content_digest(text: str, user_id: str | None = None) -> bytes:
    """Equal for texts that differ only in case, width or white space, if they are the same user's."""
    same = " ".join(normalise(text).split())
    return text_digest(same if user_id is None else f"{user_id}\n{same}")


#: Words that have been stemmed before: the vocabulary of a busy service, some megabytes.
STEMS_KEPT = 100_000
#: Longer "words" (encoded data, run-together text) are no words that anybody asks for.
MAX_TOKEN_CHARS = 64

#: Positions in what :func:`word_tokens` returns.
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

    @cached_property
    def english(self) -> Any:
        import snowballstemmer  # here, because it takes longer to import than the rest of a client

        return snowballstemmer.stemmer("english")


_stemmers = _Stemmers()


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order, with repetitions; function words only if there is nothing else."""
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
        return token in _filler_stems()
    return all(char in FILLER_CHARACTERS or unicodedata.category(char) == "So" for char in token)


def fillers(words: Sequence[str]) -> Iterable[bool]:
    """:func:`is_filler` of each token."""
    return map(_filler_stems().__contains__ if all(map(str.isascii, words)) else is_filler, words)


def _in_ascii(text: str, which: int) -> list[str]:
    return [
        token
        for word in _ASCII_WORD.findall(text)
        if len(word) <= MAX_TOKEN_CHARS
        for token in word_tokens(word)[which]
    ]


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
            pieces_of.extend(word_tokens(unit)[which])
    return pieces_of


@remembered(STEMS_KEPT)
def word_tokens(word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of one word ALL tokens, and the TELLING ones, which are no function words.

    A plain word gives its stem, another itself and its parts.
    """
    word = _POSSESSIVE.sub("", word)
    if word.isalpha() or word.isdecimal():
        plain = (stem(word),)
        return plain, () if word in ENGLISH_STOP_WORDS else plain
    pieces = [(stem(part), part not in ENGLISH_STOP_WORDS) for part in _PART.findall(word)]
    variants = [(word, True), *(piece for piece in pieces if piece[0] != word)]
    return tuple(token for token, _ in variants), tuple(token for token, telling in variants if telling)


@remembered(STEMS_KEPT)
def stem(word: str) -> str:
    """The stem of a lower-case word, a number without leading zeros. Thread-safe."""
    if word.isdigit():
        return word.lstrip("0") or "0"
    stemmed: str = _stemmers.english.stemWord(word)
    return stemmed


@cache
def _filler_stems() -> frozenset[str]:
    return frozenset(map(stem, FILLER_WORDS))
