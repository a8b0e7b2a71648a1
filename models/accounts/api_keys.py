"""API keys: who made which, what each may do, and until when.

All that changes something leaves a row in the audit log, in the caller's transaction. ``group_id=None`` where a key is
looked for means "of any group": for operators only, and within ``whole_service()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from jiyi.accounts.api_keys import SCOPES
from jiyi.errors import InvalidRequest, NotFound
from models.accounts import audit

#: Seconds between two notes that a key was used.
USED_SECONDS = 60
#: Most keys that one list shows.
MAX_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as the service knows it."""

    key_id: str
    group_id: str | None
    name: str
    scopes: frozenset[str]
    secret_hash: bytes
    signing_key: bytes
    expires_at: datetime | None
    revoked_at: datetime | None

    @property
    def actor(self) -> str:
        """For the audit log."""
        return f"key:{self.key_id} ({self.name})"

    def refusal(self, now: datetime) -> str:
        """Why it is good for nothing any more; empty if it is good."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else ""


@dataclass(frozen=True, slots=True)
class Registration:
    """What the service is told about a new key: all but the secret."""

    key_id: str
    secret_hash: bytes
    signing_key: bytes


def find(connection: Connection, key_ids: Iterable[str]) -> dict[str, ApiKey]:
    """Those of these keys that there are, dead ones too. Before it is known who asks: within ``whole_service()``."""
    rows = connection.execute(_FIND, {"ids": list(key_ids)})
    return {
        row.key_id: ApiKey(
            row.key_id,
            row.group_id,
            row.name,
            frozenset(row.scopes),
            bytes(row.secret_hash),
            bytes(row.signing_key),
            row.expires_at,
            row.revoked_at,
        )
        for row in rows
    }


def listed(connection: Connection, group_id: str | None = None) -> list[dict[str, Any]]:
    """Keys of a group, or of all groups and the operators', newest first; ``state`` is alive, expired or revoked."""
    return [dict(row) for row in connection.execute(_LISTED, {"group": group_id, "limit": MAX_LISTED}).mappings()]


def create(
    connection: Connection,
    key: Registration,
    *,
    group_id: str | None,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    actor: str,
) -> dict[str, Any]:
    """A new key; its row as in :func:`listed`. Its group need not have any memory yet. An operator's has no group.

    Safe to repeat because a key that is there already, with the same secret, is left as it is.

    Raises:
        InvalidRequest: a scope does not exist or does not fit, or another key has the id.
    """
    scopes = _checked(group_id, scopes)
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise InvalidRequest(["expires_at: lies in the past"])
    if group_id is not None:
        connection.execute(_GROUP, {"group": group_id})
    made = connection.execute(
        _CREATE,
        {
            "key_id": key.key_id,
            "group": group_id,
            "name": name,
            "scopes": scopes,
            "secret_hash": key.secret_hash,
            "signing_key": key.signing_key,
            "created_by": actor,
            "expires_at": expires_at,
        },
    ).scalar_one_or_none()
    if made is None:
        known = find(connection, [key.key_id]).get(key.key_id)
        if known is None or (known.secret_hash, known.group_id) != (key.secret_hash, group_id):
            raise InvalidRequest(["key_id: taken; make a new key"])
    else:
        audit.record(
            connection,
            group_id=group_id,
            actor=actor,
            action="key created",
            target=f"key:{key.key_id}",
            name=name,
            scopes=scopes,
            expires_at=expires_at,
        )
    return _one(connection, key.key_id)


def revoke(connection: Connection, key_id: str, *, group_id: str | None, actor: str) -> dict[str, Any]:
    """The key works no more, from now on; its row. What was revoked stays so.

    Raises:
        NotFound: there is no such key in the group.
    """
    known = _must_find(connection, key_id, group_id)
    if connection.execute(_REVOKE, {"id": key_id}).rowcount:
        audit.record(connection, group_id=known.group_id, actor=actor, action="key revoked", target=f"key:{key_id}", name=known.name)
    return _one(connection, key_id)


