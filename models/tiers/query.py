"""Asking a group's tiers: both at once, each bounded, one that fails reported beside what the other found.

A plain function: the web asks directly when Valkey is away, as the queue is in Valkey, too. Quarantine is no
tier that can be asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import redis
from psycopg import Error as DriverError
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from engine.providers.embedder_specs import thresholds_of
from engine.providers.web_search import SearchResult, WebSearchOptions, configured_engine
from engine.tiers.answer import SECONDS, Gathered, Reader, Searcher, Skipped, gather, items_of, merge
from engine.tiers.quarantine import cosine
from jiyi.errors import EmbeddingUnavailable, JiyiError, SettingsError
from jiyi.once import once
from jiyi.protocol.tier_questions import NO_THRESHOLD, MemoryAnswer, MemoryQuery, Source, Tier, TierItem
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.connection import snapshot, unit_of_work
from models.db.valkey import count_within, valkey
from models.operations import embedding_models
from models.operations.embedding_models import ActiveModel
from models.tiers import knowledge, quarantine, working
from models.tiers.working import WM_ENTRIES, WorkingEntry

#: Seconds for which the results of a web search are used again.
CACHE_SECONDS = 300.0

#: Makes the vector of a question by the model in use (None: there is none yet); gives it with the model's
#: name.
Embed = Callable[[ActiveModel | None, str], tuple[str, Float32]]
#: Share of a question's words from which on a piece has to do with it: half, the rare ones counting more.
RELEVANT_BY_WORDS = 0.5
#: The session of those who name none: in each group they share one allowance of web searches.
NO_SESSION = ""
DATABASE_ERRORS = (DBAPIError, PoolTimeout, DriverError)


class TierAway(JiyiError):  # noqa: N818 – its name says what happened
    """What a tier is kept in cannot be reached."""

    code = "tier_away"


@dataclass(slots=True)
class _TierQuery:
    """What is found out on the way, by one reader, and used after all have ended."""

    query: MemoryQuery
    now: datetime
    embed: Embed | None
    model: str | None = None
    vector: Float32 | None = None
    note: str = ""
    entries: Sequence[WorkingEntry] = ()
    web_answer: str = ""


def query_memory(query: MemoryQuery, embed: Embed | None = None, seconds: float = SECONDS) -> MemoryAnswer:
    """What working and long-term memory, and the web if asked, know about a question. In the scope of its
    group.

    ``embed`` is None for who cannot: long-term memory is then found by its words, and its state says so.
    """
    tier_query = _TierQuery(query, query.now or datetime.now(UTC), embed)
    readers: dict[Tier, Reader] = {
        "working": lambda: _working(tier_query),
        "longterm": lambda: _longterm(tier_query),
    }
    if query.web_results:
        readers["web"] = lambda: _web(tier_query)
    results = gather(readers, seconds)
    if tier_query.note and (longterm := results.tiers["longterm"]).state == "ok":
        results.tiers["longterm"] = longterm.model_copy(update={"message": tier_query.note})
    return _answer(tier_query, results)


def _answer(tier_query: _TierQuery, gathered: Gathered) -> MemoryAnswer:
    hot, cold = gathered.items["working"], gathered.items["longterm"]
    if tier_query.query.order == "score":
        hot = _with_similarities(tier_query, hot)
    results = merge(hot, cold, tier_query.query, tier_query.now, external=gathered.items.get("web", []))
    sources = [item.source for item in results]
    names: dict[Tier, Source] = {"working": "hot", "longterm": "cold", "web": "external"}
    for tier, status in gathered.tiers.items():
        status.shown = sources.count(names[tier])
    tiers = list(gathered.tiers.values())
    return MemoryAnswer(results=results, tiers=tiers, web_answer=tier_query.web_answer)


def _working(tier_query: _TierQuery) -> list[TierItem]:
    try:
        cached = working.read(tier_query.query.group_id)
    except redis.RedisError as error:
        raise TierAway(f"working memory cannot be read: Valkey is away ({type(error).__name__})") from error
    entries = tier_query.entries = _rebuild(tier_query.query.group_id) if cached is None else cached
    # Who lives in another time has entries that live in it, too.
    lives = None if tier_query.query.now is None else quarantine.lifetime()
    return [entry.item(None if lives is None else entry.created_at + lives) for entry in entries]


def _rebuild(group_id: str) -> Sequence[WorkingEntry]:
    """Rebuild what Valkey has lost or never had: once, by the first caller."""
    try:
        with unit_of_work() as connection:
            quarantine.lock_group(connection, group_id)
            return quarantine.working_memory(connection, group_id)
    except DATABASE_ERRORS as error:
        raise TierAway(
            "Valkey has no working memory of this group, and it cannot be rebuilt while the database is"
            f" away ({type(error).__name__})"
        ) from error


def _longterm(tier_query: _TierQuery) -> list[TierItem]:
    question = tier_query.query
    try:
        with unit_of_work() as connection:
            used = embedding_models.active_model(connection)
        _embed(tier_query, used)
        # else a piece that gets its vector, or other words, between the two is found by neither
        with snapshot() as connection:
            by_words, without = knowledge.by_words(connection, question.group_id, question, tier_query.model)
            items: list[TierItem] = []
            if tier_query.vector is not None and tier_query.model is not None:
                limit = (
                    question.cold_limit + len(tier_query.entries) + WM_ENTRIES
                )  # what is hot is shown once
                near = knowledge.nearest(
                    connection, question.group_id, question, tier_query.vector, tier_query.model, limit
                )
                least = question.relevance_threshold
                least = thresholds_of(tier_query.model).relevant if least is None else least
                items = [item for item in near if least <= NO_THRESHOLD or item.score >= least]
    except DATABASE_ERRORS as error:
        raise TierAway(
            f"long-term memory cannot be read: the database is away ({type(error).__name__})"
        ) from error
    if without:
        why = tier_query.note or f"{without:,} pieces are not embedded yet"
        tier_query.note = f"{why}: found by their words"
    anything = question.relevance_threshold is not None and question.relevance_threshold <= NO_THRESHOLD
    return [*items, *(item for item in by_words if anything or item.score >= RELEVANT_BY_WORDS)]


def _embed(tier_query: _TierQuery, used: ActiveModel | None) -> None:
    """The question's vector; without one, everything is found by words."""
    if tier_query.embed is None:
        tier_query.note = "asked without an embedder"
        return
    try:
        tier_query.model, tier_query.vector = tier_query.embed(used, tier_query.query.query)
    except (EmbeddingUnavailable, SettingsError):
        tier_query.note = "the embedder is away"


