"""Items of stores: written with the store's next revision, and read again as they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, Row, any_, bindparam, select, text, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import NullType
from uuid6 import uuid7

from engine.providers.embedders import declaration_problem
from engine.providers.spec import check_public
from jiyi.errors import ConfigError, InvalidRequest
from jiyi.protocol.providers import PRESETS
from jiyi.protocol.stores import MemoryItem, Snapshot
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.stores.snapshots import MAX_ATTACHMENTS, Attached, held_in, reattach
from jiyi.stores.types import EmbeddingConfig
from jiyi.text.words import content_digest, tokens
from models.operations.embedding_models import owes_vectors
from models.stores import rows
from models.stores.rows import StoreRecord
from models.stores.tables import StoreItem

#: The kind of work that an item without a vector owes.
EMBED_ITEMS = "embed_items"
#: Characters of a text whose tokens are kept.
TOKENS_OF = 20_000
#: Items read at once.
PAGE = 500
_I = StoreItem


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """What is to be stored."""

    content_summary: str
    metadata: dict[str, Any]
    input_snapshot: Snapshot | None = None
    output_snapshot: Snapshot | None = None
    attached: Sequence[Attached] = field(default_factory=tuple)
    #: Equal contents are stored once.
    once: bool = False
    key: str | None = None
    created_at: datetime | None = None


def insert(
    connection: Connection, store: StoreRecord, new: NewItem, revision: int
) -> tuple[UUID, str] | None:
    """Store an item; its ids, or None if the store has its content already. ``revision``: of
    :func:`models.stores.rows.bump`.
    """
    item_id, digest = uuid7(), content_digest(new.content_summary)
    snapshots = {
        name: None if shot is None else shot.model_dump()
        for name, shot in (("input", new.input_snapshot), ("output", new.output_snapshot))
    }
    values = {
        "id": item_id,
        "group": store.group_id,
        "store": store.store_id,
        "key": new.key or str(item_id),
        "revision": revision,
        "summary": new.content_summary,
        "hash": digest,
        "once": digest if new.once else None,
        **snapshots,
        "metadata": new.metadata,
        "attachments": sorted(
            {sha for snapshot in snapshots.values() if snapshot for sha in held_in(snapshot["blocks"])}
        ),
        "tokens": " ".join(tokens(new.content_summary[:TOKENS_OF])),
        "created": new.created_at or datetime.now(UTC),
    }
    row = connection.execute(_INSERT, values).one_or_none()
    if row is None:
        return None
    _keep_attachments(connection, store, new.attached)
    return item_id, row.key


def count(connection: Connection, store: StoreRecord) -> int:
    """How many items the store has."""
    return int(connection.execute(_COUNT, _of(store)).scalar_one())


def trim(connection: Connection, store: StoreRecord, most: int, hours: float | None = None) -> int:
    """The oldest beyond ``most`` go, and what is older than so many hours; returns how many. The store's row
    is locked.
    """
    rows = connection.execute(
        _TRIM, {"group": store.group_id, "store": store.store_id, "most": most, "hours": hours}
    ).all()
    if any(row.attachments for row in rows):
        _drop_unused(connection, store.store_id)
    return len(rows)


def clear(connection: Connection, store: StoreRecord) -> None:
    """All items go, and their attachments. The store's row is locked, for ``dropped``."""
    connection.execute(_CLEAR, {"group": store.group_id, "store": store.store_id})
    _drop_unused(connection, store.store_id)


def latest(
    connection: Connection,
    store: StoreRecord,
    most: int,
    before: int | None = None,
    since: datetime | None = None,
) -> list[Row[Any]]:
    """The newest items, newest first, from before a position, and not older than ``since``."""
    wanted = _ROWS if before is None else _ROWS.where(_I.position < before)
    wanted = wanted if since is None else wanted.where(_I.created_at >= since)
    return list(connection.execute(wanted.order_by(_I.position.desc()).limit(most), _of(store)).all())


