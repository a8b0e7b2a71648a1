"""Connections: programs that somebody let in by OAuth, each for one group with some of the person's rights
(``docs/tenants.md``).

A connection has one access token at a time, which is an API key of one hour (``models.accounts.api_keys``),
so every interface accepts it; and one secret: at first the authorisation code's, then the refresh token's, a
new one after each use. A client that presents an old one has a copy: the connection ends. For a short grace
period the previous secret gets the same answer as the first time: two windows may refresh at once, and an
answer may be lost. So new tokens follow from the old secret, which only its program has, and a seed, which
only we have.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection, RowMapping, text
from sqlalchemy.dialects import postgresql
from uuid6 import uuid7

from jiyi.protocol.accounts import NewKey
from jiyi.protocol.wire.signatures import ID_CHARS, KeyText, parse_key, recognises
from models.accounts import api_keys, audit, tables
from models.accounts.users import User
from models.db.bounded_reads import ask
from models.db.connection import unit_of_work
from models.db.scope import whole_service

T = TypeVar("T")
#: Seconds that a code is good for, and an access token.
CODE_SECONDS, TOKEN_SECONDS = 60, 3_600
#: How long a used refresh token gets the same answer: a client's timeout and its next attempt. A thief's copy
#: works no longer than that.
GRACE = timedelta(seconds=30)
#: Random bytes that new tokens follow from, beside the old secret.
SEED_BYTES = 32
#: A connection that was not used for so long is over.
IDLE = timedelta(days=30)
#: Of one person at a time.
MAX_CONNECTIONS = 50


@dataclass(frozen=True, slots=True)
class OAuthTokens:
    access: str
    refresh: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConnectionListing:
    connection_id: UUID
    client: str
    group_id: str
    scopes: list[str]
    created_at: datetime
    last_used_at: datetime | None


def begin(
    user: User,
    group_id: str,
    scopes: Sequence[str],
    *,
    client_id: str,
    client: str,
    redirect_uri: str,
    challenge: str,
) -> str | None:
    """The code of a new connection; None if there are too many. Raises :class:`SourceUnavailable`."""
    connection_id, secret = uuid7(), secrets.token_urlsafe(32)

    def store(connection: Connection) -> bool:
        connection.execute(_SWEEP)
        if connection.execute(_COUNT, {"user": user.user_id}).scalar_one() >= MAX_CONNECTIONS:
            return False
        connection.execute(postgresql.insert(tables.Group).values(group_id=group_id).on_conflict_do_nothing())
        row = {
            "connection_id": connection_id,
            "user_id": user.user_id,
            "group_id": group_id,
            "scopes": list(scopes),
            "client": client,
            "client_hash": _digest(client_id),
            "redirect_uri": redirect_uri,
            "challenge": challenge,
            "secret_hash": _digest(secret),
            "expires_at": datetime.now(UTC) + timedelta(seconds=CODE_SECONDS),
        }
        connection.execute(postgresql.insert(tables.ConnectionRow).values(row))
        what: dict[str, Any] = {"client": client, "scopes": list(scopes), "redirect_uri": redirect_uri}
        target, what["group_id"] = f"connection:{connection_id}", group_id
        audit.record(connection, actor=user.actor, action="connection made", target=target, **what)
        return True

    return f"{connection_id.hex}.{secret}" if _ask(store) else None


def exchange(code: str, *, client_id: str, redirect_uri: str, challenge: str) -> OAuthTokens | None:
    """A code's tokens, once; ``challenge`` follows from the verifier. Raises :class:`SourceUnavailable`."""

    def spend(connection: Connection) -> OAuthTokens | None:
        match = _find(connection, code, client_id)
        if match is None:
            return None
        row, secret = match
        if row["challenge"] is None:
            _end(connection, row, "code used again")
            return None
        if not _is(row["secret_hash"], secret):
            return None
        actual, expected = f"{redirect_uri} {challenge}", f"{row['redirect_uri']} {row['challenge']}"
        if not hmac.compare_digest(actual.encode(), expected.encode()):
            _end(connection, row, "wrong verifier or redirect_uri")
            return None
        return _renewed(connection, row, secret)

    return _ask(spend)