def _with_similarities(tier_query: _TierQuery, items: Sequence[TierItem]) -> list[TierItem]:
    """With the cosines of the entries whose vectors are of the question's model."""
    if (vector := tier_query.vector) is None:
        return list(items)
    similarities = {
        str(entry.entry_id): cosine(entry.vector, vector)
        for entry in tier_query.entries
        if entry.model == tier_query.model
    }
    return [item.model_copy(update={"similarity": similarities.get(item.item_id)}) for item in items]


def _web(tier_query: _TierQuery) -> list[TierItem]:
    query = tier_query.query
    options = WebSearchOptions(
        max_results=query.web_results, search_type=query.search_type, domains=query.domains
    )
    session_id = query.asking_session or query.session_id or NO_SESSION
    results = searcher().search(query.query, options, group_id=query.group_id, session_id=session_id)
    tier_query.web_answer = results.answer
    return items_of(results)


log = logging.getLogger(__name__)

#: Web searches that a session may make within so many seconds from its first one on; those answered from the
#: cache do not count.
SESSION_SEARCHES, SESSION_SECONDS = 10, 86_400


@once
def searcher() -> Searcher:
    """This process's; what it keeps and counts is everybody's."""
    settings = get_settings()
    engine, why_none = configured_engine(settings)
    return Searcher(engine, SharedCache(CACHE_SECONDS), SharedQuota(SESSION_SEARCHES), why_none)


@dataclass(frozen=True, slots=True)
class SharedCache:
    """Results that are used again for so many seconds; 0: never. Without Valkey it is empty."""

    seconds: float

    def get(self, group_id: str, key: str) -> SearchResult | None:
        try:
            payload = cast("bytes | None", valkey().get(valkey_keys.web_search(group_id, key)))
            return None if payload is None else SearchResult.model_validate_json(payload)
        except (redis.RedisError, ValidationError) as error:  # or another version has written it
            log.warning("recent web search results cannot be read: %s", type(error).__name__)
            return None

    def put(self, group_id: str, key: str, result: SearchResult) -> None:
        if milliseconds := round(self.seconds * 1_000):
            try:
                valkey().set(valkey_keys.web_search(group_id, key), result.model_dump_json(), px=milliseconds)
            except redis.RedisError as error:
                log.warning("web search results cannot be cached: %s", type(error).__name__)


@dataclass(frozen=True, slots=True)
class SharedQuota:
    """So many searches a session and day, whichever process makes them."""

    most: int

    def take(self, group_id: str, session_id: str) -> bool:
        try:
            return count_within(valkey_keys.web_searches(group_id, session_id), SESSION_SECONDS) <= self.most
        except redis.RedisError as error:  # searches cost money: none that is not counted
            raise Skipped("web searches are counted in Valkey, which is away") from error
