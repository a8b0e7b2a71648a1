"""What comes before what in an answer beside the scores: the newer before the older, a thought behind its
evidence.

Pure, over the few best memories of one answer, best first. The scores stay as they are; what was replaced is
marked.

Which memories a newer one updates also depends on what the question asks about: two statements about it
("Which phone do I use?": a Pixel, later an iPhone) contradict each other without a word in common, and more
surely than two that only resemble each other.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engine.conversations.attributes import attribute_of
from engine.heads.judgements import Heads, are_sure, chances, may_retire, stated
from engine.retrieval.ranking import MIN_NORM, Floats, Order
from engine.text.keywords import words_of
from engine.text.statements import (
    CHANGE,
    PERHAPS,
    SAYS,
    all_topics_of,
    is_of,
    may_be_of,
    narrowest,
    people_in,
    stand_beside,
    topics_of,
)
from jiyi.text.words import language_of, telling

#: At least so many of the best are looked at, however few are asked for.
LOOKED_AT = 30
#: At most so many of the best are compared with each other: their similarities are a square of numbers.
MOST_COMPARED = 1_000
#: A newer memory updates an older one if its similarity to it
#: (:func:`engine.retrieval.corpus.similarity_matrix`) and its relevance to the question, as a share of the
#: older one's above the ordinary, add up to this: where it has words for something being no longer as it was,
#: where it may (了, went up to), and where it has none. Facts about one thing that can both hold (where it
#: is, when it is) are very similar, too, and must not replace each other.
SAYS_SO, MAY_SAY_SO, SAYS_NOTHING = 0.8, 1.3, 1.7
#: And each of the two has to be at least so much.
LEAST_SIMILARITY, LEAST_RELEVANT = 0.25, 0.3
#: The ordinary is what the memories beyond those looked at have; as many as this are trusted as much as that
#: nothing is ordinary.
ORDINARY_PRIOR = 5
#: In a text of more telling words, a word of change is about one thing of many.
MOST_WORDS = 30
#: Seconds: what is said within one conversation adds to each other rather than that it replaces the other.
APART = 1_800.0
#: Probability that a newer statement takes back an older one from which on it goes before it: more likely
#: than not, where both are of the question's topic. Marks need more
#: (``engine.heads.local.CHANGE_PRECISION``).
LIKELY = 0.1
#: Least probability that the newer one answers at all for it to go before what it takes back.
LEAST_PROBABILITY = 0.02
#: From where a sentence begins, and no character of it is tried twice.
_QUESTION = re.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]*+[?？]")
#: What somebody says of how it was before.
_PAST = re.compile(
    r"\b(?:used to|when i still)\b[^.!?;]{0,200}|(?:以前|原来|从前)[^，。！？；]{0,60}", re.IGNORECASE
)


@dataclass(frozen=True)
class MemoryView:
    """What is looked at of each memory; what its text says is worked out once."""

    node_id: UUID
    text: str
    created: float
    subject: str | None
    #: What a thought rests on.
    evidence: frozenset[UUID] = frozenset()
    #: The user of the agent whom it comes from.
    user_id: str | None = None
    #: Whether it is trusted enough to update what trusted memories say.
    trusted: bool = True

    @cached_property
    def needed(self) -> float:
        return needed(self.text)

    @cached_property
    def topics(self) -> frozenset[str]:
        return all_topics_of(self.text)

    @cached_property
    def topics_now(self) -> frozenset[str]:
        """The same but for what it says of how it was before."""
        now = _PAST.sub("", self.text)
        return self.topics if now is self.text else all_topics_of(now)


def needed(text: str) -> float:
    """The least sum of similarity and relevance for a memory of this text to replace an older one."""
    if len(telling(text)) > MOST_WORDS:
        return SAYS_NOTHING
    stated = _QUESTION.sub("", text)  # a question states nothing: "Anything new?"
    if stated is not text and not telling(stated):
        return math.inf
    return SAYS_SO if SAYS.search(stated) else MAY_SAY_SO if PERHAPS.search(stated) else SAYS_NOTHING


def above_ordinary(relevance: Floats, best: Order) -> Floats:
    """How much more relevant the best are than the ordinary memory, shape ``(k,)``.

    The ordinary is what all have but the very best: of a short conversation all memories are among the best.

    Args:
        relevance: of all memories, 0 … 1.
        best: positions of those that are looked at, best first.
    """
    others = np.ones(relevance.size, dtype=bool)
    others[best[: min(LOOKED_AT, relevance.size // 4)]] = False
    return np.asarray(relevance[best] - ordinary(relevance[others]), dtype=np.float64)


def ordinary(others: Floats) -> float:
    """The relevance of the ordinary memory, by those of ``others``; of few it is low, of none -1."""
    if not others.size:
        return -1.0
    return (others.size * float(np.median(others)) - ORDINARY_PRIOR) / (others.size + ORDINARY_PRIOR)


def replaces(memories: Sequence[MemoryView], similarity: Floats, relevance: Floats) -> NDArray[np.bool_]:
    """Which memory (row) replaces which (column), ``(k, k)``: one about the same that was said some time
    before and is not much more relevant.

    Args:
        memories: the memories, best first.
        similarity: similarity of each with each, ``(k, k)``.
        relevance: theirs, see :func:`above_ordinary`, ``(k,)``.
    """
    share = share_of(relevance)
    near = (similarity >= LEAST_SIMILARITY) & (share >= LEAST_RELEVANT) & later_statements(memories)
    matters: list[bool] = np.asarray(near.any(axis=1)).tolist()  # only of these is read what they say
    enough = np.array(
        [memory.needed if is_near else math.inf for memory, is_near in zip(memories, matters, strict=True)]
    )
    return np.asarray(near & (similarity + np.minimum(share, 1) >= enough[:, None]), dtype=bool)


def oldest_first(memories: Sequence[MemoryView]) -> list[int]:
    return sorted(range(len(memories)), key=lambda place: memories[place].created)


def share_of(relevance: Floats) -> Floats:
    """The relevance of each (row) as a share of that of each (column), ``(k, k)``."""
    return np.asarray(relevance[:, None] / np.maximum(relevance, MIN_NORM), dtype=np.float64)


def later_statements(memories: Sequence[MemoryView]) -> NDArray[np.bool_]:
    """Which memory (row) was said some time after which (column), of the same subject and user, ``(k, k)``.

    Not a thought, nor what is trusted less than the other.
    """
    created = np.array([memory.created for memory in memories])
    codes: dict[tuple[str, str | None], int] = {}
    subjects = np.array(
        [codes.setdefault((memory.subject or "", memory.user_id), len(codes)) for memory in memories]
    )
    is_statement = np.array([not memory.evidence for memory in memories], dtype=bool)
    later = created[:, None] - created >= APART
    trusted = np.array([memory.trusted for memory in memories], dtype=bool)
    return np.asarray(
        later
        & (subjects[:, None] == subjects)
        & is_statement[:, None]
        & is_statement
        & (trusted[:, None] >= trusted),
        dtype=bool,
    )


def in_order(memories: Sequence[MemoryView], pairs: NDArray[np.bool_]) -> tuple[Order, dict[int, int]]:
    """Positions in their new order, and for each that is replaced the position of what replaces it.

    A newer memory goes directly before the best of the older ones that it (row) replaces (column).
    """
    if not pairs.any():
        return np.arange(len(memories)), {}
    place: Floats = np.arange(len(memories), dtype=np.float64)
    by: dict[int, int] = {}
    for newer in oldest_first(memories):
        older = np.flatnonzero(pairs[newer])
        if older.size:
            place[newer] = min(place[newer], np.nextafter(place[older].min(), -np.inf))
            by.update(dict.fromkeys(older.tolist(), newer))
    return np.argsort(place, kind="stable"), by


def behind_evidence(memories: Sequence[MemoryView]) -> Order:
    """Positions in their new order: each thought behind its evidence that is there; without any, behind
    everything.
    """
    if not any(memory.evidence for memory in memories):
        return np.arange(len(memories))
    there = {memory.node_id for memory in memories}
    #: What each thought still waits for, and who waits for what.
    missing = {place: memory.evidence & there for place, memory in enumerate(memories) if memory.evidence}
    waits_for = {place: len(evidence) for place, evidence in missing.items()}
    waiting: defaultdict[UUID, list[int]] = defaultdict(list)
    for place, evidence in missing.items():
        for node_id in evidence:
            waiting[node_id].append(place)
    order: list[int] = []
    visited: set[int] = set()
    for place in range(len(memories)):
        if waits_for.get(place, 0) or (place in missing and not missing[place]) or place in visited:
            continue
        ready = [place]
        while ready:  # the earliest of those whose evidence is before them
            now = heappop(ready)
            order.append(now)
            visited.add(now)
            for late in waiting[memories[now].node_id]:
                waits_for[late] -= 1
                if not waits_for[late] and late < place:  # a later one has its turn
                    heappush(ready, late)
    return np.array(
        [*order, *(place for place in range(len(memories)) if place not in visited)], dtype=np.intp
    )


#: The least sum of similarity and a share of relevance where both are of a topic of the question: with a word
#: for something being no longer as it was, or perhaps, and without. Sensitivity: docs/benchmarks.md.
ENOUGH_CHANGED, ENOUGH = 0.3, 0.43
#: What as much relevance as the older one's counts beside similarity.
RELEVANCE_SHARE = 0.25
#: And the least of each: of similarity, and of relevance above the ordinary.
TOPIC_SIMILARITY, TOPIC_RELEVANT = 0.15, 0.15
#: Share of the older one's relevance that the newer one has to have: what hardly answers does not go before
#: what does. A newer one of the same topic that says outright that something is no longer as it was needs
#: none: it names what is new rather than what was asked about.
LEAST_SHARE = 0.4
#: Topics of which there are several: what is said of a second cat takes nothing back of the first.
LISTS = frozenset({"allergy", "pet"})
#: Topics that many things have each: a door's password is not a suitcase's.
OF_EACH = frozenset({"password", "number", "key"})

#: The question asks how much or when: only what has an amount or a time answers it.
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:much|many|often|old|long|far|big|tall)\b|\bwhen\b|\bwhat"
    r" (?:time|day|date|year|rent|price|salary)\b|\bwhich day\b"
    r"|\b(?:code|password|pin|number|budget)\b|多少|几|什么时候|何时|哪天|哪一天|密码|号码|预算",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|half"
    r"|quarter|noon|midnight|once|twice"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|may|june|july"
    r"|august|september|october|november"
    r"|december|[a-z]{3,10}th)\b|[十百千万两]|[一二三四五六七八九](?:[点号月日块元杯次天周年岁斤只倍成片粒颗遍位张台辆层楼分秒米条件瓶碗]|公斤|小时)"
    r"|[周期][一二三四五六日天末]"
    # or says that there is none any more
    r"|\b(?:none|no|not|never|stopped|quit|gave up|cancell?ed)\b|n't\b|不|没|戒|停|取消",
    re.IGNORECASE,
)
#: The question asks what has happened: what came later takes nothing of it back.
_ASKS_PAST = re.compile(
    r"\b(?:did|was|were|had)\b|\b(?:has|have) [\w'"
    r" ]{1,40}(?:[a-z]{2}ed|been|gone|done|made|seen|taken|given|bought|won)\b"
    r"|过(?!敏)|曾经|以前|当时|上次|第一次",
    re.IGNORECASE,
)
#: … unless it asks for the latest of it.
_ASKS_LATEST = re.compile(
    r"\b(?:latest|most recent|current|now|still|these days|last"
    r" (?!year|month|week|night|spring|summer|autumn|fall|winter|time))"
    r"|最近|最新|现在|目前|还",
    re.IGNORECASE,
)


def said_so(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each newer statement is of the older one's single-valued attribute, and says that it is
    otherwise now.

    Args:
        pairs: an older statement and a newer one each.
    """
    return [
        CHANGE.search(newer.lower()) is not None
        and _same_attribute(older, newer)
        and may_retire(older, newer)
        for older, newer in pairs
    ]


