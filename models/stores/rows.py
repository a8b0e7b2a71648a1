"""Rows of stores: found, declared, changed. Whoever changes a store's items takes its next revision first,
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
    state_reason: str
    loaded: bool


def find(connection: Connection, group_id: str, name: str, run_id: str = "") -> StoreRecord | None:
    """The run's store of that name, else the group's."""
    row = connection.execute(_FIND, {"group": group_id, "name": name, "run": run_id}).one_or_none()
    return None if row is None else _kept(row)


def need(connection: Connection, group_id: str, name: str, run_id: str = "") -> StoreRecord:
    """The same. Raises :class:`NotFound`."""
    store = find(connection, group_id, name, run_id)
    if store is None:
        raise NotFound(
            f"name: the group {group_id!r} has no store {name!r}: declare it with `jiyi stores apply`"
        )
    return store


def by_ids(connection: Connection, store_ids: list[UUID]) -> dict[UUID, StoreRecord]:
    """Those of the stores that there are in the current scope."""
    return {row.store_id: _kept(row) for row in connection.execute(_BY_IDS, {"ids": store_ids})}


def declare(
    connection: Connection, group_id: str, run_id: str, name: str, kind: str, config: Mapping[str, Any]
) -> tuple[UUID, str]:
    """Make the store, or change its configuration; its id, and ``made``, ``changed`` or ``unchanged``.

    The type of a store cannot change: the caller has looked.
    """
    shown, secret = part(config)
    row = connection.execute(_LOCK, {"group": group_id, "name": name, "run": run_id}).one_or_none()
    if row is not None and row.config == shown and opened(group_id, row.secrets) == secret:
        return row.store_id, "unchanged"
    values = {"config": shown, "secrets": sealed(group_id, secret), "group": group_id}
    if row is not None:
        connection.execute(_CHANGE, {**values, "id": row.store_id})
        return row.store_id, "changed"
    store_id = connection.execute(
        _INSERT, {**values, "id": uuid7(), "name": name, "run": run_id, "type": kind}
    ).scalar_one()
    return store_id, "made"


def bump(connection: Connection, store_id: UUID) -> int:
    """The store's next revision; its row is locked until the transaction ends."""
    return int(connection.execute(_BUMP, {"id": store_id}).scalar_one())


def bump_if_there(connection: Connection, store_id: UUID) -> int | None:
    """As :func:`bump`; None if the store was deleted meanwhile."""
    revision = connection.execute(_BUMP, {"id": store_id}).scalar_one_or_none()
    return None if revision is None else int(revision)


def set_state(connection: Connection, store_id: UUID, state: str, reason: str = "") -> None:
    connection.execute(_STATE, {"id": store_id, "state": state, "reason": reason[:500]})


def mark_loaded(connection: Connection, store_id: UUID) -> None:
    connection.execute(_LOADED, {"id": store_id})


def touch(connection: Connection, store_id: UUID) -> None:
    """It is used: a run's own store is kept for some days more. At most once in an hour, as the row is what
    writers wait for.
    """
    connection.execute(_TOUCH, {"id": store_id})


def delete(connection: Connection, store_id: UUID) -> int:
    """With all that it holds; returns how many items."""
    count = int(connection.execute(_COUNT, {"id": store_id}).scalar_one())
    connection.execute(_DELETE, {"id": store_id})
    return count


def _kept(row: Row[Any]) -> StoreRecord:
    kind = store_type(row.type)
    assert kind is not None, "it was declared by this service"
    config = joined(row.config, opened(row.group_id, row.secrets))
    return StoreRecord(
        store_id=row.store_id,
        group_id=row.group_id,
        run_id=row.run_id,
        name=row.name,
        type=row.type,
        config=checked(kind.config_cls, config, row.name),
        revision=row.revision,
        state=row.state,
        state_reason=row.state_reason,
        loaded=row.loaded_at is not None,
    )


def part(config: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
    """A configuration as declared in two: with secrets hidden, and the secrets alone by their path."""
    shown: dict[str, Any] = {}
    secret: dict[str, Any] = {}
    for name, value in config.items():
        if name in SECRET_FIELDS and value:
            shown[name], secret[name] = HIDDEN, str(value)
        elif isinstance(value, Mapping):
            shown[name], inner = part(value)
            if inner:
                secret[name] = inner
        else:
            shown[name] = value
    return shown, secret


def joined(shown: Mapping[str, Any], secret: Mapping[str, Any]) -> JsonObject:
    """The configuration as it was declared."""
    return {
        name: joined(value, secret.get(name, {})) if isinstance(value, Mapping) else secret.get(name, value)
        for name, value in shown.items()
    }


def sealed(group_id: str, secret: Mapping[str, Any]) -> bytes | None:
    """Secrets as they are stored; None if there are none. Raises :class:`jiyi.errors.SettingsError` without a
    secret key.
    """
    return _cipher(group_id).encrypt(json.dumps(secret).encode()) if secret else None


def opened(group_id: str, stored: bytes | None) -> JsonObject:
    """Secrets as they were declared.

    Raises:
        EmbeddingUnavailable: they were encrypted with another ``JIYI_SECRET_KEY``.
    """
    if stored is None:
        return {}
    try:
        secrets: dict[str, Any] = json.loads(_cipher(group_id).decrypt(bytes(stored)))
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
    *(_S.revision, _S.state, _S.state_reason, _S.loaded_at),
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
    UPDATE stores SET config = :config, secrets = :secrets, loaded_at = NULL, state = 'ready', state_reason =
    ''
    WHERE group_id = :group AND store_id = :id
""").bindparams(bindparam("config", type_=JSONB))
_BUMP = text("""
    UPDATE stores SET revision = revision + 1, used_at = now() WHERE store_id = :id RETURNING revision
""")
_STATE = text("UPDATE stores SET state = :state, state_reason = :reason WHERE store_id = :id")
_LOADED = text("UPDATE stores SET loaded_at = now(), used_at = now() WHERE store_id = :id")
_TOUCH = text(
    "UPDATE stores SET used_at = now() WHERE store_id = :id AND used_at < now() - interval '1 hour'"
)
_COUNT = text("SELECT count(*) FROM store_items WHERE store_id = :id")
_DELETE = text("DELETE FROM stores WHERE store_id = :id")
