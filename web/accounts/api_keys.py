"""API keys of requests: who asks, told by ``Authorization: Bearer jiyi_…`` and by nothing else (never by a cookie)."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TypeVar, cast

from flask import current_app, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from jiyi.accounts.api_keys import parse, recognises
from models.accounts import api_keys
from models.accounts.api_keys import ApiKey
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from web.accounts.identity import Identity, Scope, identify, need
from web.accounts.rate_limits import limits
from web.security import LOOPBACK, is_loopback
from web.sources import Unanswered, reading, source

T = TypeVar("T")

#: What was found is asked for again after so many seconds: a key that was revoked works as long, at most.
KEY_SECONDS = 5.0
#: While the database does not answer, a key that was good within so many seconds still is: working memory can be asked
#: without it (CN-45). Nobody can revoke a key meanwhile.
AWAY_SECONDS = 900.0
#: Keys remembered, and ids that there are no keys of: no more, whoever tries how many.
MAX_KEYS = 10_000


class Keys:
    """The keys that were used lately; one that there is not is kept as None."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[ApiKey | None, float]] = {}
        self._noted: dict[str, float] = {}

    def load(self, key_id: str) -> ApiKey | None:
        """Raises :class:`web.sources.Unanswered` when the database does not answer, and did not lately."""
        now = time.monotonic()
        kept = self._known.get(key_id)
        if kept is not None and now - kept[1] <= KEY_SECONDS:
            return kept[0]
        try:
            with whole_service():
                found = source("keys").ask(reading(lambda connection: api_keys.find(connection, [key_id]))).get(key_id)
        except Unanswered:
            if kept is None or kept[0] is None or now - kept[1] > AWAY_SECONDS:
                raise
            return kept[0]
        self._put(self._known, key_id, (found, now))
        return found

    def note_use(self, key_id: str) -> None:
        """At most once a minute; nobody waits for it."""
        now = time.monotonic()
        if now - self._noted.get(key_id, float("-inf")) < api_keys.USED_SECONDS:
            return
        self._put(self._noted, key_id, now)

        def write() -> None:
            with unit_of_work() as connection:
                api_keys.used(connection, key_id)

        with whole_service():
            source("notes").begin(write)

    def _put(self, held: dict[str, T], key_id: str, value: T) -> None:
        with self._lock:
            held.pop(key_id, None)
            if len(held) >= MAX_KEYS:
                del held[next(iter(held))]
            held[key_id] = value


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
    key = _keys().load(given.key_id)
    if key is None or not recognises(key.secret_hash, given):
        return "No key of this service."
    refusal = key.refusal(datetime.now(UTC))
    return f"This key is {refusal}." if refusal else key


def _keys() -> Keys:
    found: Keys = current_app.extensions.setdefault("jiyi.keys", Keys())
    return found
