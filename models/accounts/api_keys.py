"""API keys as they are stored: who made which, what each may do, and until when. ``models.accounts.actions`` changes them.

``group_id=None`` means every group, and the operators' keys: within ``whole_service()`` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, case, func, select, text
from sqlalchemy.dialects import postgresql

from jiyi.protocol.accounts import Key, NewKey
from models.accounts import tables
from models.db.rows import columns, fetch

#: Seconds between two notes that a key was used.
USED_SECONDS = 60
#: Web and intake look a key up again after so many seconds: one that was revoked works as long, at most. A live stream looks once a
#: second, so that both together are the five seconds that are promised.
KEY_SECONDS = 4.0
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
    wanted = _SHOWN if group_id is None else _SHOWN.where(_K.group_id == group_id)
    return fetch(connection, Key, wanted.order_by(_K.created_at.desc(), _K.key_id).limit(MAX_LISTED))


def one(connection: Connection, key_id: str) -> Key:
    """A key that is there, as it is listed."""
    return fetch(connection, Key, _SHOWN.where(_K.key_id == key_id))[0]


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
        connection.execute(postgresql.insert(tables.Group).values(group_id=group_id).on_conflict_do_nothing())
    secrets = {"secret_hash": bytes.fromhex(key.secret_hash), "signing_key": bytes.fromhex(key.signing_key)}
    row = {"group_id": group_id, "name": name, "scopes": list(scopes), "created_by": created_by, "expires_at": expires_at}
    stored = postgresql.insert(_K).values(key_id=key.key_id, **secrets, **row).on_conflict_do_nothing().returning(_K.key_id)
    return connection.execute(stored).scalar_one_or_none() is not None


def revoke(connection: Connection, key_id: str) -> bool:
    """End a key; False if it was revoked before."""
    return connection.execute(_REVOKE, {"id": key_id}).rowcount > 0


def expire(connection: Connection, key_id: str, at: datetime) -> None:
    """Let a key end then, unless it ends before."""
    connection.execute(_EXPIRE, {"id": key_id, "at": at})


def used(connection: Connection, key_id: str) -> None:
    """Note that it was used, unless that was noted within the last minute."""
    connection.execute(_USED, {"id": key_id, "seconds": USED_SECONDS})


_K = tables.ApiKey
_STATE = case((_K.revoked_at.is_not(None), "revoked"), (_K.expires_at <= func.now(), "expired"), else_="alive")
_SHOWN = select(*columns(Key, _K, state=_STATE))
_BY_IDS = """
    SELECT key_id, group_id, name, scopes, secret_hash, signing_key, created_at, expires_at, revoked_at
    FROM api_keys WHERE key_id = ANY(:ids)
"""
_FIND, _FIND_AND_LOCK = text(_BY_IDS), text(_BY_IDS + " FOR UPDATE")
_REVOKE = text("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id AND revoked_at IS NULL")
_EXPIRE = text("UPDATE api_keys SET expires_at = least(expires_at, :at) WHERE key_id = :id")
_USED = text("""
    UPDATE api_keys SET last_used_at = now()
    WHERE key_id = :id AND (last_used_at IS NULL OR last_used_at < now() - make_interval(secs => :seconds))
""")