def by_positions(connection: Connection, store: StoreRecord, positions: Sequence[int]) -> dict[int, Row[Any]]:
    """Those of the items that are still there."""
    return {
        row.position: row
        for row in connection.execute(_BY_POSITIONS, {**_of(store), "positions": list(positions)})
    }


def every(connection: Connection, store: StoreRecord) -> Iterator[Row[Any]]:
    """All items with their vectors, oldest first."""
    after = -1
    while rows := connection.execute(_EVERY, {**_of(store), "after": after, "limit": PAGE}).all():
        yield from rows
        after = rows[-1].position


def item_of(connection: Connection, row: Row[Any], *, whole: bool = True, vector: bool = False) -> MemoryItem:
    """The item of a row; ``whole``: with the bytes of its attachments."""
    held = _read_attachments(connection, row.store_id, row.attachments) if whole and row.attachments else {}
    snapshots = [
        None if snapshot is None else Snapshot.model_validate(snapshot)
        for snapshot in (row.input_snapshot, row.output_snapshot)
    ]
    given, output = [
        snapshot if snapshot is None or not held else reattach(snapshot, held.get) for snapshot in snapshots
    ]
    return MemoryItem(
        id=row.key,
        content_summary=row.content_summary,
        input_snapshot=given,
        output_snapshot=output,
        metadata=row.metadata,
        embedding=row.embedding.to_list() if vector and row.embedding is not None else None,
        timestamp=row.created_at.timestamp(),
    )


def _of(store: StoreRecord) -> dict[str, str | UUID]:
    return {"group": store.group_id, "store": store.store_id}


def _keep_attachments(connection: Connection, store: StoreRecord, attached: Sequence[Attached]) -> None:
    """Keep those that the store has not; its row is locked.

    Raises:
        InvalidRequest: the store would have more than ``MAX_ATTACHMENTS`` bytes.
    """
    for attached_once in {
        attached_once.note.attachment_id: attached_once for attached_once in attached
    }.values():
        values = {
            "store": store.store_id,
            "group": store.group_id,
            "sha256": attached_once.note.attachment_id,
            "data": attached_once.data,
        }
        connection.execute(
            _KEEP_ATTACHMENT,
            {**values, "size": len(attached_once.data), "mime": attached_once.note.mime_type},
        )
    if (
        attached
        and (size := int(connection.execute(_ATTACHMENTS_SIZE, {"store": store.store_id}).scalar_one()))
        > MAX_ATTACHMENTS
    ):
        raise InvalidRequest(
            [
                (
                    f"blocks: the attachments of the store {store.name!r} would be {size:,} bytes, more than"
                    f" {MAX_ATTACHMENTS:,}"
                )
            ]
        )


def _read_attachments(connection: Connection, store_id: UUID, sha256s: Sequence[str]) -> dict[str, bytes]:
    """Those of the bytes that the store has, by their SHA-256."""
    return {
        row.sha256: bytes(row.data)
        for row in connection.execute(_READ_ATTACHMENTS, {"store": store_id, "ids": list(sha256s)})
    }


def attachment(connection: Connection, store_id: UUID, sha256: str) -> tuple[bytes, str] | None:
    """Bytes and media type."""
    row = connection.execute(_ATTACHMENT, {"store": store_id, "id": sha256}).one_or_none()
    return None if row is None else (bytes(row.data), row.mime_type)


def _drop_unused(connection: Connection, store_id: UUID) -> None:
    """Those that no item has any more go."""
    connection.execute(_DROP_ATTACHMENTS, {"store": store_id})


@dataclass(frozen=True, slots=True)
class ItemToEmbed:
    """An item without a vector of its store's embedder."""

    item_id: UUID
    store_id: UUID
    content: str
    content_hash: bytes


def to_embed(connection: Connection, item_ids: Sequence[UUID]) -> list[ItemToEmbed]:
    """Those of the items that are there, whether they have a vector or not."""
    return [
        ItemToEmbed(row.item_id, row.store_id, row.content_summary, bytes(row.content_hash))
        for row in connection.execute(_TO_EMBED, {"ids": list(item_ids)})
    ]