def refresh(token: str, *, client_id: str) -> OAuthTokens | None:
    """New tokens; the same ones if it comes again within the grace. Raises :class:`SourceUnavailable`."""

    def spend(connection: Connection) -> OAuthTokens | None:
        match = _find(connection, token, client_id)
        if match is None or match[0]["challenge"] is not None:
            return None
        row, secret = match
        if _is(row["secret_hash"], secret):
            return _renewed(connection, row, secret)
        if _is(row["previous_hash"], secret) and datetime.now(UTC) < row["renewed_at"] + GRACE:
            return _tokens(connection, row, secret, row["seed"])
        _end(connection, row, "refresh token used again")
        return None

    return _ask(spend)


def revoke(token: str, *, client_id: str) -> None:
    """End the connection of either token, if there is one. Raises :class:`SourceUnavailable`."""

    def end(connection: Connection) -> None:
        if (key := parse_key(token)) is not None:
            parameters = {"key": key.key_id, "client": _digest(client_id)}
            of_key = connection.execute(_BY_KEY, parameters).mappings().one_or_none()
            if of_key is not None and recognises(of_key["key_hash"], key):
                _end(connection, of_key, "by the program")
        elif (match := _find(connection, token, client_id)) is not None and _is(
            match[0]["secret_hash"], match[1]
        ):
            _end(connection, match[0], "by the program")

    _ask(end)


def listed(connection: Connection, user_id: UUID) -> list[ConnectionListing]:
    """Connections of a person that are not over, newest first."""
    return [ConnectionListing(**row) for row in connection.execute(_LISTED, {"user": user_id}).mappings()]


def of(user: User) -> list[ConnectionListing]:
    """The same, asked by themselves. Raises :class:`SourceUnavailable`."""
    return _ask(lambda connection: listed(connection, user.user_id))


def remove(user: User, connection_id: UUID) -> bool:
    """End a connection of one's own; False if there is none. Raises :class:`SourceUnavailable`."""

    def end(connection: Connection) -> bool:
        row = connection.execute(_OWN, {"id": connection_id, "user": user.user_id}).mappings().one_or_none()
        if row is not None:
            _end(connection, row, "by the person")
        return row is not None

    return _ask(end)


def _find(connection: Connection, token: str, client_id: str) -> tuple[RowMapping, str] | None:
    """The client's connection that a code or refresh token names, locked, and the token's secret."""
    name, _, secret = token.partition(".")
    try:
        connection_id = UUID(name)
    except ValueError:
        return None
    parameters = {"id": connection_id, "client": _digest(client_id)}
    row = connection.execute(_GOOD, parameters).mappings().one_or_none()
    return None if row is None else (row, secret)


def _is(expected: bytes | None, secret: str) -> bool:
    return expected is not None and hmac.compare_digest(expected, _digest(secret))


def _renewed(connection: Connection, row: RowMapping, secret: str) -> OAuthTokens | None:
    """Other tokens for a connection, whose secret is used up; None if somebody has revoked its key."""
    seed, now = secrets.token_bytes(SEED_BYTES), datetime.now(UTC)
    tokens = _tokens(connection, row, secret, seed)
    if tokens is not None:
        # A code is good for nothing once it is used: only a refresh token has a grace.
        previous = row["secret_hash"] if row["challenge"] is None else None
        secrets_ = {"secret": _digest(tokens.refresh.partition(".")[2]), "previous": previous, "seed": seed}
        times = {"now": now, "until": now + IDLE}
        connection.execute(_RENEW, {"id": row["connection_id"], **secrets_, **times})
    return tokens


