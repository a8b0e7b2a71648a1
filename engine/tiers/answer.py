"""One answer of several tiers: asked at the same time, merged into one list, put into a prompt.

A search with everything around it: cache, quota, circuit breaker. It gives items or a reason why there are
none.
"""

from __future__ import annotations

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

from engine.providers.embedder_specs import RELEVANT
from engine.providers.web_search import SearchOptions, SearchResult, WebSearch, breaker_name
from jiyi.errors import JiyiError, SearchUnavailable
from jiyi.protocol.tier_questions import (
    COLD_LIMIT,
    HOT_LIMIT,
    HOT_SCORE,
    NO_THRESHOLD,
    MemoryQuestion,
    Tier,
    TierItem,
    TierStatus,
)
from jiyi.text.prompt import Line, Section
from jiyi.text.words import content_digest, storable

#: In a prompt: memories of the group, and experiences of the agent.
GROUP_MEMORIES, EXPERIENCES = 5, 3
#: Share of the answer that is kept for long-term memory if it has so much: as 5 are to 15 in the original.
#: Without it ten new entries would hide every precedent from a node that asks for five.
COLD_SHARE = COLD_LIMIT / (HOT_LIMIT + COLD_LIMIT)


def merge(
    hot: Sequence[TierItem],
    cold: Sequence[TierItem],
    question: MemoryQuestion,
    now: datetime,
    *,
    external: Sequence[TierItem] = (),
    default_threshold: float = RELEVANT,
) -> list[TierItem]:
    """The answer's items.

    Args:
        hot: working memory, newest first.
        cold: long-term memory, in any order.
        question: the limits, filters and order.
        now: what the time range is measured from.
        external: results of a web search, which come last and count by themselves.
        default_threshold: where the question has none.
    """
    threshold = default_threshold if question.relevance_threshold is None else question.relevance_threshold
    warm = [item.model_copy(update={"score": HOT_SCORE}) for item in hot if _fits(item, question, now)][
        :HOT_LIMIT
    ]
    known = [item for item in cold if _fits(item, question, now) and _relevant(item, threshold)]
    known.sort(key=lambda item: -item.score)  # stable: equals stay as the reader had them
    warm, known = _without_repetition(warm, known)
    known = known[: question.cold_limit]
    chosen = (
        _by_score(warm, known, question) if question.order == "score" else _by_tier(warm, known, question)
    )
    return [*chosen, *external[: question.web_results]]


def _fits(item: TierItem, question: MemoryQuestion, now: datetime) -> bool:
    return (
        _recent(item, question, now)
        and (item.expires_at is None or item.expires_at > now)
        and (question.include_verdicts or item.kind != "verdict")
        and (question.session_id is None or item.session_id == question.session_id)
    )


def _recent(item: TierItem, question: MemoryQuestion, now: datetime) -> bool:
    """The time range is for working memory only: knowledge that was promoted long ago is a precedent."""
    since = question.since(now)
    return item.source != "hot" or since is None or item.created_at is None or item.created_at >= since


def _relevant(item: TierItem, threshold: float) -> bool:
    """The threshold is for long-term memories only: working memory is there because it is new."""
    return math.isfinite(item.score) and (threshold <= NO_THRESHOLD or item.score >= threshold)


def _without_repetition(
    warm: Iterable[TierItem], known: Iterable[TierItem]
) -> tuple[list[TierItem], list[TierItem]]:
    """What was promoted today is in both tiers: it is shown once, and as verified."""
    promoted: dict[bytes, TierItem] = {}
    for item in known:
        promoted.setdefault(content_digest(item.content), item)
    said = [
        item.model_copy(update={"verified": True}) if content_digest(item.content) in promoted else item
        for item in warm
    ]
    repeated = {content_digest(item.content) for item in said}
    return said, [item for digest, item in promoted.items() if digest not in repeated]


def _by_tier(warm: list[TierItem], known: list[TierItem], question: MemoryQuestion) -> list[TierItem]:
    """Working memory first; what one tier leaves of its share the other may have."""
    if question.max_results is None:
        return [*warm, *known]
    reserved = min(len(known), int(question.max_results * COLD_SHARE))
    warm = warm[: question.max_results - reserved]
    return [*warm, *known[: question.max_results - len(warm)]]


