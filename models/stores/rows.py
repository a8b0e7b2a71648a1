"""Rows of stores: found, declared, changed. A change of a store's items takes its next revision first,
which locks the row.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Connection, Row, Uuid, any_, bindparam, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from uuid6 import uuid7

from jiyi.errors import EmbeddingUnavailable, NotFound
from jiyi.protocol.base import JsonObject
from jiyi.protocol.wire.signatures import need_secret_key
from jiyi.settings import get_settings
from jiyi.stores.registry import store_type
from jiyi.stores.types import checked
from models.stores.tables import StoreRow

_S = StoreRow
#: Fields of a configuration that hold secrets, wherever they stand.
SECRET_FIELDS = frozenset({"api_key"})
#: What is shown in their place.
HIDDEN = "••••"
_LABEL = b"jiyi secrets of stores 1"


class TypeChanged(Exception):  # noqa: N818 – its name says what happened
    """A store of the name is of this type: it has to be deleted first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecord:
    """A store of the group as a transaction sees it."""

    store_id: UUID
    group_id: str
    run_id: str
    name: str
    type: str
    #: Of its type's model, its secrets included.
    config: Any
    revision: int
    state: str
    loaded: bool


def need(connection: Connection, group_id: str, name: str, run_id: str = "") -> StoreRecord:
    """The run's store of that name, else the group's. Raises :class:`NotFound`."""
    row = connection.execute(_FIND, {"group": group_id, "name": name, "run": run_id}).one_or_none()
    if row is None:
        raise NotFound(
            f"name: the group {group_id!r} has no store {name!r}: declare it with `jiyi stores apply`"
        )
    return _record(row)


def by_ids(connection: Connection, store_ids: list[UUID]) -> dict[UUID, StoreRecord]:
    """Those of the stores that there are in the current scope."""
    return {row.store_id: _record(row) for row in connection.execute(_BY_IDS, {"ids": store_ids})}


def declare(
    connection: Connection, group_id: str, run_id: str, name: str, kind: str, config: Mapping[str, Any]
) -> tuple[UUID, str]:
    """Make the store, or change its configuration; its id, and ``made``, ``changed`` or ``unchanged``.

    Raises:
        TypeChanged: the group, or the run, has a store of this name and another type.
    """
    public, secret = part(config)
    place = {"group": group_id, "run": run_id, "name": name}
    row = connection.execute(_LOCK, place).one_or_none()
    if row is not None and row.type != kind:
        raise TypeChanged(row.type)
    if row is not None and row.config == public and opened(group_id, row.secrets) == secret:
        return row.store_id, "unchanged"
    values = {"config": public, "secrets": sealed(group_id, secret), **place}
    if row is not None:
        connection.execute(_CHANGE, {**values, "id": row.store_id})
        return row.store_id, "changed"
    return connection.execute(_INSERT, {**values, "id": uuid7(), "type": kind}).scalar_one(), "made"


def bump(connection: Connection, store_id: UUID) -> int:
    """The store's next revision; its row is locked until the transaction ends."""
    revision = bump_if_there(connection, store_id)
    assert revision is not None, "it was not deleted meanwhile"
    return revision


def bump_if_there(connection: Connection, store_id: UUID) -> int | None:
    """As :func:`bump`; None if the store was deleted meanwhile."""
    return connection.execute(_BUMP, {"id": store_id}).scalar_one_or_none()


def set_state(connection: Connection, store_id: UUID, state: str, reason: str = "") -> None:
    connection.execute(_STATE, {"id": store_id, "state": state, "reason": reason[:500]})


def mark_loaded(connection: Connection, store_id: UUID) -> int:
    """Its file was read; returns the store's next revision."""
    return int(connection.execute(_LOADED, {"id": store_id}).scalar_one())


def touch(connection: Connection, store_id: UUID) -> None:
    """It is used, so a run's own store is kept. Written once an hour at most: writers wait for the row."""
    connection.execute(_TOUCH, {"id": store_id})


def delete(connection: Connection, store_id: UUID) -> None:
    """With all that it holds."""
    connection.execute(_DELETE, {"id": store_id})