def _tokens(connection: Connection, row: RowMapping, secret: str, seed: bytes) -> OAuthTokens | None:
    """The tokens of a secret and a seed; the access token becomes the connection's key."""
    key = KeyText(
        _derived("id", secret, seed, base64.b32encode).lower()[:ID_CHARS], _derived("key", secret, seed)
    )
    new, expires_at = NewKey.of(key), datetime.now(UTC) + timedelta(seconds=TOKEN_SECONDS)
    if row["challenge"] is None:
        hashes = {"secret": bytes.fromhex(new.secret_hash), "signing": bytes.fromhex(new.signing_key)}
        if not connection.execute(
            _REPLACE, {"id": row["connection_id"], "key": new.key_id, "expires": expires_at, **hashes}
        ).rowcount:
            return None
    else:
        name = f"{row['client']} / {row['person']}"
        whose = {"group_id": row["group_id"], "scopes": row["scopes"], "created_by": f"user:{row['person']}"}
        api_keys.insert(
            connection, new, name=name, expires_at=expires_at, connection_id=row["connection_id"], **whose
        )
    return OAuthTokens(
        str(key), f"{row['connection_id'].hex}.{_derived('refresh', secret, seed)}", tuple(row["scopes"])
    )


def _derived(
    what: str, secret: str, seed: bytes, encode: Callable[[bytes], bytes] = base64.urlsafe_b64encode
) -> str:
    return encode(hmac.digest(seed, f"{what} {secret}".encode(), "sha256")).decode().rstrip("=")


def _end(connection: Connection, row: RowMapping, reason: str) -> None:
    connection.execute(_DELETE, {"id": row["connection_id"]})
    what: dict[str, Any] = {"client": row["client"], "reason": reason, "group_id": row["group_id"]}
    target, actor = f"connection:{row['connection_id']}", f"user:{row['person']}"
    audit.record(connection, actor=actor, action="connection ended", target=target, **what)


def _ask(effect: Callable[[Connection], T]) -> T:
    """Within a transaction of the whole service: nobody is known yet, and people belong to no group."""

    def change() -> T:
        with unit_of_work() as connection:
            return effect(connection)

    with whole_service():
        return ask("database", change)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


_ROW = """
    SELECT c.connection_id, c.group_id, c.scopes, c.client, c.redirect_uri, c.challenge, c.secret_hash,
        c.previous_hash, c.seed, c.renewed_at, u.name AS person
    FROM oauth_connections c JOIN users u USING (user_id)
"""
_GOOD = text(
    f"{_ROW} WHERE c.connection_id = :id AND c.client_hash = :client AND c.expires_at > now() AND"
    f" {api_keys.ALLOWED} FOR UPDATE OF c"
)
_OWN = text(f"{_ROW} WHERE c.connection_id = :id AND c.user_id = :user FOR UPDATE OF c")
_BY_KEY = text("""
    SELECT c.connection_id, c.group_id, c.client, u.name AS person, k.secret_hash AS key_hash
    FROM api_keys k JOIN oauth_connections c USING (connection_id) JOIN users u USING (user_id)
    WHERE k.key_id = :key AND c.client_hash = :client FOR UPDATE OF c
""")
_LISTED = text("""
    SELECT c.connection_id, c.client, c.group_id, c.scopes, c.created_at, k.last_used_at
    FROM oauth_connections c JOIN api_keys k USING (connection_id)
    WHERE c.user_id = :user AND c.expires_at > now() AND k.revoked_at IS NULL ORDER BY c.connection_id DESC
""")
_SWEEP = text("DELETE FROM oauth_connections WHERE expires_at <= now()")
_COUNT = text("SELECT count(*) FROM oauth_connections WHERE user_id = :user")
_DELETE = text("DELETE FROM oauth_connections WHERE connection_id = :id")
_RENEW = text("""
    UPDATE oauth_connections SET challenge = NULL, secret_hash = :secret, previous_hash = :previous, seed =
    :seed, renewed_at = :now,
        expires_at = :until WHERE connection_id = :id
""")
_REPLACE = text("""
    UPDATE api_keys SET key_id = :key, secret_hash = :secret, signing_key = :signing, expires_at = :expires
    WHERE connection_id = :id AND revoked_at IS NULL
""")