def _same_attribute(older: str, newer: str) -> bool:
    before, after = attribute_of(older), attribute_of(newer)
    return (
        before is not None
        and after is not None
        and before.single_valued
        and (before.name, before.subject) == (after.name, after.subject)
    )


def may_be_renewed(question: str, memories: Sequence[MemoryView]) -> bool:
    """Whether any memory may update another one, before their similarity is known: most often all were said
    together.
    """
    times = [memory.created for memory in memories]
    if not times or max(times) - min(times) < APART:
        return False
    return not _ASKS_PAST.search(question) or _ASKS_LATEST.search(question) is not None


def renewed(
    question: str, memories: Sequence[MemoryView], similarity: Floats, relevance: Floats
) -> NDArray[np.bool_]:
    """Which memory (row), the newest of several, updates which (column), ``(k, k)``.

    Where the question is about a topic (:mod:`engine.text.statements`), the newer one has to be of it, and to
    speak of those who are asked about; if the older one is of it, too, little similarity is enough.

    Args:
        question: the text that was asked.
        memories: the memories.
        similarity: similarity of each with each, ``(k, k)``.
        relevance: theirs above the ordinary, ``(k,)``.
    """
    if not may_be_renewed(question, memories):
        return np.zeros((len(memories), len(memories)), dtype=bool)
    pairs = replaces(memories, similarity, relevance)
    topics = topics_of(question) - LISTS
    if topics:
        of_topic = np.array([[_is_of(memory, topic) for memory in memories] for topic in sorted(topics)])
        pairs = (pairs & _same_subject(question, of_topic, memories)) | _on_topic(
            memories, of_topic, similarity, relevance
        )
    by = np.zeros_like(pairs)
    if not pairs.any():  # as most often: what follows only takes pairs away
        return by
    _drop(pairs, memories, _may_answer(question))
    if topics and topics <= OF_EACH:
        _drop(pairs, memories, _names_thing(question, topics))
    pairs &= ~_stand_beside(memories, pairs)
    updates = set(np.flatnonzero(pairs.any(axis=1)).tolist())
    newest = {
        older: newer
        for newer in oldest_first(memories)
        if newer in updates
        for older in np.flatnonzero(pairs[newer]).tolist()
    }
    by[list(newest.values()), list(newest)] = True
    return by


