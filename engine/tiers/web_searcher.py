"""A search with everything around it: cache, quota, circuit breaker. It gives items or a reason why there are none."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Protocol

from engine.providers.web_search import SearchOptions, SearchResult, WebSearch, breaker_name
from engine.tiers.answer import Skipped
from jiyi.errors import SearchUnavailable
from jiyi.protocol.tier_questions import TierItem
from jiyi.text.words import storable


class Cache(Protocol):
    """Results of a group's searches, for a while. Thread-safe."""

    def get(self, group_id: str, key: str) -> SearchResult | None: ...

    def put(self, group_id: str, key: str, result: SearchResult) -> None: ...


class Quota(Protocol):
    """How many searches each session has made. Thread-safe."""

    def take(self, group_id: str, session_id: str) -> bool:
        """Count one search; False if the session has had its number. Raises :class:`Skipped` if nothing can be counted."""
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
    """The results as items of an answer, marked as external; the engine's own answer is none, as nobody stands behind it."""
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
            f"{engine.provider} is not asked for {breakers.RESET_SECONDS:g} s after {breakers.FAIL_MAX} failures in a row"
        ) from None
    except SearchUnavailable as error:
        breakers.note_error(name, str(error))
        raise


def _key(provider: str, query: str, options: SearchOptions) -> str:
    text = json.dumps([provider, " ".join(query.lower().split()), options.model_dump(mode="json")], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
