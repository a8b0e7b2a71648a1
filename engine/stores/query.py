"""What of a text counts, of a question as of what is stored.

Instructions to an agent often stand before what it is asked: "You are a poet, …". They say nothing of what to look for, and
are left out where they begin a long text; whatever else is said stays, up to a length.
"""

from __future__ import annotations

import re

from jiyi.stores.config.types import MAX_CONTENT_LENGTH, Fidelity
from jiyi.text.splitting import sentences

#: A text up to here is taken as it is.
SHORT = 100
#: What follows a text that was cut.
CUT = "..."
#: Characters of a text that are looked at: more than the longest that may count.
LOOKED_AT = 40_000

#: Instructions, at the beginning only, each up to its comma or sentence end. Their articles tell "You are a poet," from "You are right,".
_PREFIX = re.compile(
    r"[ \t\n]{0,10}(?:(?:Agent|Model) Role:[^\n]{0,300}\n[ \t]{0,10}\n"
    r"|You are (?:an?|the) [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|(?:The )?[Uu]ser will input [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|You need to [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|你是一[位个名][^,，。！？\n]{0,200}[,，。！]"
    r"|用户(?:将|会)输入[^,，。！？\n]{0,200}[,，。！]"
    r"|你需要[^,，。！？\n]{0,200}[,，。！])"
)
#: Prefixes after each other, at most.
MAX_PREFIXES = 5


def key_content(text: str, max_length: int = MAX_CONTENT_LENGTH, fidelity: Fidelity = "jiyi") -> str:
    """What counts of a text, at most ``max_length`` characters and perhaps a mark that it was cut."""
    if fidelity == "devall":
        return _devall(text)
    text = text[:LOOKED_AT]
    if len(collapsed := " ".join(text.split())) <= SHORT:
        return collapsed
    place = 0
    for _ in range(MAX_PREFIXES):
        found = _PREFIX.match(text, place)
        if found is None:
            break
        place = found.end()
    rest = " ".join(text[place:].split()) or collapsed
    return _cut(rest, max_length)


def query_text(text: str, max_length: int = MAX_CONTENT_LENGTH, fidelity: Fidelity = "jiyi") -> str:
    """What is searched with; the original's begins with a label."""
    if fidelity == "devall":
        return _devall(f"Query: {text}")
    return key_content(text, max_length)


def _cut(text: str, most: int) -> str:
    """The beginning of a text that is too long, whole sentences if the first ones fill half of the room."""
    if len(text) <= most:
        return text
    end = 0
    for sentence in sentences(text[: most + 1]):
        after = text.find(sentence, end) + len(sentence)
        if after > most:
            break
        end = after
    return text[:end] if end >= most // 2 else f"{text[:most].rstrip()}{CUT}"


# The original's rules, as they behave: white space goes first, so that its rule for roles never finds its blank line, and
# what it strips stands anywhere.
_DEVALL_STRIPPED = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:You are|你是一位)[^,，]{0,500}[,，]",
        r"(?:User will input|用户会输入)[^,，]{0,500}[,，]",
        r"(?:You need to|你需要)[^,，]{0,500}[,，]",
    )
)
_DEVALL_ENDS = re.compile(r"[。！？；\n]")
#: Sentences that count in the original: of at least so many characters, the first so many.
DEVALL_LEAST, DEVALL_SENTENCES = 20, 3


def _devall(text: str) -> str:
    text = " ".join(text[:LOOKED_AT].split())
    if len(text) <= SHORT:
        return text
    stripped = text
    for pattern in _DEVALL_STRIPPED:
        stripped = pattern.sub("", stripped)
    kept = [one.strip() for one in _DEVALL_ENDS.split(stripped) if len(one.strip()) >= DEVALL_LEAST]
    if not kept:
        return text[:MAX_CONTENT_LENGTH]
    joined = "。".join(kept[:DEVALL_SENTENCES])
    return joined if len(joined) <= MAX_CONTENT_LENGTH else joined[:MAX_CONTENT_LENGTH] + CUT
