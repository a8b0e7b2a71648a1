"""API keys as they are stored: who made which, what each may do, and until when. ``models.accounts.actions`` changes them.

``group_id=None`` means every group, and the operators' keys: within ``whole_service()`` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from jiyi.protocol.accounts import Key, NewKey

#: Seconds between two notes that a key was used.
USED_SECONDS = 60
#: Web and intake look a key up again after so many seconds: one that was revoked works as long, at most.
KEY_SECONDS = 5.0
#: Keys that each of their processes remembers, and ids that there are no keys of.
MAX_KEYS = 10_000
#: Most keys that one list shows.
MAX_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key with what recognises it."""

    key_id: str
    #: None: an operator's key.
    group_id: str | None
    name: str
    scopes: frozenset[str]
    secret_hash: bytes
    signing_key: bytes
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @property
    def actor(self) -> str:
        """For the audit log."""
        return f"key:{self.key_id} ({self.name})"

    def refusal(self, now: datetime) -> str:
        """Why it is not accepted any more; empty if it is."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else ""


def find(connection: Connection, key_ids: Iterable[str], *, lock: bool = False) -> dict[str, ApiKey]:
    """Those of these keys that there are, expired and revoked ones too, by id. ``lock`` keeps others from changing them."""
    rows = connection.execute(_FIND_AND_LOCK if lock else _FIND, {"ids": list(key_ids)}).mappings()
    return {row["key_id"]: ApiKey(**{**row, "scopes": frozenset(row["scopes"])}) for row in rows}


def listed(connection: Connection, group_id: str | None = None) -> list[Key]:
    """Keys of a group, or of all groups and the operators', newest first."""
    rows = connection.execute(_LISTED, {"group": group_id, "limit": MAX_LISTED}).mappings()
    return [Key.model_validate(row) for row in rows]


def one(connection: Connection, key_id: str) -> Key:
    """A key that is there, as it is listed."""
    return Key.model_validate(connection.execute(_ONE, {"id": key_id}).mappings().one())


def insert(
    connection: Connection,
    key: NewKey,
    *,
    group_id: str | None,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    created_by: str,
) -> bool:
    """Store a key, and its group if that has nothing yet. False if its id is taken."""
    if group_id is not None:
        connection.execute(_GROUP, {"group": group_id})
    row = {
        "key_id": key.key_id,
        "group": group_id,
        "name": name,
        "scopes": list(scopes),
        "secret_hash": bytes.fromhex(key.secret_hash),
        "signing_key": bytes.fromhex(key.signing_key),
        "created_by": created_by,
        "expires_at": expires_at,
    }
    return connection.execute(_INSERT, row).rowcount > 0


def revoke(connection: Connection, key_id: str) -> bool:
    """End a key; False if it was revoked before."""
    return connection.execute(_REVOKE, {"id": key_id}).rowcount > 0


def expire(connection: Connection, key_id: str, at: datetime) -> None:
    """Let a key end then, unless it ends before."""
    connection.execute(_EXPIRE, {"id": key_id, "at": at})


def used(connection: Connection, key_id: str) -> None:
    """Note that it was used, unless that was noted within the last minute."""
    connection.execute(_USED, {"id": key_id, "seconds": USED_SECONDS})


_SHOWN = """
    key_id, group_id, name, scopes, created_at, created_by, expires_at, revoked_at, last_used_at,
    CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'alive' END AS state
"""
_BY_IDS = """
    SELECT key_id, group_id, name, scopes, secret_hash, signing_key, created_at, expires_at, revoked_at
    FROM api_keys WHERE key_id = ANY(:ids)
"""
_FIND, _FIND_AND_LOCK = text(_BY_IDS), text(_BY_IDS + " FOR UPDATE")
_ONE = text(f"SELECT {_SHOWN} FROM api_keys WHERE key_id = :id")  # noqa: S608 – our own names; values are parameters
_LISTED = text(f"""
    SELECT {_SHOWN} FROM api_keys WHERE CAST(:group AS text) IS NULL OR group_id = :group
    ORDER BY created_at DESC, key_id LIMIT :limit
""")  # noqa: S608 – our own names; values are parameters
_GROUP = text("INSERT INTO groups (group_id) VALUES (:group) ON CONFLICT DO NOTHING")
_INSERT = text("""
    INSERT INTO api_keys (key_id, group_id, name, scopes, secret_hash, signing_key, created_by, expires_at)
    VALUES (:key_id, :group, :name, :scopes, :secret_hash, :signing_key, :created_by, :expires_at)
    ON CONFLICT DO NOTHING
""")
_REVOKE = text("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id AND revoked_at IS NULL")
_EXPIRE = text("UPDATE api_keys SET expires_at = least(expires_at, :at) WHERE key_id = :id")
_USED = text("""
    UPDATE api_keys SET last_used_at = now()
    WHERE key_id = :id AND (last_used_at IS NULL OR last_used_at < now() - make_interval(secs => :seconds))
""")