def known(connection: Connection, store_id: UUID, hashes: Sequence[bytes], model: str) -> set[bytes]:
    """Those of the contents that the store has a vector of this model for."""
    return {
        bytes(row.content_hash)
        for row in connection.execute(_KNOWN, {"store": store_id, "hashes": list(hashes), "model": model})
    }


def vector_size(connection: Connection, store_id: UUID, model: str) -> int | None:
    """Values of the store's vectors by this model; None before there is one."""
    size: int | None = connection.execute(_SIZE, {"store": store_id, "model": model}).scalar()
    return size


def fill(
    connection: Connection, store_id: UUID, made: Sequence[tuple[ItemToEmbed, Float32]], model: str
) -> None:
    """Store new vectors. The items' contents do not change, so they are still theirs; with their store they
    are gone.
    """
    if made and (revision := rows.bump_if_there(connection, store_id)) is not None:
        values = [
            {"id": item.item_id, "vector": vector, "model": model, "revision": revision}
            for item, vector in made
        ]
        connection.execute(_FILL, values)


def copy(connection: Connection, store_id: UUID, item_ids: Sequence[UUID], model: str) -> None:
    """Give items the vector that the store has for the same content."""
    if item_ids and (revision := rows.bump_if_there(connection, store_id)) is not None:
        connection.execute(
            _COPY, {"store": store_id, "ids": list(item_ids), "model": model, "revision": revision}
        )


def without(connection: Connection, item_ids: Sequence[UUID], models: dict[UUID, str]) -> list[UUID]:
    """Those that have no vector of their store's model (by store)."""
    rows = connection.execute(_WITHOUT, {"ids": list(item_ids)})
    return [
        row.item_id for row in rows if row.store_id in models and row.embedding_model != models[row.store_id]
    ]


@owes_vectors(EMBED_ITEMS)
def owe_all(connection: Connection, _model: str) -> int:
    """Owe a vector to every item of a store that the deployment's embedder serves: after a move to another
    model.
    """
    return connection.execute(_OWE_ALL, {"kind": EMBED_ITEMS}).rowcount


def check_embedder(given: EmbeddingConfig | None, path: str) -> None:
    """Raises :class:`ConfigError`: something is missing, or its address is in a private network."""
    if given is None or given.provider == "deployment":
        return
    key = "" if given.api_key is None else given.api_key.get_secret_value()
    wrong = declaration_problem(vendor(given), given.model, given.base_url or "", key)
    if wrong is not None:
        raise ConfigError([f"{path}.{wrong}"])
    address = given.base_url or (PRESETS[given.provider].base_url if given.provider in PRESETS else "")
    if address and address != get_settings().embedder_base_url and (why := check_public(address)) is not None:
        raise ConfigError([f"{path}.base_url: {why}"])


def vendor(given: EmbeddingConfig) -> str:
    """The provider by the name that :mod:`engine.providers` has for it."""
    return "fastembed" if given.provider == "local" else given.provider


