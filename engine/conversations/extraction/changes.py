"""Which memories say that an earlier one no longer holds, though they word it differently.

Two memories with the same subject and single-valued attribute contradict each other. A statement that something has ended or
is another now ("the exam got postponed", 聚会取消了) also belongs to an earlier memory of the same kind that names the thing.
What names nothing changes nothing: two plans for Berlin are two plans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from engine.conversations.extraction.attributes import attribute_of
from engine.conversations.extraction.words import CALENDAR, EMPTY, MOVED_TO, NUMBERS
from engine.heads import retiring
from engine.heads.judgements import Heads
from engine.heads.retiring import said_of
from engine.text.changes import CHANGE, ENDS
from engine.text.keywords import segmented, single_characters
from engine.text.statements import relations_in
from engine.text.topics import topics_of
from jiyi.protocol.conversations.types import ExtractedMemory, KnownFact
from jiyi.text.tokens import is_filler, stem, telling
from jiyi.text.words import CJK

#: Kinds of attribute that speak of the same things: what is planned has a time.
_SAME_KIND = [frozenset({"time", "plan", ""}), frozenset({"likes", "diet", "favourite"}), frozenset({"pet"}), frozenset({"has", "health"})]
#: Share of the words of a clause that have to be of the earlier memory: the clause is about it.
ABOUT = 0.25
#: In a clause of more words what has ended is one thing of many.
MOST_WORDS = 8
#: In a text of more telling words a word of change is about one thing of many.
MOST_TOLD = 30
#: A word that so many known facts have names nothing.
COMMON = 3
#: Topics of which somebody has one habit or one thing: that it has ended needs no word in common ("four espressos", "quit coffee").
HABITS = frozenset({"coffee", "tea", "alcohol", "smoking", "phone", "rent", "landlord", "internet"})
#: Who only says "it" means what was said right before, within as many messages.
_IT = re.compile(r"\b(?:moved|shifted|pushed|postponed|changed|cancell?ed|rescheduled|swapped|sold) (?:it|that)\b|[把将]它")
IT_MESSAGES = 4
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
_CLAUSE = re.compile(r"[,，;；。.!！?？\n]+")


def linked(memories: Sequence[ExtractedMemory], known: Sequence[KnownFact], heads: Heads | None = None) -> list[ExtractedMemory]:
    """The memories with the attributes of what they change, and the numbers of the known facts that they supersede."""
    if heads is not None:
        return _judged(memories, known, heads)
    found: list[ExtractedMemory] = []
    common = _common(fact.content for fact in known)
    for memory in memories:
        found.append(_linked(_superseding(memory, known), found, known, common))
    return found


def _judged(memories: Sequence[ExtractedMemory], known: Sequence[KnownFact], heads: Heads) -> list[ExtractedMemory]:
    """As :func:`linked`, by what the heads say of each new memory after each earlier one of the same subject.

    Of the same single-valued attribute the newer is the likelier to replace the older: less is enough, and another value in the same
    words ("I live in Lisbon" after "I live in Porto") always does.
    """
    chances = _chances(memories, known, heads)
    least = retiring.sure(heads)
    found: list[ExtractedMemory] = []
    for place, memory in enumerate(memories):
        earlier: list[ExtractedMemory | KnownFact] = [*known, *found]
        rivals = [other for other in earlier if _contradict(memory, other)]
        retired: list[int] = []
        newer = memory
        enough = 0.0 if rivals and _another_value(memory, rivals[-1]) else retiring.EXPECTED
        if rivals and not any(chances.get((_key(other), place), 0.0) >= enough for other in rivals):
            newer = memory.model_copy(update={"single_valued": False})
        for number, fact in enumerate(known):
            if chances.get((_key(fact), place), 0.0) >= (enough if _contradict(newer, fact) else least):
                retired.append(number)
        if retired:
            newer = newer.model_copy(update={"supersedes": retired})
        for number in range(len(found) - 1, -1, -1):
            other = found[number]
            if other.turns != newer.turns and chances.get((_key(memories[number]), place), 0.0) >= least and not _contradict(newer, other):
                found[number], newer = _joined(other, newer, f"state:{min(_words(other.content), default='it')}")
                break
        found.append(newer)
    return found


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


def _key(one: ExtractedMemory | KnownFact) -> str:
    return said_of(one.content)


def _linked(memory: ExtractedMemory, earlier: list[ExtractedMemory], known: Sequence[KnownFact], common: frozenset[str]) -> ExtractedMemory:
    memory = _unless_repeated(memory, earlier, known)
    if memory.supersedes or any(_contradict(memory, other) for other in earlier):
        return memory
    clauses = _ending(memory.content)
    for place in range(len(earlier) - 1, -1, -1):
        other = earlier[place]
        if other.turns != memory.turns and (word := _named(memory, clauses, other, frozenset())):
            earlier[place], memory = _joined(other, memory, f"{_kind(other.attribute) or _kind(memory.attribute) or 'state'}:{word}")
            return memory
    if earlier and _means_it(memory.content) and earlier[-1].turns != memory.turns and _follows(memory, earlier[-1]):
        earlier[-1], memory = _joined(earlier[-1], memory, f"state:{min(_words(earlier[-1].content), default='it')}")
        return memory
    for number in range(len(known) - 1, -1, -1):
        if _named(memory, clauses, known[number], common):
            return memory.model_copy(update={"supersedes": [number]})
    return memory


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


def _same_attribute(one: ExtractedMemory | KnownFact, other: ExtractedMemory) -> bool:
    return (one.subject, one.attribute) == (other.subject, other.attribute)


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


def _means_it(content: str) -> bool:
    return _IT.search(content.lower()) is not None or MOVED_TO.search(said_of(content)) is not None


def _follows(memory: ExtractedMemory, other: ExtractedMemory) -> bool:
    return memory.subject == other.subject and 0 < min(memory.turns) - max(other.turns) <= IT_MESSAGES


def _joined(old: ExtractedMemory, new: ExtractedMemory, attribute: str) -> tuple[ExtractedMemory, ExtractedMemory]:
    """Both with one attribute of one value: the old one's, if it has such, else the given one, which no other memory has."""
    if old.single_valued and old.attribute is not None:
        attribute = old.attribute
    update = {"attribute": attribute, "single_valued": True}
    return old.model_copy(update=update), new.model_copy(update=update)


