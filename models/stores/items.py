"""Items of stores: written with the store's next revision, and read again as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from models.operations.embedding_models import enqueues_vectors
from models.stores import rows
from models.stores.rows import StoreRecord
from models.stores.tables import StoreItem

#: Kind of pending work of an item without a vector.
EMBED_ITEMS = "embed_items"
#: Characters of a text whose tokens are kept.
TOKENS_OF = 20_000
#: Items read at once.
PAGE = 500
_I = StoreItem


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
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
    :func:`models.stores.rows.bump`, which locks the store.

    Raises:
        InvalidRequest: the store would have more than ``MAX_ATTACHMENTS`` bytes of attachments.
    """
    item_id, digest = uuid7(), content_digest(new.content_summary)
    snapshots = {
        name: None if shot is None else shot.model_dump()
        for name, shot in (("input", new.input_snapshot), ("output", new.output_snapshot))
    }
    values = {
        **of_store(store),
        **snapshots,
        "id": item_id,
        "key": new.key or str(item_id),
        "revision": revision,
        "summary": new.content_summary,
        "hash": digest,
        "once": digest if new.once else None,
        "metadata": new.metadata,
        "attachments": sorted(
            {sha for shot in snapshots.values() if shot for sha in held_in(shot["blocks"])}
        ),
        "tokens": " ".join(tokens(new.content_summary[:TOKENS_OF])),
        "created": new.created_at or datetime.now(UTC),
    }
    row = connection.execute(_INSERT, values).one_or_none()
    if row is None:
        return None
    if new.attached:
        attachment_rows = [
            {**of_store(store), **one.note.model_dump(), "data": one.data} for one in new.attached
        ]
        connection.execute(_KEEP_ATTACHMENT, attachment_rows)
        size = int(connection.execute(_ATTACHMENTS_SIZE, of_store(store)).scalar_one())
        if size > MAX_ATTACHMENTS:
            raise InvalidRequest(
                f"blocks: the attachments of the store {store.name!r} would be {size:,} bytes, more than"
                f" {MAX_ATTACHMENTS:,}"
            )
    return item_id, row.key


def count(connection: Connection, store: StoreRecord) -> int:
    return int(connection.execute(COUNT, of_store(store)).scalar_one())


def trim(connection: Connection, store: StoreRecord, most: int, hours: float | None = None) -> int:
    """Drop the oldest beyond ``most``, and what is older than so many hours; returns how many."""
    rows = connection.execute(_TRIM, {**of_store(store), "most": most, "hours": hours}).all()
    if any(row.attachments for row in rows):
        connection.execute(_DROP_ATTACHMENTS, of_store(store))
    return len(rows)


def latest(
    connection: Connection,
    store: StoreRecord,
    most: int,
    before: int | None = None,
    since: datetime | None = None,
) -> list[Row[Any]]:
    """The newest items, newest first, from before a position, and not older than ``since``."""
    statement = _ROWS if before is None else _ROWS.where(_I.position < before)
    statement = statement if since is None else statement.where(_I.created_at >= since)
    return list(connection.execute(statement.order_by(_I.position.desc()).limit(most), of_store(store)).all())


def by_positions(connection: Connection, store: StoreRecord, positions: Sequence[int]) -> dict[int, Row[Any]]:
    """Those of the items that are still there."""
    return {
        row.position: row
        for row in connection.execute(_BY_POSITIONS, {**of_store(store), "positions": list(positions)})
    }


def every(connection: Connection, store: StoreRecord) -> Iterator[Row[Any]]:
    """All items with their vectors, oldest first."""
    after = -1
    while rows := connection.execute(_EVERY, {**of_store(store), "after": after, "limit": PAGE}).all():
        yield from rows
        after = rows[-1].position


def waiting(connection: Connection, store: StoreRecord) -> list[UUID]:
    """Ids of all items, oldest first."""
    ids = select(_I.item_id).where(_I.group_id == store.group_id, _I.store_id == store.store_id)
    return list(connection.execute(ids.order_by(_I.position)).scalars())


def item_of(connection: Connection, row: Row[Any], *, whole: bool = True, vector: bool = False) -> MemoryItem:
    """The item of a row; ``whole``: with the bytes of its attachments."""
    blobs = attachments(connection, row.store_id, row.attachments) if whole and row.attachments else {}

    def shot(payload: Mapping[str, Any] | None) -> Snapshot | None:
        snapshot = None if payload is None else Snapshot.model_validate(payload)
        return (
            reattach(snapshot, lambda sha256: blobs[sha256][0] if sha256 in blobs else None)
            if snapshot and blobs
            else snapshot
        )

    return MemoryItem(
        id=row.key,
        content_summary=row.content_summary,
        input_snapshot=shot(row.input_snapshot),
        output_snapshot=shot(row.output_snapshot),
        metadata=row.metadata,
        embedding=row.embedding.to_list() if vector and row.embedding is not None else None,
        timestamp=row.created_at.timestamp(),
    )


def attachments(
    connection: Connection, store_id: UUID, sha256s: Sequence[str]
) -> dict[str, tuple[bytes, str]]:
    """Bytes and media type of those of the attachments that the store has, by their SHA-256."""
    rows = connection.execute(_READ_ATTACHMENTS, {"store": store_id, "ids": list(sha256s)})
    return {row.sha256: (bytes(row.data), row.mime_type) for row in rows}


def of_store(store: StoreRecord) -> Mapping[str, str | UUID]:
    """What statements name a store by."""
    return {"group": store.group_id, "store": store.store_id}


