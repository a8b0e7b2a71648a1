"""Which memories a newer one says anew, by what the question asks about.

Two statements about what is asked about ("Which phone do I use?": a Pixel, later an iPhone) contradict each other without a word
in common, and more surely than two that only resemble each other. Pure, over the few best memories of one answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from engine.conversations.attributes import attribute_of
from engine.heads.retiring import may_retire
from engine.retrieval.ordering import APART, MAY_SAY_SO, SAYS_SO, Shown, oldest_first, replaces, share_of, told_later
from engine.retrieval.scoring import Floats
from engine.text.changes import CHANGE
from engine.text.keywords import words_of
from engine.text.people import may_be_of, people_in
from engine.text.statements import stand_beside
from engine.text.topics import is_of, narrowest, topics_of
from jiyi.text.words import language_of

#: What likeness and a share of relevance have to add up to where both are of a topic of the question: with a word for something
#: being no longer as it was, or perhaps, and without. Sensitivity: docs/benchmarks.md.
ENOUGH_CHANGED, ENOUGH = 0.3, 0.43
#: What as much relevance as the older one's counts beside likeness.
RELEVANCE_SHARE = 0.25
#: And each has to be at least so much: alike, and relevant above the ordinary.
LEAST_ALIKE, LEAST_RELEVANT = 0.15, 0.15
#: Share of the older one's relevance that the newer one has to have: what hardly answers does not go before what does. A newer one of the
#: same topic that says outright that something is no longer as it was needs none: it names what is new rather than what was asked about.
LEAST_SHARE = 0.4
#: Topics of which there are several: what is said of a second cat takes nothing back of the first.
LISTS = frozenset({"allergy", "pet"})
#: Topics that many things have each: a door's password is not a suitcase's.
OF_EACH = frozenset({"password", "number", "key"})

#: The question asks how much or when: only what has an amount or a time answers it.
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:much|many|often|old|long|far|big|tall)\b|\bwhen\b|\bwhat (?:time|day|date|year|rent|price|salary)\b|\bwhich day\b"
    r"|\b(?:code|password|pin|number|budget)\b|多少|几|什么时候|何时|哪天|哪一天|密码|号码|预算",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|half|quarter|noon|midnight|once|twice"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|[a-z]{3,10}th)\b|[十百千万两]|[一二三四五六七八九](?:[点号月日块元杯次天周年岁斤只倍成片粒颗遍位张台辆层楼分秒米条件瓶碗]|公斤|小时)"
    r"|[周期][一二三四五六日天末]"
    r"|\b(?:none|no|not|never|stopped|quit|gave up|cancell?ed)\b|n't\b|不|没|戒|停|取消",  # or says that there is none any more
    re.IGNORECASE,
)
#: The question asks what has happened: what came later takes nothing of it back.
_ASKS_PAST = re.compile(
    r"\b(?:did|was|were|had)\b|\b(?:has|have) [\w' ]{1,40}(?:[a-z]{2}ed|been|gone|done|made|seen|taken|given|bought|won)\b"
    r"|过(?!敏)|曾经|以前|当时|上次|第一次",
    re.IGNORECASE,
)
#: … unless it asks for the latest of it.
_ASKS_LATEST = re.compile(
    r"\b(?:latest|most recent|current|now|still|these days|last (?!year|month|week|night|spring|summer|autumn|fall|winter|time))"
    r"|最近|最新|现在|目前|还",
    re.IGNORECASE,
)


def said_so(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each newer statement is of the older one's attribute, of which there is one value, and says that something is otherwise now.

    Where no model is installed the rule answers alone.

    Args:
        pairs: an older statement and a newer one each.
    """
    return [
        CHANGE.search(newer.lower()) is not None and _same_attribute(older, newer) and may_retire(older, newer) for older, newer in pairs
    ]


def _same_attribute(older: str, newer: str) -> bool:
    one, other = attribute_of(older), attribute_of(newer)
    return one is not None and other is not None and one.single_valued and (one.name, one.subject) == (other.name, other.subject)


def may_be_renewed(question: str, shown: Sequence[Shown]) -> bool:
    """Whether any memory may say another one anew, as far as can be told without their likeness: most often all were told together."""
    times = [one.created for one in shown]
    if not times or max(times) - min(times) < APART:
        return False
    return not _ASKS_PAST.search(question) or _ASKS_LATEST.search(question) is not None


