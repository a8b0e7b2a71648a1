"""API keys as web, workers and intake look them up: once, and again after some seconds; and that they were used."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from jiyi.protocol.wire.signatures import parse_key, recognises
from models.accounts import api_keys
from models.accounts.api_keys import KEY_SECONDS, MAX_KEYS, USED_SECONDS, ApiKey
from models.accounts.lookup_cache import LookupCache
from models.db.bounded_reads import Unanswered, from_database, source
from models.db.connection import unit_of_work
from models.db.scope import whole_service

log = logging.getLogger(__name__)

#: While the database does not answer, a key that was good within so many seconds still is: working memory can be asked
#: without it. Nobody can revoke a key meanwhile.
AWAY_SECONDS = 900.0


class PresentedKeys:
    """Keys as the web recognises them: by their text, with a short read, and for a while without the database."""

    def __init__(self) -> None:
        self.known = LookupCache(
            _find_soon, fresh_seconds=KEY_SECONDS, max_entries=MAX_KEYS, stale_seconds=AWAY_SECONDS, unavailable=(Unanswered,)
        )
        self._noted: LookupCache[str, None] = LookupCache(_note_later, fresh_seconds=USED_SECONDS, max_entries=MAX_KEYS)

    def recognise(self, text: str, now: datetime) -> ApiKey | str:
        """The key that has this text, or a sentence why there is none. Raises :class:`Unanswered`."""
        given = parse_key(text)
        if given is None:
            return "That has not the form of a key, jiyi_<12 characters>_<43 characters>."
        key = self.known.get(given.key_id)
        if key is None or not recognises(key.secret_hash, given):
            return "No key of this service."
        refusal = key.refusal(now)
        return f"This key is {refusal}." if refusal else key

    def note_use(self, key_id: str) -> None:
        """At most once a minute; nobody waits for it."""
        self._noted.get(key_id)


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


def _find_soon(key_ids: Collection[str]) -> dict[str, ApiKey]:
    with whole_service():
        return from_database(lambda connection: api_keys.find(connection, key_ids))


def _note_later(key_ids: Collection[str]) -> dict[str, None]:
    source("notes").begin(lambda: note(key_ids))
    return {}
