"""API keys of requests: ``Authorization: Bearer jiyi_…`` and nothing else (never a cookie) identifies the
caller; rate limits.

Requests are counted in Valkey, so that several web processes count together (Flask-Limiter). While Valkey is
away each process counts separately: programs go on, and the log says so once.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import redis
from flask import Flask, Response, current_app, g, request
from flask_limiter import Limiter, RateLimitExceeded, RequestLimit
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import TooManyRequests, Unauthorized

from jiyi.protocol.limits import ANONYMOUS, DOCUMENTS
from jiyi.settings import get_settings
from models.accounts.api_keys import ApiKey, PresentedKeys
from models.db.valkey import retry_unless_late
from web.accounts.identity import Identity, Scope, identify


def identify_by_key() -> None:
    """Identify the caller by the request's key: ``web.accounts.identity.who()`` returns it from now on.

    ``groups`` is the key's one group, or None for an operator's key, which may speak for any.

    Raises:
        Unauthorized: no key, or none that is good. An unknown key and a wrong secret get the same error.
        TooManyRequests: the key exceeded its rate limit.
        SourceUnavailable: the database does not return the keys.
    """
    key = _good_key()
    if isinstance(key, str):
        limits().count_refused(request.remote_addr or "")
        raise Unauthorized(key, www_authenticate=WWWAuthenticate("bearer", {"realm": "jiyi"}))
    limits().count(key.key_id)
    identify(_identity_of(key))
    _keys().note_use(key.key_id)


def identify_again() -> Callable[[], Identity | None]:
    """Gives, also after the request, whose its key is by now, or None. It raises ``SourceUnavailable``."""
    keys, text = _keys(), _presented()

    def again() -> Identity | None:
        key = keys.recognise(text, datetime.now(UTC))
        return None if isinstance(key, str) else _identity_of(key)

    return again


def _identity_of(key: ApiKey) -> Identity:
    groups = None if key.group_id is None else frozenset({key.group_id})
    return Identity(key.actor, cast("frozenset[Scope]", key.scopes), groups)


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


#: Seconds; an answer takes a millisecond, and a request has better to do than to wait to be counted.
SOCKET_TIMEOUT, TIMEOUTS = 1, ("socket_timeout", "socket_connect_timeout")
#: Requests of one address without a valid key: a client that tries keys, or still uses an old one.
REFUSED = "120/minute"


class RateLimits:
    """Of one app."""

    def __init__(self, app: Flask) -> None:
        settings = get_settings()
        retrying: dict[str, Any] = {"retry": retry_unless_late(1)} if settings.redis_url else {}
        limiter = Limiter(
            lambda: str(g.limited),
            app=app,
            storage_uri=storage_uri(settings.redis_url),
            storage_options={**dict.fromkeys(TIMEOUTS, SOCKET_TIMEOUT), **retrying},
            strategy="fixed-window",
            in_memory_fallback_enabled=True,
        )
        limiter.logger = logging.getLogger("jiyi.web")
        self._limiter = limiter
        # The caller is identified late, so not the routes are limited but these functions, which are called
        # then.
        self._count = self._limited(settings.rate_limit, "key") if settings.rate_limit else None
        self._count_refused = self._limited(REFUSED, "refused")
        self._count_anonymous = self._limited(ANONYMOUS, "anonymous")
        self._count_documents = self._limited(DOCUMENTS, "documents")

    def _limited(self, rate: str, scope: str) -> Callable[[], None]:
        def one_more() -> None:
            """Counts a request of ``g.limited``."""

        one_more.__name__ = f"one_more_{scope}"
        counted: Callable[[], None] = self._limiter.shared_limit(rate, scope=scope)(one_more)
        return counted

    def count(self, key_id: str) -> None:
        """One more request. Raises :class:`TooManyRequests`."""
        if self._count is not None:
            self._hit(self._count, f"key:{key_id}", "This key exceeded its rate limit.")

    def count_refused(self, address: str) -> None:
        """One more request that is to be refused. Raises :class:`TooManyRequests`."""
        self._hit(self._count_refused, f"address:{address}", "Too many requests without a good key.")

    def count_anonymous(self, address: str) -> None:
        """One more request for what needs no key. Raises :class:`TooManyRequests`."""
        self._hit(self._count_anonymous, f"address:{address}", "Too many requests from this address.")

    def count_documents(self, address: str) -> None:
        """One more request for a document of the API. Raises :class:`TooManyRequests`."""
        self._hit(self._count_documents, f"address:{address}", "Too many requests from this address.")

    def _hit(self, count: Callable[[], None], who: str, refusal: str) -> None:
        g.limited = who
        try:
            count()
        except RateLimitExceeded:
            self._note()
            seconds = _seconds_left(g.get("rate"))
            raise TooManyRequests(f"{refusal} Retry in {seconds} s.", retry_after=seconds) from None
        self._note()

    def _note(self) -> None:
        """Read now what the headers say: later a Valkey that has gone would make the answer an error."""
        rate = self._limiter.current_limit
        with suppress(redis.RedisError, OSError):
            if rate is not None and rate.window:
                g.rate = rate


def register(app: Flask) -> None:
    app.after_request(_add_rate_headers)
    app.extensions["jiyi.limits"] = RateLimits(app)


def limits() -> RateLimits:
    current: RateLimits = current_app.extensions["jiyi.limits"]
    return current


def storage_uri(redis_url: str) -> str:
    """An address as the package `limits` writes it; an app without Valkey counts in its own memory."""
    return f"redis+{redis_url}" if redis_url.startswith("unix:") else redis_url or "memory://"


def _seconds_left(rate: RequestLimit | None) -> int:
    if rate is None:
        return 1
    # Of two clocks, in whole seconds: never more than the whole span.
    return min(max(1, math.ceil(rate.reset_at - time.time())), rate.limit.get_expiry())


def _add_rate_headers(response: Response) -> Response:
    rate: RequestLimit | None = g.get("rate")
    if rate is not None:
        response.headers["RateLimit-Limit"] = str(rate.limit.amount)
        response.headers["RateLimit-Remaining"] = str(max(0, rate.remaining))
        response.headers["RateLimit-Reset"] = str(_seconds_left(rate))
    return response
