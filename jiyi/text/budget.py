"""How many tokens a text is about, and as much of a text as a budget allows.

The estimate is high on purpose, so that what is injected keeps within the budget by a model's own count: 1.5
for a Chinese, Japanese or Korean character, 1.3 for a word; numbers, other scripts and emoji as much as their
pieces.
"""

from __future__ import annotations

import re

from jiyi.text.remembering import remembered

#: Costs are whole hundredths of a token: sums of floats would be rounded up.
TOKEN = 100
#: Hundredths of a token for a CJK character, a word, any other mark.
CJK_COST, WORD_COST, MARK_COST = 150, 130, 100
#: Hundredths of a token for a letter of a word too long to be one token.
LETTER_COST = 25
#: The same for a digit (Qwen, DeepSeek and Gemma count each), and for letters of two bytes in UTF-8 and of
#: more: a byte-level tokenizer never makes more tokens than bytes.
DIGIT_COST, TWO_BYTE_COST, MORE_BYTES_COST = 100, 50, 100
#: Hundredths of a token for an emoji, or another mark of four bytes.
FOUR_BYTE_MARK_COST = 300
#: Words whose costs are kept, of at most so many characters: texts are made of few words.
KNOWN_WORDS, KNOWN_CHARS = 20_000, 24

_CJK = (
    "\u3001-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
    "\U00020000-\U0003134f"
)
_CJK_CHAR = re.compile(f"[{_CJK}]")
_WORD = rf"[^\W_{_CJK}]"
#: What tokenizers join: ends of contractions, a mark with a quotation mark, a heading's marks.
_JOINED = f"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL]{{2}})(?!{_WORD})|[.!?]+\"?|#+"
#: That, a word or any other mark; and any unit at all.
_OTHER = re.compile(rf"{_JOINED}|{_WORD}+|[^\s{_CJK}]")
_UNIT = re.compile(f"{_CJK_CHAR.pattern}|{_OTHER.pattern}")
#: What follows a text that was cut.
CUT = "…"
_ENDS = (re.compile(r"[。！？；\n]|[.!?;](?=\s)"), re.compile(r"[，、]|[,:](?=\s)"), re.compile(r"(?=\s)"))


def estimate_tokens(text: str) -> int:
    """Rather too many than too few; 0 for a blank text.

    The estimate of joined texts is at most the sum of theirs.
    """
    return -(-cost_of(text) // TOKEN)  # rounded up


def cost_of(text: str) -> int:
    """The same in hundredths of a token, which do not add up roundings where a text is made of many lines."""
    cjk = 0 if text.isascii() else len(_CJK_CHAR.findall(text))
    return cjk * CJK_COST + sum(map(_cost, _OTHER.findall(text)))


def cut_to_tokens(text: str, most: int) -> str:
    """The beginning of a text, at most so many tokens with its …, if possible to an end of something."""
    if estimate_tokens(text) <= most:
        return text
    room = most * TOKEN - MARK_COST
    place = 0
    for match in _UNIT.finditer(text):
        room -= CJK_COST if _CJK_CHAR.match(match[0]) else _cost(match[0])
        if room < 0:
            break
        place = match.end()
    for pattern in _ENDS:
        ends = [
            match.end() for match in pattern.finditer(text, 0, place + 1) if place // 2 < match.end() <= place
        ]
        if ends:
            place = ends[-1]
            break
    beginning = text[:place].rstrip()
    return f"{beginning}{CUT}" if beginning else ""


def _cost(unit: str) -> int:
    """Of a word or a mark."""
    return _known_cost(unit) if len(unit) <= KNOWN_CHARS else _counted(unit)


def _counted(unit: str) -> int:
    if unit.isascii() and unit.isalpha():
        return max(WORD_COST, len(unit) * LETTER_COST)
    if not unit[0].isalnum():
        return MARK_COST + LETTER_COST * (len(unit) - 1) if unit < "\U00010000" else FOUR_BYTE_MARK_COST
    return max(WORD_COST, sum(map(_letter_cost, unit)))


_known_cost = remembered(KNOWN_WORDS)(_counted)


def _letter_cost(char: str) -> int:
    if char.isdecimal():
        return DIGIT_COST
    return LETTER_COST if char.isascii() else TWO_BYTE_COST if char < "\u0800" else MORE_BYTES_COST
