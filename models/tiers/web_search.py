"""Web searches of all processes together: what was found lately, and how often each session has searched.

Both are in Valkey. Results are kept by group: what one tenant asked tells another nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import cast

import redis
from pydantic import ValidationError

from engine.providers.websearch import SearchResult
from engine.providers.websearch.choice import chosen
from engine.providers.websearch.searching import Searcher
from engine.tiers.gathering import Skipped
from jiyi.once import once
from jiyi.settings import get_settings
from models.db import rate_limits, valkey_keys
from models.db.valkey import valkey

#: Seconds for which the results of a web search are used again.
CACHE_SECONDS = 300.0

log = logging.getLogger(__name__)

#: Seconds, from its first search on, in which a session may search so often.
SESSION_SECONDS = 86_400


@once
def searcher() -> Searcher:
    """This process's; what it keeps and counts is everybody's."""
    settings = get_settings()
    engine, why_none = chosen(settings)
    return Searcher(engine, SharedCache(CACHE_SECONDS), SharedQuota(settings.web_search_per_session), why_none)


@dataclass(frozen=True, slots=True)
class SharedCache:
    """Results that are used again for so many seconds; 0: never. Without Valkey it is empty."""

    seconds: float

    def get(self, group_id: str, key: str) -> SearchResult | None:
        try:
            found = cast("bytes | None", valkey().get(valkey_keys.web_search(group_id, key)))
            return None if found is None else SearchResult.model_validate_json(found)
        except (redis.RedisError, ValidationError) as error:  # or another version has written it
            log.warning("what a web search found lately cannot be read: %s", type(error).__name__)
            return None

    def put(self, group_id: str, key: str, result: SearchResult) -> None:
        if milliseconds := round(self.seconds * 1_000):
            try:
                valkey().set(valkey_keys.web_search(group_id, key), result.model_dump_json(), px=milliseconds)
            except redis.RedisError as error:
                log.warning("what a web search found cannot be kept: %s", type(error).__name__)


@dataclass(frozen=True, slots=True)
class SharedQuota:
    """So many searches a session and day, whichever process makes them."""

    most: int

    def take(self, group_id: str, session_id: str) -> bool:
        try:
            return rate_limits.count(valkey_keys.web_searches(group_id, session_id), SESSION_SECONDS) <= self.most
        except redis.RedisError as error:  # searches cost money: none that is not counted
            raise Skipped("web searches are counted in Valkey, which is away") from error
