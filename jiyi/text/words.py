"""Which words matter in a text, in Chinese and in English alike; and what counts as idle."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from importlib.resources import files
from operator import add
from typing import Literal

Language = Literal["zh", "en"]

#: Keywords taken from a text that brings none of its own: enough to find it by, few enough to mean something.
MAX_EXTRACTED_KEYWORDS = 8
#: A text is looked at up to here: longer ones repeat themselves, and an index entry must stay small.
MAX_CHARS = 20_000
#: A single Latin letter or CJK character is rarely a word worth indexing.
MIN_KEYWORD_CHARS = 2
#: Longer ones do not fit into the database's index of keywords.
MAX_KEYWORD_CHARS = 200

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CJK_RUN = re.compile(rf"[{CJK}]+")
#: Words with inner marks stay whole: it's, INV-2093, a.b@example.org.
_WORD = re.compile(rf"[^\W_{CJK}]+(?:[-'’_.@/][^\W_{CJK}]+)*")
#: Capitalised within a sentence, or with capitals only: mostly names.
_NAME = re.compile(r"(?<=[^\W_] )[A-Z][\w'’-]+|\b[A-Z]{2,}\b")

#: I'm, they've, don't, it's, let's; but not Anna's.
_CONTRACTION = re.compile(
    r"(?:['’](?:m|re|ve|ll|d)|n['’]t)\Z|\A(?:it|he|she|that|this|there|here|what|who|where|how|let)['’]s\Z", re.IGNORECASE
)

#: A short statement that some object is idle, and nothing else. "An idle thought", "the kiln is idle too
#: often" and 我下午空闲 (I am free) are memories like any other: a wrong match hides a memory.
_IDLE = re.compile(
    r"^\s*(?:(?:\S+\s+){1,6}(?:is|are)\s+)?idle[.!]?\s*$"
    r"|^[^,，。;；\s]{1,12}(?:闲置(?:着|中|状态)?|处于空闲(?:状态)?|空闲(?:中|状态))[。.!！]?\s*$",
    re.IGNORECASE,
)

ENGLISH_STOP_WORDS = frozenset(
    """a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further get got had has have
    having he her here hers herself him himself his how i if in into is it it's its itself just me more most my
    myself no nor not now of off on once only or other our ours ourselves out over own same she should so some
    such than that the their theirs them themselves then there these they this those through to too under until
    up very was we were what when where which while who whom why will with would you your yours yourself
    yourselves""".split()
)
CHINESE_STOP_WORDS = frozenset(
    """一个 一些 一下 一样 一直 一起 这个 这些 这样 这里 那个 那些 那样 那里 什么 怎么 怎样 为什么 哪里 哪个 我们
    你们 他们 她们 它们 自己 大家 因为 所以 但是 不过 如果 虽然 然后 而且 或者 以及 还是 就是 只是 可以 可能 应该
    已经 正在 没有 不是 不能 不会 非常 比较 有点 觉得 现在 时候 之后 之前 以后 以前 关于 对于 通过 进行""".split()
)


#: Words that keep a conversation going and say nothing that anybody will ask for.
FILLER_WORDS = frozenset(
    """ah aha ahh alright amazing anyway aw aww awesome bye cheers cool fine good goodbye great ha haha hahaha hehe hello hey
    hi hmm hurray indeed lol lovely nice night nope oh ok okay okey oops ouch perfect please really right sigh sure
    sweet thank thanks thx totally true ty ugh uh um welcome well wonderful wow yay yeah yep yes yup""".split()
)
#: Chinese characters that small talk is made of: a text with no others says nothing (嗯嗯, 好的好的, 哈哈, 早上好).
FILLER_CHARACTERS = frozenset("嗯啊哦噢呃哈嘿呵呀哎唉嗨哇嘻嘛吧呢啦喔嘞了吗么的是对行好谢多再见拜早晚上午安您你客气辛苦没事收到明白知道")
#: Chinese words of one character that ask for nothing by themselves.
SINGLE_STOP_CHARACTERS = frozenset(
    "的了是在有我你他她它您和与跟就都也还不没很太更最把被给让对从到向往去来上下里外前后中这那哪谁几多少吗呢吧啊呀么嘛啦"
    "会能要想可该说问叫做用着过得地之其为以于因所但而且或若如则个位只次年月日号点时分天一二三四五六七八九十两些"
)


#: Marks in a row on one letter; more are put apart, as in Unicode's stream-safe text format (UAX 15). Normalisation sorts
#: each row in time that grows with its square: 80,000 of two kinds took it four seconds.
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


@lru_cache(maxsize=8)  # hash, tokens and keywords of a memory each ask for the same text, one after the other
def normalise(text: str) -> str:
    """NFKC and lower case: full-width and half-width forms, and upper and lower case, become the same text."""
    return nfkc(text).lower()


def beginning(text: str) -> str:
    """As much of a text, normalised, as words are looked for in. Some characters become eighteen (ﷺ), so it is cut twice."""
    return normalise(text[:MAX_CHARS])[:MAX_CHARS]


def storable(text: str) -> str:
    """A text without what the database cannot hold: NUL, halves of surrogate pairs."""
    if text.isascii():
        return text.replace("\x00", "")
    return "".join(char for char in text if char != "\x00" and not "\ud800" <= char <= "\udfff")


def language_of(text: str) -> Language:
    """``zh`` if more Chinese characters than words in other letters are in the text, else ``en``.

    Characters against words, not against letters: 她在读 Neuromancer is Chinese, though most of its letters are not.
    """
    if text.isascii():
        return "en"
    chinese = sum(map(len, _CJK_RUN.findall(text)))
    return "zh" if chinese > len(_WORD.findall(text)) else "en"


def is_idle(description: str, predicate: str | None = None, object: str | None = None) -> bool:  # noqa: A002
    """Whether a memory only says that something is idle: such memories are stored, but not retrieved."""
    if predicate is not None and object is not None:
        return f"{predicate} {object}".lower() == "is idle"
    return _IDLE.search(description) is not None


def last_segment(path: str) -> str:
    """The object in ``world:sector:arena:object``, which is what a keyword names."""
    return path.rsplit(":", 1)[-1].strip()


def keywords_of(description: str, subject: str | None, object: str | None) -> list[str]:  # noqa: A002
    """Keywords of a memory that brings none: subject and object if it has them, else words of its text."""
    named = [
        keyword[:MAX_KEYWORD_CHARS]
        for part in (subject, object)
        if part and (segment := last_segment(part))
        for keyword in _naming(segment)
    ]
    if named:
        return list(dict.fromkeys(named))
    return list(dict.fromkeys(_telling(words_of(description))))[:MAX_EXTRACTED_KEYWORDS]


def _naming(segment: str) -> list[str]:
    """A name or an object as it is; of a phrase with function words (me to the hospital) the words that name something."""
    words = normalise(segment).split()
    if any(word in ENGLISH_STOP_WORDS or _CONTRACTION.search(word) for word in words):
        return _telling(words_of(segment))
    return [segment] if segment not in SINGLE_STOP_CHARACTERS else []


def _telling(words: list[str]) -> list[str]:
    """Without verbs of somebody (sends), as long as anything is left: people look for things and names."""
    return [word for word in words if not (word.endswith("s") and word in _verbs())] or words


@cache
def _verbs() -> frozenset[str]:
    lines = files("jiyi").joinpath("providers/llms/rules/verbs.en.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(" ".join(line for line in lines if not line.startswith("#")).split())


def keywords_ranked(text: str) -> list[str]:
    """All keywords of a text, the most telling first.

    What is repeated comes before what is not, then names, identifiers and numbers with letters, then longer words
    (two Chinese characters say about as much as six letters); equals stand as in the text.
    """
    counts = Counter(_telling(words_of(text)))
    names = {match.group().lower() for match in _NAME.finditer(nfkc(text[:MAX_CHARS]))}

    def weight(word: str) -> tuple[int, bool, bool]:
        named = word in names or any(char.isdigit() for char in word)
        return counts[word], named, len(word) >= (3 if _CJK_RUN.match(word) else 6)

    return sorted(counts, key=weight, reverse=True)


@lru_cache(maxsize=8)  # a question is asked for its single characters and for its idle pairs
def segmented(text: str) -> list[list[str]]:
    """The words of each run of Chinese characters."""
    import rjieba  # late: its dictionary is loaded with it

    return [rjieba.cut(match.group()) for match in _CJK_RUN.finditer(beginning(text))]


def single_characters(text: str) -> list[str]:
    """The Chinese words of one character in a text that mean something alone: 猫 in 我家的猫呢. Each once, in order."""
    words = (word for run in segmented(text) for word in run)
    return list(dict.fromkeys(word for word in words if len(word) == 1 and word not in SINGLE_STOP_CHARACTERS))


def idle_pairs(text: str) -> set[str]:
    """The pairs of Chinese characters in a text that lie wholly in function words: 我现 and 现在 in 我现在住哪里."""
    idle: set[str] = set()
    telling: set[str] = set()
    for run in segmented(text):
        marks = [word in SINGLE_STOP_CHARACTERS or word in CHINESE_STOP_WORDS for word in run for _ in word]
        characters = "".join(run)
        for place, pair in enumerate(map(add, characters, characters[1:])):
            (idle if marks[place] and marks[place + 1] else telling).add(pair)
    return idle - telling


def _is_word(word: str) -> bool:
    return word not in ENGLISH_STOP_WORDS and not _CONTRACTION.search(word)


def words_of(text: str) -> list[str]:
    """The words of a text that could be keywords, normalised, in order, with repetitions."""
    import rjieba  # late: its dictionary is loaded with it

    text = beginning(text)
    found = [
        (match.start(), word) for match in _CJK_RUN.finditer(text) for word in rjieba.cut(match.group()) if word not in CHINESE_STOP_WORDS
    ]
    found += [(match.start(), match.group()) for match in _WORD.finditer(text) if _is_word(match.group())]
    return [word for _, word in sorted(found, key=lambda item: item[0]) if MIN_KEYWORD_CHARS <= len(word) <= MAX_KEYWORD_CHARS]
