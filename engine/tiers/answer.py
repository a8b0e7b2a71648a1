"""One answer of several tiers: asked at the same time, merged into one list, put into a prompt; and a web
search with cache, quota and circuit breaker around it.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from queue import Empty, SimpleQueue
from typing import Protocol

from engine.providers.web_search import SearchResult, WebSearch, WebSearchOptions, breaker_name
from jiyi.errors import JiyiError, SearchUnavailable
from jiyi.protocol.tier_questions import (
    COLD_LIMIT,
    HOT_LIMIT,
    HOT_SCORE,
    MemoryQuestion,
    Tier,
    TierItem,
    TierStatus,
)
from jiyi.text.prompt import Line, Section
from jiyi.text.words import content_digest, storable

#: In a prompt: memories of the group, and experiences of the agent.
GROUP_MEMORIES, EXPERIENCES = 5, 3
#: Share of the answer that is kept for long-term memory if it has so much, as 5 are to 15 in the original:
#: else ten new entries would hide every precedent from a node that asks for five.
COLD_SHARE = COLD_LIMIT / (HOT_LIMIT + COLD_LIMIT)


def merge(
    hot: Sequence[TierItem],
    cold: Sequence[TierItem],
    question: MemoryQuestion,
    now: datetime,
    *,
    external: Sequence[TierItem] = (),
) -> list[TierItem]:
    """The answer's items: ``hot`` is working memory, newest first, ``cold`` what long-term memory has that is
    relevant, in any order, ``external`` are results of a web search, which come last and count by themselves.
    """
    fitting = [item for item in hot if _fits(item, question, now)][:HOT_LIMIT]
    warm = [item.model_copy(update={"score": HOT_SCORE}) for item in fitting]
    knowledge = [item for item in cold if _fits(item, question, now) and math.isfinite(item.score)]
    knowledge.sort(key=lambda item: -item.score)  # stable: equals stay as the reader had them
    warm, knowledge = _without_repetition(warm, knowledge)
    knowledge = knowledge[: question.cold_limit]
    arranged = _by_score if question.order == "score" else _by_tier
    return [*arranged(warm, knowledge, question), *external[: question.web_results]]


def _fits(item: TierItem, question: MemoryQuestion, now: datetime) -> bool:
    since = question.since(now)
    return (
        # for working memory only: knowledge that was promoted long ago is a precedent
        (item.source != "hot" or since is None or item.created_at is None or item.created_at >= since)
        and (item.expires_at is None or item.expires_at > now)
        and (question.include_verdicts or item.kind != "verdict")
        and (question.session_id is None or item.session_id == question.session_id)
    )


def _without_repetition(
    warm: Sequence[TierItem], knowledge: Sequence[TierItem]
) -> tuple[list[TierItem], list[TierItem]]:
    """What was promoted today is in both tiers: it is shown once, and as verified."""
    promoted: dict[bytes, TierItem] = {}
    for item in knowledge:
        promoted.setdefault(content_digest(item.content), item)
    digests = [content_digest(item.content) for item in warm]
    hot = [
        item.model_copy(update={"verified": True}) if digest in promoted else item
        for item, digest in zip(warm, digests, strict=True)
    ]
    return hot, [item for digest, item in promoted.items() if digest not in digests]


def _by_tier(warm: list[TierItem], knowledge: list[TierItem], question: MemoryQuestion) -> list[TierItem]:
    """Working memory first; what one tier leaves of its share the other may have."""
    if question.max_results is None:
        return [*warm, *knowledge]
    reserved = min(len(knowledge), int(question.max_results * COLD_SHARE))
    warm = warm[: question.max_results - reserved]
    return [*warm, *knowledge[: question.max_results - len(warm)]]


def _by_score(warm: list[TierItem], knowledge: list[TierItem], question: MemoryQuestion) -> list[TierItem]:
    """The most similar first; an entry whose similarity is not known keeps its 1.0."""
    measured = [
        item
        if item.similarity is None or not math.isfinite(item.similarity)
        else item.model_copy(update={"score": item.similarity})
        for item in warm
    ]
    return sorted([*measured, *knowledge], key=lambda item: -item.score)[: question.max_results]


log = logging.getLogger(__name__)

#: Seconds that the tiers have together: the original's 10 for the whole request, less what the rest of it
#: takes.
SECONDS = 8.0

Reader = Callable[[], Sequence[TierItem]]


class Skipped(Exception):  # noqa: N818 – its name says what happened
    """A reader has nothing to ask: its text says why, for people."""


@dataclass(slots=True)
class Gathered:
    """What the tiers gave, each with its state."""

    items: dict[Tier, list[TierItem]] = field(default_factory=dict)
    tiers: dict[Tier, TierStatus] = field(default_factory=dict)


def gather(readers: Mapping[Tier, Reader], seconds: float = SECONDS) -> Gathered:
    """What each reader gives, asked in threads of their own; never raises for what a reader does.

    A reader that is not done after ``seconds`` counts as failed. Nobody waits for it: it must have a time-out
    of its own.
    """
    begun = time.monotonic()
    results: SimpleQueue[tuple[Tier, TierStatus, list[TierItem]]] = SimpleQueue()
    gathered = Gathered()
    for tier, reader in readers.items():
        gathered.items[tier] = []
        late = f"no answer within {seconds:g} s"
        gathered.tiers[tier] = TierStatus(tier=tier, state="failed", seconds=seconds, message=late)
        context = contextvars.copy_context()  # whose rows one may see is a context variable
        read = (_read, tier, reader, results)
        threading.Thread(target=context.run, args=read, name=f"tier-{tier}", daemon=True).start()
    with contextlib.suppress(Empty):
        for _ in readers:
            tier, status, items = results.get(timeout=max(begun + seconds - time.monotonic(), 0))
            gathered.items[tier], gathered.tiers[tier] = items, status
    return gathered


def _read(tier: Tier, reader: Reader, results: SimpleQueue[tuple[Tier, TierStatus, list[TierItem]]]) -> None:
    begun = time.monotonic()
    items: list[TierItem] = []
    status = TierStatus(tier=tier, state="ok")
    try:
        items = list(reader())
        status.found = len(items)
    except Skipped as reason:
        status.state, status.message = "skipped", str(reason)
    except Exception as error:
        log.exception("tier %s cannot be read", tier)
        status.state = "failed"
        # The text of an error that is not ours may hold an address or a password.
        ours = isinstance(error, JiyiError)
        status.message = str(error) if ours else f"{type(error).__name__}: see the service's log"
    status.seconds = time.monotonic() - begun
    results.put((tier, status, items))


def council_sections(
    *,
    system: str = "",
    persona: str = "",
    memories: Iterable[str] = (),
    labels: Iterable[str] = (),
    experiences: Iterable[str] = (),
    proposal: str = "",
) -> list[Section]:
    """The five parts, in this order. The proposal, and the two that say who speaks, get their tokens first.

    ``labels`` are lines above the memories, empty ones for none.
    """

    def own(name: str, text: str) -> Section:
        return Section("", [Line(text)], name=name, own=True, shortens=True)

    def data(name: str, lines: list[Line], priority: int, most: int) -> Section:
        return Section("", lines, name=name, priority=priority, max_lines=most, shortens=True)

    memory_lines = [Line(text, label=label) for text, label in zip_longest(memories, labels, fillvalue="")]
    return [
        own("system", system),
        own("persona", persona),
        data("memories", memory_lines, 1, GROUP_MEMORIES),
        data("experiences", [Line(text) for text in experiences], 2, EXPERIENCES),
        own("proposal", proposal),
    ]


class Cache(Protocol):
    """Results of a group's searches, for a while. Thread-safe."""

    def get(self, group_id: str, key: str) -> SearchResult | None: ...

    def put(self, group_id: str, key: str, result: SearchResult) -> None: ...


