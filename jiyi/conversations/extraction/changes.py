"""Which memories say that an earlier one no longer holds, though they word it differently.

Two memories with the same subject and single-valued attribute contradict each other. A statement of change ("the exam got
postponed", 聚会取消了) also belongs to an earlier memory of the same kind that shares a telling word with it: it takes over
that one's attribute. Without a word of change nothing is linked: two plans for Berlin are two plans.
"""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.conversations.extraction.words import CALENDAR, CHANGE, EMPTY
from jiyi.conversations.types import ExtractedMemory, KnownFact
from jiyi.text.tokens import is_filler, telling
from jiyi.text.words import single_characters

#: Kinds of attribute that speak of the same things: what is planned has a time.
_SAME_KIND = [frozenset({"time", "plan", ""}), frozenset({"likes", "diet", "favourite"}), frozenset({"pet"}), frozenset({"has", "health"})]


def linked(memories: Sequence[ExtractedMemory], known: Sequence[KnownFact]) -> list[ExtractedMemory]:
    """The memories with the attributes of what they change, and the numbers of the known facts that they supersede."""
    found: list[ExtractedMemory] = []
    for memory in memories:
        found.append(_linked(memory, found, known) if _changes(memory) else _superseding(memory, known))
    return found


def _changes(memory: ExtractedMemory) -> bool:
    return CHANGE.search(memory.content.lower()) is not None


def _linked(memory: ExtractedMemory, earlier: list[ExtractedMemory], known: Sequence[KnownFact]) -> ExtractedMemory:
    memory = _superseding(memory, known)
    if memory.supersedes or any(_contradict(memory, other) for other in earlier):
        return memory
    words = _words(memory.content)
    for place in range(len(earlier) - 1, -1, -1):
        other = earlier[place]
        if other.turns != memory.turns and other.subject == memory.subject and _akin(memory, other.attribute, other.content, words):
            attribute = other.attribute or memory.attribute or f"state:{min(words & _words(other.content))}"
            earlier[place] = other.model_copy(update={"attribute": attribute, "single_valued": True})
            return memory.model_copy(update={"attribute": attribute, "single_valued": True})
    for number in range(len(known) - 1, -1, -1):
        fact = known[number]
        if fact.subject == memory.subject and _akin(memory, fact.attribute, fact.content, words):
            update = {"supersedes": [number], "attribute": fact.attribute or memory.attribute, "single_valued": True}
            return memory.model_copy(update=update)
    return memory


def _superseding(memory: ExtractedMemory, known: Sequence[KnownFact]) -> ExtractedMemory:
    """With the known facts of the same subject and single-valued attribute."""
    numbers = [number for number, fact in enumerate(known) if _contradict(memory, fact)]
    return memory.model_copy(update={"supersedes": numbers}) if numbers else memory


def _contradict(memory: ExtractedMemory, other: ExtractedMemory | KnownFact) -> bool:
    return memory.single_valued and memory.attribute is not None and (memory.subject, memory.attribute) == (other.subject, other.attribute)


def _akin(memory: ExtractedMemory, attribute: str | None, content: str, words: set[str]) -> bool:
    kinds = {_kind(memory.attribute), _kind(attribute)}
    return any(kinds <= same for same in _SAME_KIND) and bool(words & _words(content))


def _kind(attribute: str | None) -> str:
    return (attribute or "").partition(":")[0]


def _words(text: str) -> set[str]:
    """What a statement is about: without its speaker, days and numbers."""
    said = text.partition(": ")[2] or text.partition("：")[2] or text
    return {
        word
        for word in (*telling(said), *single_characters(said))
        if word not in EMPTY and word not in CALENDAR and not is_filler(word) and not any(char.isdigit() for char in word)
    }
