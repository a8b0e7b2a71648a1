"""What of a text was searched for: the places to mark, and the part to show of a long one."""

from __future__ import annotations

import re
from functools import lru_cache

from jiyi.text.words import tokens

#: Characters of a memory that a list shows, and of those before the first match.
SHOWN_CHARS, LEAD_CHARS = 400, 80
#: Characters of a text in which matches are looked for.
LOOKED_AT_CHARS = 4_000
#: Characters of what was searched for that are marked: each pair of them is looked for.
MAX_WORDS = 200

#: A piece of text, and whether it was searched for.
Piece = tuple[str, bool]

_CJK_RUN = re.compile("[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_WORD = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+(?:[-'’_.@/:+][^\W_]+)*")


def pieces(text: str, words: str, shown: int = SHOWN_CHARS) -> list[Piece]:
    """The text, or the part of it around the first match, cut where a match begins or ends."""
    spans = _joined(marks(text[:LOOKED_AT_CHARS], words)) if words.strip() else []
    start = 0
    if len(text) > shown and spans and spans[0][0] > shown - LEAD_CHARS:
        start = spans[0][0] - LEAD_CHARS
    end = min(len(text), start + shown)
    pieces: list[Piece] = [("…", False)] if start else []
    at = start
    for begin, stop in spans:
        if begin >= end:
            break
        pieces += [(text[at:begin], False), (text[begin : min(stop, end)], True)]
        at = min(stop, end)
    pieces += [(text[at:end], False), ("…" if end < len(text) else "", False)]
    return [piece for piece in pieces if piece[0]]


def marks(text: str, words: str) -> list[tuple[int, int]]:
    """Where the text has what was searched for: as typed, a pair of its Chinese characters, a word of the same stem."""
    words = words.strip()[:MAX_WORDS]
    spans = [match.span() for match in re.finditer(re.escape(words), text, re.IGNORECASE)]
    for run in _CJK_RUN.findall(words):
        for pair in {run[place : place + 2] for place in range(max(1, len(run) - 1))}:
            spans += [match.span() for match in re.finditer(re.escape(pair), text)]
    wanted = _word_tokens(words)
    if wanted:
        spans += [match.span() for match in _WORD.finditer(text) if wanted & set(tokens(match[0]))]
    return spans


@lru_cache(maxsize=64)
def _word_tokens(words: str) -> frozenset[str]:
    return frozenset(token for word in _WORD.findall(words) for token in tokens(word))


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