class Quota(Protocol):
    """How many searches each session has made. Thread-safe."""

    def take(self, group_id: str, session_id: str) -> bool:
        """Count one search; False if the session has had its number. Raises :class:`Skipped`: nothing
        counts.
        """
        ...


@dataclass(frozen=True, slots=True)
class Searcher:
    """Thread-safe. ``engine`` is None where none is set up, and ``why_none`` says so to people."""

    engine: WebSearch | None
    cache: Cache
    quota: Quota
    why_none: str = ""

    def search(
        self, query: str, options: WebSearchOptions, *, group_id: str, session_id: str
    ) -> SearchResult:
        """What the web says.

        Raises:
            Skipped: no engine, no key, no question, or the session has searched often enough.
            SearchUnavailable: the engine failed, or has failed so often that it is left alone for a while.
        """
        query = storable(query).strip()
        if self.engine is None:
            raise Skipped(self.why_none)
        if not query:
            raise Skipped("there is nothing to search for")
        request = [self.engine.provider, " ".join(query.lower().split()), options.model_dump(mode="json")]
        key = hashlib.sha256(json.dumps(request, ensure_ascii=False).encode()).hexdigest()
        if (saved := self.cache.get(group_id, key)) is not None:
            return saved  # which costs the session nothing
        if not self.quota.take(group_id, session_id):
            raise Skipped("this session has searched as often as it may")
        result = _guarded(self.engine, query, options)
        self.cache.put(group_id, key, result)
        return result


def items_of(result: SearchResult) -> list[TierItem]:
    """The results as external items; the engine's own answer is none: nobody stands behind it."""
    return [
        TierItem(
            item_id=hit.url,
            source="external",
            content=f"{hit.title}\n{hit.content}\n<{hit.url}>",
            score=hit.score,
            metadata={"url": hit.url, "title": hit.title, "provider": result.provider},
        )
        for hit in result.results
    ]


def _guarded(engine: WebSearch, query: str, options: WebSearchOptions) -> SearchResult:
    from engine.providers import breakers  # pybreaker is the service's

    name = breaker_name(engine.provider)
    try:
        return breakers.call(name, lambda: engine.search(query, options), blameless=lambda _: False)
    except breakers.Open:
        raise SearchUnavailable(
            f"{engine.provider} is not called for {breakers.RESET_SECONDS:g} s after {breakers.FAIL_MAX}"
            " failures in a row"
        ) from None
    except SearchUnavailable as error:
        breakers.note_error(name, str(error))
        raise
