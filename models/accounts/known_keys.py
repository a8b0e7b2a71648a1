"""API keys as workers and the intake look them up: once, and again after some seconds."""

from __future__ import annotations

from collections.abc import Collection

from models.accounts import api_keys
from models.accounts.api_keys import KEY_SECONDS, MAX_KEYS, ApiKey
from models.accounts.lookup_cache import LookupCache
from models.db.connection import unit_of_work
from models.db.scope import whole_service


def known_keys() -> LookupCache[str, ApiKey]:
    """A cache by key id; a key that was revoked works up to ``KEY_SECONDS`` more, as over REST. Raises what the database raises."""
    return LookupCache(_find, fresh_seconds=KEY_SECONDS, max_entries=MAX_KEYS)


def _find(key_ids: Collection[str]) -> dict[str, ApiKey]:
    with whole_service(), unit_of_work() as connection:
        return api_keys.find(connection, key_ids)