def _drop(pairs: NDArray[np.bool_], memories: Sequence[MemoryView], fits: Callable[[str], bool]) -> None:
    """Take away the pairs whose newer memory does not fit. Only those that are in a pair are read."""
    for newer in np.flatnonzero(pairs.any(axis=1)).tolist():
        pairs[newer] &= fits(memories[newer].text)


def _same_subject(
    question: str, of_topic: NDArray[np.bool_], memories: Sequence[MemoryView]
) -> NDArray[np.bool_]:
    """Which (row) may be about what an older one (column) is about: of the question's topic, or of none, but
    with a word of the question; beside the question, of the same topic.
    """
    is_on_topic = np.asarray(of_topic.any(axis=0), dtype=bool)
    topics = [narrowest(memory.topics) for memory in memories]
    unknown = np.array([not of for of in topics])
    names = frozenset[str]().union(*topics)
    has = np.array([[name in of for name in names] for of in topics], dtype=np.float64)
    related = (has @ has.T > 0) | (unknown[:, None] & unknown)
    words = words_of(question)
    names_word = np.array(
        [
            not of and any(word in memory.text.lower() for word in words)
            for of, memory in zip(topics, memories, strict=True)
        ]
    )
    return np.asarray(
        is_on_topic[:, None] | (is_on_topic & names_word[:, None]) | (~is_on_topic & related), dtype=bool
    )