def _by_score(warm: list[TierItem], known: list[TierItem], question: MemoryQuestion) -> list[TierItem]:
    """The most similar first; an entry whose similarity is not known keeps its 1.0."""
    measured = [
        (
            item
            if item.similarity is None or not math.isfinite(item.similarity)
            else item.model_copy(update={"score": item.similarity})
        )
        for item in warm
    ]
    return sorted([*measured, *known], key=lambda item: -item.score)[: question.max_results]


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
    done: SimpleQueue[tuple[Tier, TierStatus, list[TierItem]]] = SimpleQueue()
    for tier, reader in readers.items():
        context = contextvars.copy_context()  # whose rows one may see is a context variable
        threading.Thread(
            target=context.run, args=(_read, tier, reader, done), name=f"tier-{tier}", daemon=True
        ).start()
    gathered = Gathered({tier: [] for tier in readers}, {tier: _late(tier, seconds) for tier in readers})
    for _ in readers:
        try:
            tier, status, items = done.get(timeout=max(begun + seconds - time.monotonic(), 0))
        except Empty:
            break
        gathered.items[tier], gathered.tiers[tier] = items, status
    return gathered


def _read(tier: Tier, reader: Reader, done: SimpleQueue[tuple[Tier, TierStatus, list[TierItem]]]) -> None:
    begun = time.monotonic()
    items: list[TierItem] = []
    try:
        items = list(reader())
        status = TierStatus(tier=tier, state="ok", found=len(items))
    except Skipped as reason:
        status = TierStatus(tier=tier, state="skipped", message=str(reason))
    except Exception as error:
        log.exception("tier %s cannot be read", tier)
        # The text of an error that is not ours may hold an address or a password.
        said = (
            str(error) if isinstance(error, JiyiError) else f"{type(error).__name__}: see the service's log"
        )
        status = TierStatus(tier=tier, state="failed", message=said)
    done.put((tier, status.model_copy(update={"seconds": time.monotonic() - begun}), items))


def _late(tier: Tier, seconds: float) -> TierStatus:
    return TierStatus(tier=tier, state="failed", seconds=seconds, message=f"no answer within {seconds:g} s")


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
    labelled = zip_longest(memories, labels, fillvalue="")
    return [
        Section("", [Line(system)], name="system", own=True, shortens=True),
        Section("", [Line(persona)], name="persona", own=True, shortens=True),
        Section(
            "",
            [Line(text, label=label) for text, label in labelled],
            name="memories",
            priority=1,
            max_lines=GROUP_MEMORIES,
            shortens=True,
        ),
        Section(
            "",
            [Line(text) for text in experiences],
            name="experiences",
            priority=2,
            max_lines=EXPERIENCES,
            shortens=True,
        ),
        Section("", [Line(proposal)], name="proposal", own=True, shortens=True),
    ]


class Cache(Protocol):
    """Results of a group's searches, for a while. Thread-safe."""

    def get(self, group_id: str, key: str) -> SearchResult | None: ...

    def put(self, group_id: str, key: str, result: SearchResult) -> None: ...


class Quota(Protocol):
    """How many searches each session has made. Thread-safe."""

    def take(self, group_id: str, session_id: str) -> bool:
        """Count one search; False if the session has had its number. Raises :class:`Skipped` if nothing can
        be counted.
        """
        ...


@dataclass(frozen=True, slots=True)
class Searcher:
    """Thread-safe. ``engine`` is None where none is set up, and ``why_none`` says so to people."""

    engine: WebSearch | None
    cache: Cache
    quota: Quota
    why_none: str = ""

    def search(self, query: str, options: SearchOptions, *, group_id: str, session_id: str) -> SearchResult:
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
        key = _key(self.engine.provider, query, options)
        if (known := self.cache.get(group_id, key)) is not None:
            return known  # which costs the session nothing
        if not self.quota.take(group_id, session_id):
            raise Skipped("this session has searched as often as it may")
        result = _guarded(self.engine, query, options)
        self.cache.put(group_id, key, result)
        return result


def items_of(result: SearchResult) -> list[TierItem]:
    """The results as items of an answer, marked as external; the engine's own answer is none, as nobody
    stands behind it.
    """
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


def _guarded(engine: WebSearch, query: str, options: SearchOptions) -> SearchResult:
    from engine.providers import breakers  # pybreaker is the service's

    name = breaker_name(engine.provider)
    try:
        return breakers.call(name, lambda: engine.search(query, options), blameless=lambda _: False)
    except breakers.Open:
        raise SearchUnavailable(
            f"{engine.provider} is not asked for {breakers.RESET_SECONDS:g} s after {breakers.FAIL_MAX}"
            " failures in a row"
        ) from None
    except SearchUnavailable as error:
        breakers.note_error(name, str(error))
        raise


def _key(provider: str, query: str, options: SearchOptions) -> str:
    text = json.dumps(
        [provider, " ".join(query.lower().split()), options.model_dump(mode="json")], ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()
