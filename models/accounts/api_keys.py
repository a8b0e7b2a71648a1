"""API keys, stored as hashes. ``group_id=None`` (all groups, operators): in ``whole_service()`` only."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import Connection, case, func, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import SQLAlchemyError

from jiyi.protocol.accounts import Key, NewKey
from jiyi.protocol.wire.signatures import parse_key, recognises
from models.accounts import tables
from models.db.bounded_reads import SourceUnavailable, from_database, source
from models.db.connection import unit_of_work
from models.db.rows import columns, fetch
from models.db.scope import whole_service

log = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")
#: Seconds between two notes that a key was used.
USED_SECONDS = 60
#: Web and intake look a key up again after so many seconds: one that was revoked works as long, at most. A
#: live stream looks once a second, so that both together are the five seconds that are promised.
KEY_SECONDS = 4.0
#: Keys that each of their processes remembers, and ids that there are no keys of.
MAX_KEYS = 10_000
#: Most keys that one list shows.
MAX_LISTED = 1_000
_K = tables.ApiKeyRow
_STATE = case(
    (_K.revoked_at.is_not(None), "revoked"), (_K.expires_at <= func.now(), "expired"), else_="alive"
)
_SHOWN = select(*columns(Key, _K, state=_STATE))
#: While the database does not answer, a key that was good within so many seconds still is: working memory can
#: be asked without it. Nobody can revoke a key meanwhile.
AWAY_SECONDS = 900.0


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
    #: Whose access token it is (``models.accounts.connections``); None: a key of its own.
    connection_id: UUID | None = None

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
    """Those of these keys that there are, by id, expired and revoked ones too."""
    rows = connection.execute(_FIND_AND_LOCK if lock else _FIND, {"ids": list(key_ids)}).mappings()
    return {row["key_id"]: ApiKey(**{**row, "scopes": frozenset(row["scopes"])}) for row in rows}


def listed(connection: Connection, group_id: str | None = None) -> list[Key]:
    """Keys of a group, or of all groups and the operators', newest first."""
    statement = _SHOWN if group_id is None else _SHOWN.where(_K.group_id == group_id)
    return fetch(connection, Key, statement.order_by(_K.created_at.desc(), _K.key_id).limit(MAX_LISTED))


def one(connection: Connection, key_id: str) -> Key:
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
    connection_id: UUID | None = None,
) -> bool:
    """Store a key, and its group if that has nothing yet. False if its id is taken."""
    if group_id is not None:
        connection.execute(postgresql.insert(tables.Group).values(group_id=group_id).on_conflict_do_nothing())
    secrets = {"secret_hash": bytes.fromhex(key.secret_hash), "signing_key": bytes.fromhex(key.signing_key)}
    row: dict[str, object] = {
        "group_id": group_id,
        "name": name,
        "scopes": list(scopes),
        "created_by": created_by,
        "expires_at": expires_at,
    }
    row["connection_id"] = connection_id
    statement = (
        postgresql.insert(_K)
        .values(key_id=key.key_id, **secrets, **row)
        .on_conflict_do_nothing()
        .returning(_K.key_id)
    )
    return connection.execute(statement).scalar_one_or_none() is not None


def revoke(connection: Connection, key_id: str) -> bool:
    """End a key; False if it was revoked before."""
    return connection.execute(_REVOKE, {"id": key_id}).rowcount > 0


def expire(connection: Connection, key_id: str, at: datetime) -> None:
    """Let a key end then, unless it ends before."""
    connection.execute(_EXPIRE, {"id": key_id, "at": at})


def used(connection: Connection, key_id: str) -> None:
    """Note that it was used, unless that was noted within the last minute."""
    connection.execute(_USED, {"id": key_id, "seconds": USED_SECONDS})


class PresentedKeys:
    """Keys as the web recognises them by their text; for a while without the database."""

    def __init__(self) -> None:
        self.known = LookupCache(
            _find_soon,
            fresh_seconds=KEY_SECONDS,
            max_entries=MAX_KEYS,
            stale_seconds=AWAY_SECONDS,
            unavailable=(SourceUnavailable,),
        )
        self._noted: LookupCache[str, None] = LookupCache(
            _note_later, fresh_seconds=USED_SECONDS, max_entries=MAX_KEYS
        )

    def recognise(self, text: str, now: datetime) -> ApiKey | str:
        """The key that has this text, or a sentence why there is none. Raises :class:`SourceUnavailable`."""
        parts = parse_key(text)
        if parts is None:
            return "That has not the form of a key, jiyi_<12 characters>_<43 characters>."
        key = self.known.get(parts.key_id)
        if key is None or not recognises(key.secret_hash, parts):
            return "No key of this service."
        refusal = key.refusal(now)
        return f"This key is {refusal}." if refusal else key

    def note_use(self, key_id: str) -> None:
        """At most once a minute; nobody waits for it."""
        self._noted.get(key_id)


def known_keys() -> LookupCache[str, ApiKey]:
    """A cache by key id: a revoked key works up to ``KEY_SECONDS`` more. Raises what the database raises."""
    return LookupCache(_find, fresh_seconds=KEY_SECONDS, max_entries=MAX_KEYS)