def _record(row: Row[Any]) -> StoreRecord:
    kind = store_type(row.type)
    assert kind is not None, "it was declared by this service"
    config = joined(row.config, opened(row.group_id, row.secrets))
    return StoreRecord(
        **{name: getattr(row, name) for name in ("store_id", "group_id", "run_id", "name", "type")},
        config=checked(kind.config_cls, config, row.name),
        revision=row.revision,
        state=row.state,
        loaded=row.loaded_at is not None,
    )


def part(config: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
    """A configuration as declared in two: with secrets hidden, and the secrets alone by their path."""
    public: dict[str, Any] = {}
    secret: dict[str, Any] = {}
    for name, value in config.items():
        if name in SECRET_FIELDS and value:
            public[name], secret[name] = HIDDEN, str(value)
        elif isinstance(value, Mapping):
            public[name], inner = part(value)
            if inner:
                secret[name] = inner
        else:
            public[name] = value
    return public, secret


def joined(public: Mapping[str, Any], secret: Mapping[str, Any]) -> JsonObject:
    """The configuration as it was declared."""
    return {
        name: joined(value, secret.get(name, {})) if isinstance(value, Mapping) else secret.get(name, value)
        for name, value in public.items()
    }


def sealed(group_id: str, secret: Mapping[str, Any]) -> bytes | None:
    """Secrets as they are stored. Raises :class:`jiyi.errors.SettingsError` without a secret key."""
    return _cipher(group_id).encrypt(json.dumps(secret).encode()) if secret else None


def opened(group_id: str, ciphertext: bytes | None) -> JsonObject:
    """Secrets as they were declared.

    Raises:
        EmbeddingUnavailable: they were encrypted with another ``JIYI_SECRET_KEY``.
    """
    if ciphertext is None:
        return {}
    try:
        secrets: dict[str, Any] = json.loads(_cipher(group_id).decrypt(bytes(ciphertext)))
    except InvalidToken:
        raise EmbeddingUnavailable(
            "the secrets of a store were kept with another JIYI_SECRET_KEY: apply its graph again"
        ) from None
    return secrets


def _cipher(group_id: str) -> Fernet:
    key = HKDF(hashes.SHA256(), 32, None, _LABEL + b" " + group_id.encode()).derive(
        need_secret_key(get_settings()).encode()
    )
    return Fernet(base64.urlsafe_b64encode(key))


_ROWS = select(
    *(_S.store_id, _S.group_id, _S.run_id, _S.name, _S.type, _S.config, _S.secrets),
    *(_S.revision, _S.state, _S.loaded_at),
)
_IN_SIGHT = or_(_S.run_id == bindparam("run"), _S.run_id == "")
_FIND = (
    _ROWS.where(_S.group_id == bindparam("group"), _S.name == bindparam("name"), _IN_SIGHT)
    .order_by(_S.run_id.desc())
    .limit(1)
)
_BY_IDS = _ROWS.where(_S.store_id == any_(bindparam("ids", type_=ARRAY(Uuid))))
_LOCK = text("""
    SELECT store_id, type, config, secrets FROM stores WHERE group_id = :group AND name = :name
    AND run_id = :run FOR UPDATE
""")
_INSERT = text("""
    INSERT INTO stores (store_id, group_id, run_id, name, type, config, secrets)
    VALUES (:id, :group, :run, :name, :type, :config, :secrets)
    ON CONFLICT (group_id, run_id, name) DO UPDATE SET config = excluded.config, secrets = excluded.secrets
    RETURNING store_id
""").bindparams(bindparam("config", type_=JSONB))
_CHANGE = text("""
    UPDATE stores SET config = :config, secrets = :secrets, loaded_at = NULL, state = 'ready',
        state_reason = ''
    WHERE group_id = :group AND store_id = :id
""").bindparams(bindparam("config", type_=JSONB))
_BUMP = text("""
    UPDATE stores SET revision = revision + 1, used_at = now() WHERE store_id = :id RETURNING revision
""")
_STATE = text("UPDATE stores SET state = :state, state_reason = :reason WHERE store_id = :id")
_LOADED = text("""
    UPDATE stores SET loaded_at = now(), used_at = now(), revision = revision + 1 WHERE store_id = :id
    RETURNING revision
""")
_TOUCH = text(
    "UPDATE stores SET used_at = now() WHERE store_id = :id AND used_at < now() - interval '1 hour'"
)
_DELETE = text("DELETE FROM stores WHERE store_id = :id")
