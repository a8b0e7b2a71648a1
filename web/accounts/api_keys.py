"""API keys of requests: who asks, told by ``Authorization: Bearer jiyi_…`` and by nothing else (never by a cookie)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from flask import current_app, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from models.accounts.api_keys import ApiKey, PresentedKeys
from web.accounts.identity import Identity, Scope, identify, need
from web.accounts.rate_limits import limits
from web.security import LOOPBACK, is_loopback


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
    identity = _identity_of(key)
    identify(identity)
    _keys().note_use(key.key_id)
    return identity


def identify_again() -> Callable[[], Identity | None]:
    """A function that gives whose the request's key is by now, or None if it is no longer good. It works after the request has ended.

    It raises :class:`Unanswered` when the database has not answered for so long that nobody can say.
    """
    keys, text = _keys(), _presented()

    def again() -> Identity | None:
        key = keys.recognise(text, datetime.now(UTC))
        return None if isinstance(key, str) else _identity_of(key)

    return again


def _identity_of(key: ApiKey) -> Identity:
    groups = None if key.group_id is None else frozenset({key.group_id})
    return Identity(key.actor, cast("frozenset[Scope]", key.scopes), groups)


def operator_or_own_machine() -> None:
    """For ``/metrics``: whoever is on this machine, without a proxy in between, or who brings an operator's key."""
    if "Authorization" not in request.headers and request.remote_addr in LOOPBACK and is_loopback(request.host):
        return
    identify_by_key()
    need("operator")


def _good_key() -> ApiKey | str:
    """The key, or a sentence why there is none."""
    scheme = request.headers.get("Authorization", "").partition(" ")[0]
    if not scheme:
        return "Send an API key in the header `Authorization: Bearer jiyi_…`."
    if scheme.lower() != "bearer":
        return "The header `Authorization` must begin with `Bearer`."
    return _keys().recognise(_presented(), datetime.now(UTC))


def _presented() -> str:
    return request.headers.get("Authorization", "").partition(" ")[2].strip()


def _keys() -> PresentedKeys:
    keys: PresentedKeys = current_app.extensions.setdefault("jiyi.keys", PresentedKeys())
    return keys