def noted_uses() -> LookupCache[str, None]:
    """Keys whose use was noted within the last minute; ``get`` notes it for another one."""
    return LookupCache(note, fresh_seconds=USED_SECONDS, max_entries=MAX_KEYS)


def note(key_ids: Collection[str]) -> dict[str, None]:
    """Note that they were used, which must stop nobody."""
    try:
        with whole_service(), unit_of_work() as connection:
            for key_id in key_ids:
                used(connection, key_id)
    except SQLAlchemyError as error:  # the caller is not refused for it
        log.warning("the use of a key could not be recorded: %s", type(error).__name__)
    return {}


def _find(key_ids: Collection[str]) -> dict[str, ApiKey]:
    with whole_service(), unit_of_work() as connection:
        return find(connection, key_ids)


def _find_soon(key_ids: Collection[str]) -> dict[str, ApiKey]:
    with whole_service():
        return from_database(lambda connection: find(connection, key_ids))


def _note_later(key_ids: Collection[str]) -> dict[str, None]:
    source("notes").begin(lambda: note(key_ids))
    return {}


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    """A value or None; when it was loaded and last asked for, on the monotonic clock."""

    value: V | None
    loaded_at: float
    asked_at: float


class LookupCache(Generic[K, V]):
    """Values by key, each asked for again after ``fresh_seconds``. That there is none is remembered, too.
    Thread-safe.

    Args:
        load: looks keys up; what it does not return does not exist.
        fresh_seconds: how long an answer is believed.
        max_entries: how many are kept; of more the one that was asked for first goes.
        stale_seconds: how old a value may be that still serves while ``load`` raises one of ``unavailable``.
        unavailable: errors of ``load`` that mean that nobody can say; without an old value they are raised.
    """

    def __init__(
        self,
        load: Callable[[Collection[K]], Mapping[K, V]],
        *,
        fresh_seconds: float,
        max_entries: int,
        stale_seconds: float = 0.0,
        unavailable: tuple[type[Exception], ...] = (),
    ) -> None:
        self._load, self._unavailable = load, unavailable
        self.fresh_seconds, self.stale_seconds, self.max_entries = fresh_seconds, stale_seconds, max_entries
        self.entries: dict[K, _Entry[V]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: K) -> V | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """The values of those keys that have one; all that are not fresh are looked up at once."""
        now = time.monotonic()
        entries = {key: self.entries.get(key) for key in keys}
        fresh = {
            key: entry
            for key, entry in entries.items()
            if entry is not None and now - entry.asked_at <= self.fresh_seconds
        }
        missing = entries.keys() - fresh.keys()
        if missing:
            try:
                value = self._load(missing)
                loaded = {key: _Entry(value.get(key), now, now) for key in missing}
            except self._unavailable:
                loaded = {
                    key: entry for key in missing if (entry := self._stale(entries[key], now)) is not None
                }
                if len(loaded) < len(missing):
                    raise
            self._keep(loaded)
            fresh |= loaded
        return {key: entry.value for key, entry in fresh.items() if entry.value is not None}

    def forget(self, key: K) -> None:
        with self._lock:
            self.entries.pop(key, None)

    def _stale(self, entry: _Entry[V] | None, now: float) -> _Entry[V] | None:
        """An old value as if just asked for: not every request waits for a dead database."""
        if entry is None or entry.value is None or now - entry.loaded_at > self.stale_seconds:
            return None
        return _Entry(entry.value, entry.loaded_at, time.monotonic())

    def _keep(self, loaded: Mapping[K, _Entry[V]]) -> None:
        with self._lock:
            for key, entry in loaded.items():
                self.entries.pop(key, None)
                if len(self.entries) >= self.max_entries:
                    del self.entries[next(iter(self.entries))]
                self.entries[key] = entry


#: Of a person ``u`` and a connection ``c``: whether they may still do there what they let it do.
ALLOWED = """(
    u.disabled_at IS NULL AND (u.groups IS NULL OR c.group_id = ANY (u.groups)) AND (u.role <> 'viewer' OR
    c.scopes = ARRAY['read'])
)"""
_OF_CONNECTION = (
    "SELECT FROM oauth_connections c JOIN users u USING (user_id) WHERE c.connection_id = k.connection_id"
    f" AND {ALLOWED}"
)
_REVOKED = (
    f"CASE WHEN connection_id IS NULL OR EXISTS ({_OF_CONNECTION}) THEN revoked_at ELSE coalesce(revoked_at,"
    " now()) END"
)
_COLUMNS = "key_id, group_id, name, scopes, secret_hash, signing_key, created_at, expires_at, connection_id"
# Of constants.
_LISTED = f"SELECT {_COLUMNS}, {_REVOKED} AS revoked_at FROM api_keys k"  # noqa: S608
_BY_IDS = f"{_LISTED} WHERE key_id = ANY(:ids)"
_FIND, _FIND_AND_LOCK = text(_BY_IDS), text(_BY_IDS + " FOR UPDATE OF k")
_REVOKE = text("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id AND revoked_at IS NULL")
_EXPIRE = text("UPDATE api_keys SET expires_at = least(expires_at, :at) WHERE key_id = :id")
_USED = text("""
    UPDATE api_keys SET last_used_at = now()
    WHERE key_id = :id AND (last_used_at IS NULL OR last_used_at < now() - make_interval(secs => :seconds))
""")