_INSERT = text("""
    INSERT INTO store_items (item_id, group_id, store_id, key, revision, content_summary, content_hash,
    dedupe_hash,
        input_snapshot, output_snapshot, metadata, attachments, tokens, created_at)
    VALUES (:id, :group, :store, :key, :revision, :summary, :hash, :once, :input, :output, :metadata,
    :attachments, :tokens, :created)
    ON CONFLICT DO NOTHING RETURNING key
""").bindparams(
    *(bindparam(name, type_=JSONB(none_as_null=True)) for name in ("input", "output", "metadata"))
)
_TRIM = text("""
    DELETE FROM store_items WHERE group_id = :group AND store_id = :store AND (position <= (
        SELECT position FROM store_items WHERE group_id = :group AND store_id = :store
        ORDER BY position DESC OFFSET :most LIMIT 1
    ) OR created_at < clock_timestamp() - CAST(:hours AS float8) * interval '1 hour') RETURNING attachments
""")
_COUNT = text("SELECT count(*) FROM store_items WHERE group_id = :group AND store_id = :store")
_CLEAR = text("DELETE FROM store_items WHERE group_id = :group AND store_id = :store")
_ROWS = select(
    *(
        _I.store_id,
        _I.item_id,
        _I.key,
        _I.position,
        _I.content_summary,
        _I.input_snapshot,
        _I.output_snapshot,
    ),
    *(_I.item_metadata.label("metadata"), _I.attachments, _I.created_at, _I.embedding_model),
).where(_I.group_id == bindparam("group"), _I.store_id == bindparam("store"))
_BY_POSITIONS = _ROWS.where(_I.position == any_(bindparam("positions", type_=ARRAY(BigInteger))))
_EVERY = (
    # As psycopg gives a vector.
    _ROWS.add_columns(type_coerce(_I.embedding, NullType()).label("embedding"))
    .where(_I.position > bindparam("after"))
    .order_by(_I.position)
    .limit(bindparam("limit"))
)
_KEEP_ATTACHMENT = text("""
    INSERT INTO attachments (store_id, sha256, group_id, data, size, mime_type)
    VALUES (:store, :sha256, :group, :data, :size, :mime) ON CONFLICT DO NOTHING
""")
_ATTACHMENTS_SIZE = text("SELECT coalesce(sum(size), 0) FROM attachments WHERE store_id = :store")
_READ_ATTACHMENTS = text(
    "SELECT sha256, data FROM attachments WHERE store_id = :store AND sha256 = ANY(:ids)"
)
_ATTACHMENT = text("SELECT data, mime_type FROM attachments WHERE store_id = :store AND sha256 = :id")
_DROP_ATTACHMENTS = text("""
    DELETE FROM attachments a WHERE a.store_id = :store AND NOT EXISTS (
        SELECT FROM store_items i WHERE i.group_id = a.group_id AND i.store_id = a.store_id
        AND i.attachments @> ARRAY[a.sha256]
    )
""")
_TO_EMBED = text(
    "SELECT item_id, store_id, content_summary, content_hash FROM store_items WHERE item_id = ANY(:ids) ORDER"
    " BY item_id"
)
_KNOWN = text("""
    SELECT DISTINCT content_hash FROM store_items
    WHERE store_id = :store AND content_hash = ANY(:hashes) AND embedding_model = :model
""")
_SIZE = text("""
    SELECT vector_dims(embedding) FROM store_items WHERE store_id = :store AND embedding_model = :model
    AND embedding IS NOT NULL LIMIT 1
""")
_FILL = text(
    "UPDATE store_items SET embedding = :vector, embedding_model = :model, revision = :revision WHERE item_id"
    " = :id"
)
_COPY = text("""
    UPDATE store_items i SET embedding = o.embedding, embedding_model = :model, revision = :revision
    FROM (
        SELECT DISTINCT ON (content_hash) content_hash, embedding FROM store_items
        WHERE store_id = :store AND embedding_model = :model
            AND content_hash IN (SELECT content_hash FROM store_items WHERE item_id = ANY(:ids))
    ) o
    WHERE i.item_id = ANY(:ids) AND i.store_id = :store AND i.content_hash = o.content_hash
""")
_WITHOUT = text("SELECT item_id, store_id, embedding_model FROM store_items WHERE item_id = ANY(:ids)")
_OWE_ALL = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, i.item_id, i.group_id FROM store_items i JOIN stores s ON s.group_id = i.group_id
    AND s.store_id = i.store_id
    WHERE s.type IN ('simple', 'file') AND coalesce(s.config -> 'embedding' ->> 'provider', 'deployment') =
    'deployment'
        AND s.config -> 'embedding' IS DISTINCT FROM '"none"'
    ON CONFLICT DO NOTHING
""")