def renewed(question: str, shown: Sequence[Shown], alike: Floats, relevance: Floats) -> NDArray[np.bool_]:
    """Which memory (row), the newest of several, says anew what which (column) says, ``(k, k)``.

    Where the question is about a topic (:mod:`engine.text.topics`), the newer one has to be of it, and to speak of those who are
    asked about; if the older one is of it, too, little likeness is enough. News is not replaced by what is none.

    Args:
        question: the text that was asked.
        shown: the memories.
        alike: how much each is about the same as each, ``(k, k)``.
        relevance: theirs above the ordinary, ``(k,)``.
    """
    if not may_be_renewed(question, shown):
        return np.zeros((len(shown), len(shown)), dtype=bool)
    found = replaces(shown, alike, relevance)
    topics = topics_of(question) - LISTS
    if topics:
        of_topic = np.array([[_is_of(one, topic) for one in shown] for topic in sorted(topics)])
        found = (found & _same_subject(question, of_topic, shown)) | _on_topic(shown, of_topic, alike, relevance)
    by = np.zeros_like(found)
    if not found.any():  # as most often: what follows only takes pairs away
        return by
    _drop(found, shown, _may_answer(question))
    if topics and topics <= OF_EACH:
        _drop(found, shown, _names_thing(question, topics))
    found &= ~_stand_beside(shown, found)
    news = set(np.flatnonzero(found.any(axis=1)).tolist())
    newest = {older: newer for newer in oldest_first(shown) if newer in news for older in np.flatnonzero(found[newer]).tolist()}
    by[list(newest.values()), list(newest)] = True
    return by


def _drop(found: NDArray[np.bool_], shown: Sequence[Shown], fits: Callable[[str], bool]) -> None:
    """Take away the pairs whose newer memory does not fit. Only those that are in a pair are read."""
    for newer in np.flatnonzero(found.any(axis=1)).tolist():
        found[newer] &= fits(shown[newer].text)


def _same_subject(question: str, of_topic: NDArray[np.bool_], shown: Sequence[Shown]) -> NDArray[np.bool_]:
    """Which (row) may be about what an older one (column) is about: of the question's topic, or of none, but with a word of the question;
    and what is beside the question of the same topic as what it replaces.
    """
    asked = np.asarray(of_topic.any(axis=0), dtype=bool)
    topics = [narrowest(one.topics) for one in shown]
    unknown = np.array([not of for of in topics])
    names = frozenset[str]().union(*topics)
    has = np.array([[name in of for name in names] for of in topics], dtype=np.float64)
    related = (has @ has.T > 0) | (unknown[:, None] & unknown)
    words = words_of(question)
    named = np.array([not of and any(word in one.text.lower() for word in words) for of, one in zip(topics, shown, strict=True)])
    return np.asarray(asked[:, None] | (asked & named[:, None]) | (~asked & related), dtype=bool)


def _on_topic(shown: Sequence[Shown], of_topic: NDArray[np.bool_], alike: Floats, relevance: Floats) -> NDArray[np.bool_]:
    """Which (row) says anew what which (column) says of the same topic of the question."""
    needed = np.array([one.needed for one in shown])
    enough = np.where(needed <= MAY_SAY_SO, ENOUGH_CHANGED, ENOUGH)
    both = np.einsum("ti,tj->ij", of_topic, of_topic)
    news = np.isfinite(needed)[:, None] & ((needed <= MAY_SAY_SO)[:, None] | (needed > SAYS_SO)[None, :])
    near = (alike >= LEAST_ALIKE) & (alike + RELEVANCE_SHARE * np.minimum(share_of(relevance), 1) >= enough[:, None])
    enough_of_it = (relevance[:, None] >= LEAST_SHARE * relevance) | (needed <= SAYS_SO)[:, None]
    answers = (relevance >= LEAST_RELEVANT)[:, None] & enough_of_it
    return np.asarray(both & news & near & answers & told_later(shown), dtype=bool)


def _is_of(one: Shown, topic: str) -> bool:
    """Whether a memory is of a topic; of what many things have each, not by that of another thing: the wifi's password."""
    return topic in (narrowest(one.topics_now) if topic in OF_EACH else one.topics_now)


def _stand_beside(shown: Sequence[Shown], found: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the pairs found are statements of different things, and the newer has no word of change."""
    beside = np.zeros_like(found)
    for newer, older in np.argwhere(found).tolist():
        beside[newer, older] = shown[newer].needed > MAY_SAY_SO and stand_beside(shown[newer].text, shown[older].text)
    return beside


def _may_answer(question: str) -> Callable[[str], bool]:
    """Whether a text may speak of those who are asked about, and of an amount where one is asked for."""
    asked, amount = people_in(question), _ASKS_AMOUNT.search(question) is not None
    return lambda text: may_be_of(asked, text) and (not amount or _AMOUNT.search(text) is not None)


def _names_thing(question: str, topics: AbstractSet[str]) -> Callable[[str], bool]:
    """Whether a text names, beside the topic, anything that the question does; in another language nobody can tell."""
    language = language_of(question)
    named = [word for word in words_of(question) if not any(is_of(word, topic) for topic in topics)]
    return lambda text: not named or language_of(text) != language or any(word in text.lower() for word in named)
