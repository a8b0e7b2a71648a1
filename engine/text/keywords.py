"""Which words of a text matter (keywords, tokens of questions), and where a text has what is searched for."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from operator import add

from jiyi.text.clauses import united
from jiyi.text.remembering import remembered
from jiyi.text.words import (
    CJK_RUN,
    ENGLISH_STOP_WORDS,
    LATIN_WORD,
    MAX_CHARS,
    beginning,
    last_segment,
    nfkc,
    normalise,
    tokens,
)

#: Keywords taken from a text that has none of its own: enough to find it by, few enough to mean something.
MAX_EXTRACTED_KEYWORDS = 8
#: A single Latin letter or CJK character is rarely a word worth indexing.
MIN_KEYWORD_CHARS = 2
#: Longer ones do not fit into the database's index of keywords.
MAX_KEYWORD_CHARS = 200

#: Capitalised within a sentence, or with capitals only: mostly names.
_NAME = re.compile(r"(?<=[^\W_] )[A-Z][\w'’-]+|\b[A-Z]{2,}\b")

#: I'm, they've, don't, it's, let's; but not Anna's.
_CONTRACTION = re.compile(
    r"(?:['’](?:m|re|ve|ll|d)|n['’]t)\Z|\A(?:it|he|she|that|this|there|here|what|who|where|how|let)['’]s\Z",
    re.IGNORECASE,
)

CHINESE_STOP_WORDS = frozenset(
    """一个 一些 一下 一样 一直 一起 这个 这些 这样 这里 那个 那些 那样 那里 什么 怎么 怎样 为什么 哪里 哪个
    我们 你们 他们 她们 它们 自己 大家 因为 所以 但是 不过 如果 虽然 然后 而且 或者 以及 还是 就是 只是 可以
    可能 应该 已经 正在 没有 不是 不能 不会 非常 比较 有点 觉得 现在 时候 之后 之前 以后 以前 关于 对于 通过
    进行""".split()
)
#: Chinese words of one character that ask for nothing by themselves.
SINGLE_STOP_CHARACTERS = frozenset(
    "的了是在有我你他她它您和与跟就都也还不没很太更最把被给让对从到向往去来上下里外前后中这那哪谁几多少吗呢吧啊呀么嘛啦"
    "会能要想可该说问叫做用着过得地之其为以于因所但而且或若如则个位只次年月日号点时分天一二三四五六七八九十两些"
)


def keywords_of(description: str, subject: str | None, object: str | None) -> list[str]:  # noqa: A002
    """Keywords of a memory that has none: subject and object if it has them, else words of its text."""
    names = [
        keyword[:MAX_KEYWORD_CHARS]
        for part in (subject, object)
        if part and (segment := last_segment(part))
        for keyword in _naming(segment)
    ]
    if names:
        return list(dict.fromkeys(names))
    return list(dict.fromkeys(_telling(words_of(description))))[:MAX_EXTRACTED_KEYWORDS]


def _naming(segment: str) -> list[str]:
    """A name or an object unchanged; of a phrase (me to the hospital) the words that name something."""
    words = normalise(segment).split()
    if any(word in ENGLISH_STOP_WORDS or _CONTRACTION.search(word) for word in words):
        return _telling(words_of(segment))
    return [segment] if segment not in SINGLE_STOP_CHARACTERS else []


def _telling(words: list[str]) -> list[str]:
    """Without verbs of somebody (sends), as long as anything is left: people look for things and names."""
    return [word for word in words if not (word.endswith("s") and word in verbs())] or words


@cache
def verbs() -> frozenset[str]:
    """English verbs of somebody: sends."""
    lines = files("engine").joinpath("rules", "verbs.en.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(" ".join(line for line in lines if not line.startswith("#")).split())


def keywords_ranked(text: str) -> list[str]:
    """All keywords of a text, the most telling first.

    Repeated ones first, then names, identifiers and numbers with letters, then longer words (two Chinese
    characters say about as much as six letters); equals in the text's order.
    """
    counts = Counter(_telling(words_of(text)))
    names = {match.group().lower() for match in _NAME.finditer(nfkc(text[:MAX_CHARS]))}

    def weight(word: str) -> tuple[int, bool, bool]:
        is_name = word in names or any(char.isdigit() for char in word)
        return counts[word], is_name, len(word) >= (3 if CJK_RUN.match(word) else 6)

    return sorted(counts, key=weight, reverse=True)


@remembered(8)  # a question is asked for its single characters and for its idle pairs
def segmented(text: str) -> list[list[str]]:
    """The words of each run of Chinese characters."""
    import rjieba  # late: its dictionary is loaded with it

    return [rjieba.cut(match.group()) for match in CJK_RUN.finditer(beginning(text))]


def single_characters(text: str) -> list[str]:
    """The Chinese words of one character in a text that mean something alone (猫 in 我家的猫呢), in order."""
    words = (word for run in segmented(text) for word in run)
    return list(
        dict.fromkeys(word for word in words if len(word) == 1 and word not in SINGLE_STOP_CHARACTERS)
    )


def idle_pairs(text: str) -> set[str]:
    """The pairs of Chinese characters wholly in function words: 我现 and 现在 in 我现在住哪里."""
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
    placed = [
        (match.start(), word)
        for match in CJK_RUN.finditer(text)
        for word in rjieba.cut(match.group())
        if word not in CHINESE_STOP_WORDS
    ]
    placed += [
        (match.start(), match.group()) for match in LATIN_WORD.finditer(text) if _is_word(match.group())
    ]
    return [
        word
        for _, word in sorted(placed, key=lambda item: item[0])
        if MIN_KEYWORD_CHARS <= len(word) <= MAX_KEYWORD_CHARS
    ]


def query_tokens(text: str) -> list[str]:
    """The tokens of a question: without pairs of function words, with Chinese words of one character."""
    words = tokens(text)
    if text.isascii():
        return words
    idle = idle_pairs(text)
    words += [word for word in single_characters(text) if word not in words]
    return [token for token in words if token not in idle] or words


#: Characters of a memory that a list shows, and of those before the first match.
SHOWN_CHARS, LEAD_CHARS = 400, 80
#: Characters of a text in which matches are looked for.
LOOKED_AT_CHARS = 4_000
#: Characters of what was searched for that are marked.
MAX_WORDS = 200

#: A piece of text, and whether it was searched for.
MarkedText = tuple[str, bool]

_CJK_RUN = re.compile("[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_WORD = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+(?:[-'’_.@/:+][^\W_]+)*")


def pieces(text: str, words: str, max_chars: int = SHOWN_CHARS) -> list[MarkedText]:
    """The text, or the part of it around the first match, cut where a match begins or ends."""
    spans = united(marks(text[:LOOKED_AT_CHARS], words)) if words.strip() else []
    start = 0
    if len(text) > max_chars and spans and spans[0][0] > max_chars - LEAD_CHARS:
        start = spans[0][0] - LEAD_CHARS
    end = min(len(text), start + max_chars)
    pieces: list[MarkedText] = [("…", False)] if start else []
    at = start
    for begin, stop in spans:
        if begin >= end:
            break
        pieces += [(text[at:begin], False), (text[begin : min(stop, end)], True)]
        at = min(stop, end)
    pieces += [(text[at:end], False), ("…" if end < len(text) else "", False)]
    return [piece for piece in pieces if piece[0]]


def marks(text: str, words: str) -> list[tuple[int, int]]:
    """Where the text has what was searched for: as typed, a Chinese pair, a word of the same stem."""
    words = words.strip()[:MAX_WORDS]
    spans = [match.span() for match in re.finditer(re.escape(words), text, re.IGNORECASE)]
    for run in _CJK_RUN.findall(words):
        for pair in {run[place : place + 2] for place in range(max(1, len(run) - 1))}:
            spans += [match.span() for match in re.finditer(re.escape(pair), text)]
    word_tokens = _word_tokens(words)
    if word_tokens:
        spans += [match.span() for match in _WORD.finditer(text) if word_tokens & set(tokens(match[0]))]
    return spans


@remembered(64)
def _word_tokens(words: str) -> frozenset[str]:
    return frozenset(token for word in _WORD.findall(words) for token in tokens(word))