def rotate(connection: Connection, key_id: str, key: Registration, *, grace: timedelta, group_id: str | None, actor: str) -> dict[str, Any]:
    """A new key with the rights, the name and the life span of the old one, which works for ``grace`` longer at most.

    Raises:
        NotFound: there is no such key in the group.
        InvalidRequest: the old one works no more, so that there is nothing to hand on.
    """
    now = datetime.now(UTC)
    old = _must_find(connection, key_id, group_id, lock=True)
    if old.refusal(now) and key.key_id not in find(connection, [key.key_id]):
        raise InvalidRequest([f"key {key_id}: {old.refusal(now)}; create a new one"])
    row = _one(connection, key_id)
    span = None if old.expires_at is None else now + (old.expires_at - row["created_at"])
    made = create(connection, key, group_id=old.group_id, name=old.name, scopes=sorted(old.scopes), expires_at=span, actor=actor)
    connection.execute(_EXPIRE, {"id": key_id, "at": now + grace})
    audit.record(
        connection,
        group_id=old.group_id,
        actor=actor,
        action="key rotated",
        target=f"key:{key_id}",
        name=old.name,
        new_key=key.key_id,
        grace_seconds=grace.total_seconds(),
    )
    return made


def used(connection: Connection, key_id: str) -> None:
    """Note that it was used, unless that was noted within the last minute."""
    connection.execute(_USED, {"id": key_id, "seconds": USED_SECONDS})


def _checked(group_id: str | None, scopes: Sequence[str]) -> list[str]:
    unknown = set(scopes) - set(SCOPES)
    if unknown or not scopes:
        raise InvalidRequest([f"scopes: must be some of {', '.join(SCOPES)}"])
    if ("operator" in scopes) != (group_id is None):
        raise InvalidRequest(["scopes: operator is for keys of no group, and only those have it"])
    return [scope for scope in SCOPES if scope in scopes or group_id is None]  # an operator may everything


def _must_find(connection: Connection, key_id: str, group_id: str | None, *, lock: bool = False) -> ApiKey:
    if lock:
        connection.execute(_LOCK, {"id": key_id})
    known = find(connection, [key_id]).get(key_id)
    if known is None or group_id not in (None, known.group_id):
        raise NotFound(f"key_id: no key {key_id!r} here; see `jiyi keys list`")
    return known


def _one(connection: Connection, key_id: str) -> dict[str, Any]:
    return dict(connection.execute(_ONE, {"id": key_id}).mappings().one())


_SHOWN = """
    key_id, group_id, name, scopes, created_at, created_by, expires_at, revoked_at, last_used_at,
    CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'alive' END AS state
"""
_FIND = text("""
    SELECT key_id, group_id, name, scopes, secret_hash, signing_key, expires_at, revoked_at
    FROM api_keys WHERE key_id = ANY(:ids)
""")
_ONE = text(f"SELECT {_SHOWN} FROM api_keys WHERE key_id = :id")
_LISTED = text(f"""
    SELECT {_SHOWN} FROM api_keys WHERE CAST(:group AS text) IS NULL OR group_id = :group
    ORDER BY created_at DESC, key_id LIMIT :limit
""")
_LOCK = text("SELECT FROM api_keys WHERE key_id = :id FOR UPDATE")
_GROUP = text("INSERT INTO groups (group_id) VALUES (:group) ON CONFLICT DO NOTHING")
_CREATE = text("""
    INSERT INTO api_keys (key_id, group_id, name, scopes, secret_hash, signing_key, created_by, expires_at)
    VALUES (:key_id, :group, :name, :scopes, :secret_hash, :signing_key, :created_by, :expires_at)
    ON CONFLICT DO NOTHING RETURNING key_id
""")
_REVOKE = text("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id AND revoked_at IS NULL")
_EXPIRE = text("UPDATE api_keys SET expires_at = least(expires_at, :at) WHERE key_id = :id")
_USED = text("""
    UPDATE api_keys SET last_used_at = now()
    WHERE key_id = :id AND (last_used_at IS NULL OR last_used_at < now() - make_interval(secs => :seconds))
""")