def _superseding(memory: ExtractedMemory, known: Sequence[KnownFact]) -> ExtractedMemory:
    """With the known facts of the same subject and single-valued attribute."""
    numbers = [number for number, fact in enumerate(known) if _contradict(memory, fact)]
    return memory.model_copy(update={"supersedes": numbers}) if numbers else memory


def _contradict(memory: ExtractedMemory, other: ExtractedMemory | KnownFact) -> bool:
    return memory.single_valued and memory.attribute is not None and (memory.subject, memory.attribute) == (other.subject, other.attribute)


def _named(memory: ExtractedMemory, clauses: Sequence[set[str]], other: ExtractedMemory | KnownFact, common: frozenset[str]) -> str | None:
    """The word by which a clause of the memory names what the other is about, if it does."""
    if other.subject != memory.subject or not any({_kind(memory.attribute), _kind(other.attribute)} <= same for same in _SAME_KIND):
        return None
    if not clauses:
        return None
    words, said = _words(other.content), said_of(other.content)
    shared = [{word for word in clause if word in words or (_CHINESE.match(word) and word in said)} for clause in clauses]
    best = max(range(len(clauses)), key=lambda place: len(shared[place]))
    named = shared[best] - common
    mine, theirs = topics_of(memory.content), topics_of(other.content)
    if not named or len(shared[best]) < ABOUT * len(clauses[best]) or (mine and not mine & theirs):
        named = set(mine & theirs & HABITS)
    people = relations_in(memory.content), relations_in(other.content)
    if not named or (all(people) and people[0].isdisjoint(people[1])):
        return None
    return min(named)


def _kind(attribute: str | None) -> str:
    return (attribute or "").partition(":")[0]


def _ending(content: str) -> list[set[str]]:
    """The words of each clause that says that something has ended or is another now."""
    found = [_words(clause) for clause in _CLAUSE.split(said_of(content)) if ENDS.search(clause)]
    return [words for words in found if 0 < len(words) <= MOST_WORDS]


def _common(contents: Iterable[str]) -> frozenset[str]:
    counted = Counter(word for content in contents for word in _words(content))
    return frozenset(word for word, count in counted.items() if count >= COMMON)


def _words(text: str) -> set[str]:
    """What a statement is about, in words: without days, numbers and the words of the change itself."""
    said = said_of(text)
    chinese = {word for run in segmented(said) for word in run if len(word) > 1 and not any(day in word for day in CALENDAR)}
    chinese |= set(single_characters(said))
    other = {word for word in telling(said) if not _CHINESE.match(word) and len(word) > 1}
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