def _on_topic(
    memories: Sequence[MemoryView], of_topic: NDArray[np.bool_], similarity: Floats, relevance: Floats
) -> NDArray[np.bool_]:
    """Which (row) updates which (column), both of the same topic of the question."""
    needed = np.array([memory.needed for memory in memories])
    enough = np.where(needed <= MAY_SAY_SO, ENOUGH_CHANGED, ENOUGH)
    both = np.einsum("ti,tj->ij", of_topic, of_topic)
    is_change = np.isfinite(needed)[:, None] & ((needed <= MAY_SAY_SO)[:, None] | (needed > SAYS_SO)[None, :])
    near = (similarity >= TOPIC_SIMILARITY) & (
        similarity + RELEVANCE_SHARE * np.minimum(share_of(relevance), 1) >= enough[:, None]
    )
    enough_of_it = (relevance[:, None] >= LEAST_SHARE * relevance) | (needed <= SAYS_SO)[:, None]
    answers = (relevance >= TOPIC_RELEVANT)[:, None] & enough_of_it
    return np.asarray(both & is_change & near & answers & later_statements(memories), dtype=bool)


def _is_of(one: MemoryView, topic: str) -> bool:
    """Whether a memory is of a topic; of what many things have each, not by that of another thing."""
    return topic in (narrowest(one.topics_now) if topic in OF_EACH else one.topics_now)


