"""API keys as workers and the intake look them up: once, and again after some seconds; and that they were used."""

from __future__ import annotations

import logging
from collections.abc import Collection

from sqlalchemy.exc import SQLAlchemyError

from models.accounts import api_keys
from models.accounts.api_keys import KEY_SECONDS, MAX_KEYS, USED_SECONDS, ApiKey
from models.accounts.lookup_cache import LookupCache
from models.db.connection import unit_of_work
from models.db.scope import whole_service

log = logging.getLogger(__name__)


def known_keys() -> LookupCache[str, ApiKey]:
    """A cache by key id; a key that was revoked works up to ``KEY_SECONDS`` more, as over REST. Raises what the database raises."""
    return LookupCache(_find, fresh_seconds=KEY_SECONDS, max_entries=MAX_KEYS)


def noted_uses() -> LookupCache[str, None]:
    """Keys whose use was noted within the last minute; ``get`` notes it for another one."""
    return LookupCache(note, fresh_seconds=USED_SECONDS, max_entries=MAX_KEYS)


def note(key_ids: Collection[str]) -> dict[str, None]:
    """Note that they were used, which must stop nobody."""
    try:
        with whole_service(), unit_of_work() as connection:
            for key_id in key_ids:
                api_keys.used(connection, key_id)
    except SQLAlchemyError as error:  # whoever asks is not refused for it
        log.warning("the use of a key could not be noted: %s", type(error).__name__)
    return {}


def _find(key_ids: Collection[str]) -> dict[str, ApiKey]:
    with whole_service(), unit_of_work() as connection:
        return api_keys.find(connection, key_ids)
