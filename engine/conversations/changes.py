"""Which memories say that an earlier one no longer holds.

Two memories with the same subject and single-valued attribute contradict each other. Where the heads can be asked they judge every pair of
memories of one subject; without them only the same attribute counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.conversations.attributes import attribute_of
from engine.conversations.cues import CALENDAR, EMPTY, NUMBERS
from engine.heads import retiring
from engine.heads.judgements import Heads
from engine.heads.retiring import said_of
from engine.text.changes import CHANGE
from engine.text.keywords import segmented, single_characters
from jiyi.protocol.conversations import ExtractedMemory, KnownFact
from jiyi.text.words import CJK, is_filler, stem, telling

#: In a text of more telling words a word of change is about one thing of many.
MOST_TOLD = 30
#: Words for the change itself, which name nothing.
_OF_CHANGE = frozenset(
    map(
        stem,
        """move moved change changed switch switched quit stop stopped sold sell postpone postponed reschedule rescheduled push pushed shift
        shifted replace replaced cancel cancelled canceled swap swapped finish finished drop dropped start started longer anymore
        actually turn turns used 取消 推迟 提前 不再 其实 改成 改到 换成 换了
        后来 卖了 分手 离职 辞职 退休 一个 那个 这个 两个 每天 有点 已经 自己
        家 住""".split(),
    )
)
_CHINESE = re.compile(f"[{CJK}]")


def linked(memories: Sequence[ExtractedMemory], known: Sequence[KnownFact], heads: Heads | None = None) -> list[ExtractedMemory]:
    """The memories with the attributes of what they change, and the numbers of the known facts that they supersede."""
    if heads is not None:
        return _judged(memories, known, heads)
    result: list[ExtractedMemory] = []
    for memory in memories:
        superseded = [number for number, fact in enumerate(known) if _contradict(memory, fact)]
        newer = memory.model_copy(update={"supersedes": superseded}) if superseded else memory
        result.append(_unless_repeated(newer, result, known))
    return result


def _judged(memories: Sequence[ExtractedMemory], known: Sequence[KnownFact], heads: Heads) -> list[ExtractedMemory]:
    """As :func:`linked`, by what the heads say of each new memory after each earlier one of the same subject.

    Of the same single-valued attribute the newer is the likelier to replace the older: less is enough, and another value in the same
    words ("I live in Lisbon" after "I live in Porto") always does.
    """
    chances = _chances(memories, known, heads)
    least = retiring.sure(heads)
    result: list[ExtractedMemory] = []
    for place, memory in enumerate(memories):
        earlier: list[ExtractedMemory | KnownFact] = [*known, *result]
        rivals = [other for other in earlier if _contradict(memory, other)]
        newer = memory
        enough = 0.0 if rivals and _another_value(memory, rivals[-1]) else retiring.EXPECTED
        if rivals and not any(chances.get((_key(other), place), 0.0) >= enough for other in rivals):
            newer = memory.model_copy(update={"single_valued": False})
        retired = [
            number
            for number, fact in enumerate(known)
            if chances.get((_key(fact), place), 0.0) >= (enough if _contradict(newer, fact) else least)
        ]
        if retired:
            newer = newer.model_copy(update={"supersedes": retired})
        for number in range(len(result) - 1, -1, -1):
            other = result[number]
            if other.turns != newer.turns and chances.get((_key(memories[number]), place), 0.0) >= least and not _contradict(newer, other):
                result[number], newer = _joined(other, newer)
                break
        result.append(newer)
    return result


def _chances(memories: Sequence[ExtractedMemory], known: Sequence[KnownFact], heads: Heads) -> dict[tuple[str, int], float]:
    """How likely each new memory (by its place) retires each earlier one (by what it says), where it may at all."""
    pairs, places = [], []
    for place, memory in enumerate(memories):
        earlier: list[ExtractedMemory | KnownFact] = [*known, *memories[:place]]
        for other in earlier:
            older, newer = _key(other), _key(memory)
            if other.subject == memory.subject:
                pairs.append((older, newer))
                places.append((older, place))
    return dict(zip(places, retiring.chances(heads, pairs), strict=True))


def _key(memory: ExtractedMemory | KnownFact) -> str:
    return said_of(memory.content)


def _unless_repeated(memory: ExtractedMemory, earlier: Sequence[ExtractedMemory], known: Sequence[KnownFact]) -> ExtractedMemory:
    """Without a word of change, what says something else of the same attribute, or the same again, contradicts nothing."""
    if not (memory.single_valued and memory.attribute) or _is_news(memory.content):
        return memory
    # A value that comes back is compared with what was said last.
    same: Sequence[ExtractedMemory | KnownFact] = [other for other in earlier if _same_attribute(other, memory)][-1:]
    same = same or [other for other in known if _same_attribute(other, memory)]
    if not same or (not memory.attribute.startswith("time:") and all(_another_value(memory, other) for other in same)):
        return memory
    return memory.model_copy(update={"single_valued": False, "supersedes": []})


def _same_attribute(older: ExtractedMemory | KnownFact, newer: ExtractedMemory) -> bool:
    return (older.subject, older.attribute) == (newer.subject, newer.attribute)


def _is_news(content: str) -> bool:
    return CHANGE.search(content.lower()) is not None and len(telling(content)) <= MOST_TOLD


def _another_value(memory: ExtractedMemory, other: ExtractedMemory | KnownFact) -> bool:
    """Whether two statements of one attribute are worded alike, with nothing in common beside."""
    mine, theirs = attribute_of(said_of(memory.content)), attribute_of(said_of(other.content))
    if mine is None or theirs is None or mine.wording != theirs.wording:
        return False
    if mine.name == "job" and mine.subject != "user":
        return False  # of others one hears employer, place and title in turn
    values = _words(memory.content) - _words(mine.said), _words(other.content) - _words(theirs.said)
    if not all(values):  # the value is in what the pattern found: a nurse
        values = _words(mine.said), _words(theirs.said)
    return values[0].isdisjoint(values[1])


def _joined(old: ExtractedMemory, new: ExtractedMemory) -> tuple[ExtractedMemory, ExtractedMemory]:
    """Both with one attribute of one value: the old one's, if it has such, else one that no other memory has."""
    attribute = old.attribute if old.single_valued and old.attribute is not None else f"state:{min(_words(old.content), default='it')}"
    update = {"attribute": attribute, "single_valued": True}
    return old.model_copy(update=update), new.model_copy(update=update)


def _contradict(memory: ExtractedMemory, other: ExtractedMemory | KnownFact) -> bool:
    return memory.single_valued and memory.attribute is not None and _same_attribute(other, memory)


def _words(text: str) -> set[str]:
    """What a statement is about, in words: without days, numbers and the words of the change itself."""
    statement = said_of(text)
    chinese = {word for run in segmented(statement) for word in run if len(word) > 1 and not any(day in word for day in CALENDAR)}
    chinese |= set(single_characters(statement))
    other = {word for word in telling(statement) if not _CHINESE.match(word) and len(word) > 1}
    return {
        word
        for word in chinese | other
        if word not in EMPTY
        and word not in CALENDAR
        and word not in NUMBERS
        and word not in _OF_CHANGE
        and not is_filler(word)
        and not any(char.isdigit() for char in word)
    }
