"""API keys of requests: who asks, told by ``Authorization: Bearer jiyi_…`` and by nothing else (never by a cookie)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import cast

from flask import current_app, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from jiyi.accounts.api_keys import parse, recognises
from models.accounts import api_keys, known_keys
from models.accounts.api_keys import KEY_SECONDS, MAX_KEYS, ApiKey
from models.accounts.lookup_cache import LookupCache
from models.db.scope import whole_service
from models.db.sources import Unanswered, from_database, source
from web.accounts.identity import Identity, Scope, identify, need
from web.accounts.rate_limits import limits
from web.security import LOOPBACK, is_loopback

#: While the database does not answer, a key that was good within so many seconds still is: working memory can be asked
#: without it (CN-45). Nobody can revoke a key meanwhile.
AWAY_SECONDS = 900.0


class Keys:
    """The keys that were used lately."""

    def __init__(self) -> None:
        self.known = LookupCache(
            _find, fresh_seconds=KEY_SECONDS, max_entries=MAX_KEYS, stale_seconds=AWAY_SECONDS, unavailable=(Unanswered,)
        )
        #: Keys whose use was noted within the last minute: there is nothing to look up.
        self._noted: LookupCache[str, None] = LookupCache(_note_use, fresh_seconds=api_keys.USED_SECONDS, max_entries=MAX_KEYS)

    def find(self, key_id: str) -> ApiKey | None:
        """Raises :class:`models.db.sources.Unanswered` when the database does not answer, and did not lately."""
        return self.known.get(key_id)

    def note_use(self, key_id: str) -> None:
        """At most once a minute; nobody waits for it."""
        self._noted.get(key_id)


def _find(key_ids: Collection[str]) -> dict[str, ApiKey]:
    with whole_service():
        return from_database(lambda connection: api_keys.find(connection, key_ids))


def _note_use(key_ids: Collection[str]) -> dict[str, None]:
    source("notes").begin(lambda: known_keys.note(key_ids))
    return {}


def identify_by_key() -> Identity:
    """Who asks, by the key that came along; also known to ``web.accounts.identity.who()`` from now on.

    ``groups`` is the key's one group, or None for an operator's key, which may speak for any.

    Raises:
        Unauthorized: no key, or none that is good. An unknown key and a wrong secret are told alike.
        TooManyRequests: the key has asked too often.
        Unanswered: the database does not tell which keys there are.
    """
    key = _good_key()
    if isinstance(key, str):
        limits().count_refused(request.remote_addr or "")
        raise Unauthorized(key, www_authenticate=WWWAuthenticate("bearer", {"realm": "jiyi"}))
    limits().count(key.key_id)
    groups = None if key.group_id is None else frozenset({key.group_id})
    identity = Identity(key.actor, cast("frozenset[Scope]", key.scopes), groups)
    identify(identity)
    _keys().note_use(key.key_id)
    return identity


def operator_or_own_machine() -> None:
    """For ``/metrics``: whoever is on this machine, without a proxy in between, or who brings an operator's key."""
    if "Authorization" not in request.headers and request.remote_addr in LOOPBACK and is_loopback(request.host):
        return
    identify_by_key()
    need("operator")


def _good_key() -> ApiKey | str:
    """The key, or a sentence why there is none."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if not scheme:
        return "Send an API key in the header `Authorization: Bearer jiyi_…`."
    if scheme.lower() != "bearer":
        return "The header `Authorization` must begin with `Bearer`."
    given = parse(text.strip())
    if given is None:
        return "That has not the form of a key, jiyi_<12 characters>_<43 characters>."
    key = _keys().find(given.key_id)
    if key is None or not recognises(key.secret_hash, given):
        return "No key of this service."
    refusal = key.refusal(datetime.now(UTC))
    return f"This key is {refusal}." if refusal else key


def _keys() -> Keys:
    found: Keys = current_app.extensions.setdefault("jiyi.keys", Keys())
    return found