def _stand_beside(memories: Sequence[MemoryView], pairs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the pairs are statements of different things, and the newer has no word of change."""
    beside = np.zeros_like(pairs)
    for newer, older in np.argwhere(pairs).tolist():
        beside[newer, older] = memories[newer].needed > MAY_SAY_SO and stand_beside(
            memories[newer].text, memories[older].text
        )
    return beside


def _may_answer(question: str) -> Callable[[str], bool]:
    """Whether a text may speak of those who are asked about, and of an amount where one is asked for."""
    people, amount = people_in(question), _ASKS_AMOUNT.search(question) is not None
    return lambda text: may_be_of(people, text) and (not amount or _AMOUNT.search(text) is not None)


def _names_thing(question: str, topics: AbstractSet[str]) -> Callable[[str], bool]:
    """Whether a text names, beside the topic, anything that the question does, if it is in its language."""
    language = language_of(question)
    names = [word for word in words_of(question) if not any(is_of(word, topic) for topic in topics)]
    return lambda text: (
        not names or language_of(text) != language or any(word in text.lower() for word in names)
    )


def order(
    question: str,
    memories: Sequence[MemoryView],
    similarity: Callable[[], Floats],
    relevance: Callable[[], Floats],
    judge: Callable[[], Heads | None],
    probability: Floats | None = None,
) -> tuple[Order, dict[int, int]]:
    """The order of an answer, and for each position that is replaced the position of what replaces it.

    Args:
        question: the text that was asked.
        memories: the memories, best first.
        similarity: gives the similarity of each with each, ``(k, k)``; called only where it matters.
        relevance: gives theirs above the ordinary, ``(k,)``.
        judge: gives the heads that have to agree, or None.
        probability: that each memory answers, ``(k,)``; None where it is not known.
    """
    positions, replaced_by = np.arange(len(memories)), dict[int, int]()
    if may_be_renewed(question, memories):
        pairs = renewed(question, memories, similarity(), relevance())
        if probability is not None:
            pairs &= (probability >= LEAST_PROBABILITY)[:, None]
        likely, sure = _judged(memories, pairs, judge)
        positions, _ = in_order(memories, likely)
        _, replaced_by = in_order(memories, sure)
    return positions[behind_evidence([memories[place] for place in positions.tolist()])], replaced_by


def _judged(
    memories: Sequence[MemoryView], pairs: NDArray[np.bool_], judge: Callable[[], Heads | None]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The pairs (newer, older) that are likely for the heads, which decides the order, and those that are
    sure, which are marked; without heads the rule decides both.
    """
    places = np.argwhere(pairs)
    if not len(places):
        return pairs, pairs
    texts = [(stated(memories[older].text), stated(memories[newer].text)) for newer, older in places.tolist()]
    heads, by_rule = judge(), said_so(texts)
    if heads is None:
        ruled = _among(pairs, places[by_rule])
        return ruled, ruled
    probabilities = chances(heads, texts)
    sure = np.array(are_sure(heads, probabilities, by_rule))
    return _among(pairs, places[sure | (np.array(probabilities) >= LIKELY)]), _among(pairs, places[sure])


def _among(pairs: NDArray[np.bool_], places: NDArray[np.intp]) -> NDArray[np.bool_]:
    chosen = np.zeros_like(pairs)
    chosen[tuple(places.T)] = True
    return chosen