@dataclass(frozen=True, slots=True)
class PendingItem:
    """An item without a vector of its store's embedder, or one that waits to be sent."""

    item_id: UUID
    store_id: UUID
    content: str
    content_hash: bytes


def pending_items(connection: Connection, item_ids: Sequence[UUID]) -> list[PendingItem]:
    """Those of the items that are there, oldest first."""
    return [
        PendingItem(row.item_id, row.store_id, row.content_summary, bytes(row.content_hash))
        for row in connection.execute(_PENDING, {"ids": list(item_ids)})
    ]


def delete(connection: Connection, sent: Sequence[PendingItem]) -> None:
    """They are mem0's now."""
    connection.execute(_DELETE, {"ids": [item.item_id for item in sent]})


def known(connection: Connection, store_id: UUID, hashes: Sequence[bytes], model: str) -> set[bytes]:
    """Those of the contents that the store has a vector of this model for."""
    rows = connection.execute(_KNOWN, {"store": store_id, "hashes": list(hashes), "model": model})
    return {bytes(row.content_hash) for row in rows}


def vector_size(connection: Connection, store_id: UUID, model: str) -> int | None:
    """Values of the store's vectors by this model; None before there is one."""
    return connection.execute(_SIZE, {"store": store_id, "model": model}).scalar()


def embed(
    connection: Connection, store_id: UUID, vectors: Mapping[UUID, Float32], same: Sequence[UUID], model: str
) -> None:
    """Store new vectors, and give the items ``same`` those that the store has for their contents."""
    if not (vectors or same):
        return
    revision = rows.bump_if_there(connection, store_id)
    if revision is None:
        return
    common = {"store": store_id, "model": model, "revision": revision}
    if vectors:
        connection.execute(
            _FILL, [{**common, "id": key, "vector": vector} for key, vector in vectors.items()]
        )
    if same:
        connection.execute(_COPY, {**common, "ids": list(same)})


def without(connection: Connection, item_ids: Sequence[UUID], models: Mapping[UUID, str]) -> list[UUID]:
    """Those that have no vector of their store's model (by store)."""
    rows = connection.execute(_WITHOUT, {"ids": list(item_ids)})
    return [
        row.item_id for row in rows if models.get(row.store_id, row.embedding_model) != row.embedding_model
    ]


def check_embedder(config: EmbeddingConfig | None, path: str) -> None:
    """Raises :class:`ConfigError`: something is missing, or its address is in a private network."""
    if config is None or config.provider == "deployment":
        return
    key = "" if config.api_key is None else config.api_key.get_secret_value()
    wrong = declaration_problem(vendor(config), config.model, config.base_url or "", key)
    if wrong is not None:
        raise ConfigError(f"{path}.{wrong}")
    address = config.base_url or (PRESETS[config.provider].base_url if config.provider in PRESETS else "")
    if address and address != get_settings().embedder_base_url and (why := check_public(address)) is not None:
        raise ConfigError(f"{path}.base_url: {why}")


def vendor(config: EmbeddingConfig) -> str:
    """The provider by the name that :mod:`engine.providers` has for it."""
    return "fastembed" if config.provider == "local" else config.provider


_INSERT = text("""
    INSERT INTO store_items (item_id, group_id, store_id, key, revision, content_summary, content_hash,
        dedupe_hash, input_snapshot, output_snapshot, metadata, attachments, tokens, created_at)
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
COUNT = text("SELECT count(*) FROM store_items WHERE group_id = :group AND store_id = :store")
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
    VALUES (:store, :attachment_id, :group, :data, :size, :mime_type) ON CONFLICT DO NOTHING
""")
_ATTACHMENTS_SIZE = text("SELECT coalesce(sum(size), 0) FROM attachments WHERE store_id = :store")
_READ_ATTACHMENTS = text("""
    SELECT sha256, data, mime_type FROM attachments WHERE store_id = :store AND sha256 = ANY(:ids)
""")
_DROP_ATTACHMENTS = text("""
    DELETE FROM attachments a WHERE a.store_id = :store AND NOT EXISTS (
        SELECT FROM store_items i WHERE i.group_id = a.group_id AND i.store_id = a.store_id
        AND i.attachments @> ARRAY[a.sha256]
    )
""")
_PENDING = text("""
    SELECT item_id, store_id, content_summary, content_hash FROM store_items WHERE item_id = ANY(:ids)
    ORDER BY position
""")
_DELETE = text("DELETE FROM store_items WHERE item_id = ANY(:ids)")
_KNOWN = text("""
    SELECT DISTINCT content_hash FROM store_items
    WHERE store_id = :store AND content_hash = ANY(:hashes) AND embedding_model = :model
""")
_SIZE = text("""
    SELECT vector_dims(embedding) FROM store_items WHERE store_id = :store AND embedding_model = :model
    AND embedding IS NOT NULL LIMIT 1
""")
_FILL = text("""
    UPDATE store_items SET embedding = :vector, embedding_model = :model, revision = :revision
    WHERE item_id = :id
""")
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
# Of stores with the deployment's embedder: all, whichever model their vectors are of.
enqueues_vectors(
    EMBED_ITEMS,
    """
    SELECT i.item_id, i.group_id
    FROM store_items i JOIN stores s ON s.group_id = i.group_id AND s.store_id = i.store_id
    WHERE s.type IN ('simple', 'file') AND s.config -> 'embedding' IS DISTINCT FROM '"none"'
        AND coalesce(s.config -> 'embedding' ->> 'provider', 'deployment') = 'deployment'
    """,
)
