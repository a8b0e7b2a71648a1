"""Items in the database: written, read, searched by filters and by exact similarity; the vectors of their
texts.

Items whose time is over are as good as gone; a job deletes them.

A part of an item's namespace that is an agent's name says that the item is that agent's. A search
embeds the missing vectors first, so that what was stored a moment ago is found. An approximate index that
is filtered by tenant would lose results silently.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from pydantic_core import to_json
from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Connection,
    Double,
    ForeignKey,
    Text,
    UniqueConstraint,
    and_,
    bindparam,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import NullType
from uuid6 import uuid7

from jiyi.protocol.items import Item, ItemReference, ItemWrite, ListNamespaces, SearchItems
from jiyi.protocol.wire.vectors import Float32
from models.db.base import NOW, Base, partial_index
from models.erasure.parts import ErasurePart, Scrubbed, register
from models.memory.agents import make_groups
from models.operations.embedding_models import TextWithoutVector, enqueues_vectors


class ItemRow(Base):
    """A value that a program keeps for itself. Replaced as a whole; no history."""

    __tablename__ = "items"
    __table_args__ = (
        UniqueConstraint("group_id", "namespace", "key", name="items_group_id_namespace_key_key"),
        partial_index("items_expires_at_idx", "expires_at IS NOT NULL", "expires_at"),
    )

    item_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"))
    namespace: Mapped[list[str]]
    key: Mapped[str]
    value: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: Minutes after the last access at which it is gone; NULL: it stays.
    ttl_minutes: Mapped[float | None]
    expires_at: Mapped[datetime | None]


class ItemTextRow(Base):
    """A text that an item is found by. Without a vector of the model in use one is pending."""

    __tablename__ = "item_texts"
    __table_args__ = (
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
    )

    item_id: Mapped[UUID] = mapped_column(ForeignKey("items.item_id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    content: Mapped[str]
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None]


_I = ItemRow
COLUMNS = (_I.item_id, _I.namespace, _I.key, _I.value, _I.created_at, _I.updated_at)
NOT_EXPIRED = or_(_I.expires_at.is_(None), _I.expires_at > func.clock_timestamp())
_GET = select(*COLUMNS).where(
    _I.group_id == bindparam("group"),
    NOT_EXPIRED,
    _I.namespace == bindparam("namespace"),
    _I.key == bindparam("key"),
)
#: The kind of pending work of items without vectors of the active model.
EMBED_VALUES = "embed_values"
_I, _T = ItemRow, ItemTextRow
_EQUAL: dict[str, Callable[..., ColumnElement[bool]]] = {"$eq": operator.eq, "$ne": operator.ne}
#: Between values of one type only.
_ORDERED: dict[str, Callable[..., ColumnElement[bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
SCRUBBED = (
    Scrubbed("items", "item_id::text", "array_to_string(namespace, chr(1)), key, value::text"),
    Scrubbed("item_texts", "item_id::text || '/' || number::text", "content"),
)


def put(connection: Connection, group_id: str, items: Sequence[ItemWrite]) -> list[UUID]:
    """Store items in place of what is there; returns the ids of those with texts, whose vectors are pending.

    A row keeps its id and its ``created_at``. Sorted, so that two writers wait for each other in one order.
    """
    make_groups(connection, [group_id])
    pending_ids = []
    for item in sorted(items, key=lambda one: (one.namespace, one.key)):
        row = {
            "id": uuid7(),
            "namespace": item.namespace,
            "key": item.key,
            "value": item.value,
            "ttl": item.ttl_minutes,
        }
        item_id = connection.execute(_PUT, {**row, "group": group_id}).scalar_one()
        connection.execute(_DROP_TEXTS, {"id": item_id, "group": group_id})
        if item.texts:
            texts = [
                {"item_id": item_id, "group_id": group_id, "number": number, "content": content}
                for number, content in enumerate(item.texts)
            ]
            connection.execute(insert(ItemTextRow), texts)
            pending_ids.append(item_id)
    return pending_ids


def delete(connection: Connection, group_id: str, items: Sequence[ItemWrite]) -> int:
    rows = [{"group": group_id, "namespace": item.namespace, "key": item.key} for item in items]
    return sum(len(connection.execute(_DELETE, row).all()) for row in rows)


def get(
    connection: Connection, group_id: str, items: Sequence[ItemReference]
) -> list[tuple[UUID, Item] | None]:
    """Items with their ids, in the order in which they are asked for; None where there is none."""
    rows = ({"group": group_id, "namespace": item.namespace, "key": item.key} for item in items)
    results = (connection.execute(_GET, row).one_or_none() for row in rows)
    return [None if row is None else (row.item_id, item_of(row)) for row in results]


def refresh(connection: Connection, group_id: str, ids: Sequence[UUID]) -> None:
    """Restart the time to live of these items, but for those that another access is refreshing."""
    connection.execute(_REFRESH, {"group": group_id, "ids": list(ids)})


def namespaces(connection: Connection, group_id: str, request: ListNamespaces) -> list[list[str]]:
    matches = [
        {
            "kind": match.kind,
            "length": len(match.path),
            "path": [None if part == "*" else part for part in match.path],
        }
        for match in request.match
    ]
    parameters = {
        "group": group_id,
        "matches": matches,
        "depth": request.max_depth,
        "limit": request.limit,
        "offset": request.offset,
    }
    return list(connection.execute(_NAMESPACES, parameters).scalars())


def delete_expired(connection: Connection, now: Any, limit: int) -> int:
    """Delete up to ``limit`` items past their time; returns how many."""
    return connection.execute(_DELETE_EXPIRED, {"now": now, "limit": limit}).rowcount


def item_of(row: Any, score: float | None = None) -> Item:
    return Item(
        namespace=row.namespace,
        key=row.key,
        value=row.value,
        created_at=row.created_at,
        updated_at=row.updated_at,
        score=score,
    )


def search(
    connection: Connection,
    group_id: str,
    request: SearchItems,
    query: Float32 | None = None,
    model: str | None = None,
) -> list[tuple[UUID, Item]]:
    """Items with their ids: those most like the query's vector first, or without one those updated last."""
    conditions = list(_conditions(group_id, request))
    if query is None:
        latest = select(*COLUMNS).where(*conditions).order_by(_I.updated_at.desc(), _I.item_id.desc())
        return [
            (row.item_id, item_of(row))
            for row in connection.execute(latest.limit(request.limit).offset(request.offset))
        ]
    # OFFSET 0 keeps vectors of other models, which may have another size, from being compared before they are
    # filtered out.
    vectors = (
        select(_T.item_id, _T.embedding)
        .where(_T.group_id == group_id, _T.embedding_model == model)
        .offset(0)
        .subquery()
    )
    distance = type_coerce(vectors.c.embedding, NullType()).op("<=>", return_type=Double)(
        bindparam("query", type_=NullType())
    )
    scores = (
        select(vectors.c.item_id, func.max(1 - distance).label("score"))
        .group_by(vectors.c.item_id)
        .subquery()
    )
    nearest = (
        select(*COLUMNS, scores.c.score)
        .join_from(_I, scores, scores.c.item_id == _I.item_id)
        .where(*conditions)
    )
    page = nearest.order_by(scores.c.score.desc(), _I.item_id).limit(request.limit).offset(request.offset)
    return [(row.item_id, item_of(row, row.score)) for row in connection.execute(page, {"query": query})]


def without_vectors(
    connection: Connection, group_id: str, request: SearchItems, model: str, limit: int
) -> list[TextWithoutVector]:
    """Texts of the searched items that have no vector of this model."""
    texts = select(_T.item_id, _T.number, _T.content).join_from(_T, _I, _I.item_id == _T.item_id)
    missing = texts.where(*_conditions(group_id, request), _T.embedding_model.is_distinct_from(model))
    rows = connection.execute(missing.order_by(_T.item_id, _T.number).limit(limit))
    return [TextWithoutVector(row.item_id, row.content, row.number) for row in rows]


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[TextWithoutVector]:
    """Texts of these items that have no vector of this model."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [TextWithoutVector(row.item_id, row.content, row.number) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[TextWithoutVector, Float32]], model: str) -> None:
    """Store vectors. That of a text that has changed meanwhile stays pending."""
    rows = [
        {"id": t.subject_id, "number": t.number, "content": t.content, "vector": vector, "model": model}
        for t, vector in vectors
    ]
    if rows:
        connection.execute(_FILL, rows)


def _conditions(group_id: str, request: SearchItems) -> Iterator[ColumnElement[bool]]:
    yield _I.group_id == group_id
    yield NOT_EXPIRED
    if request.prefix:
        yield _I.namespace[1 : len(request.prefix)] == request.prefix
    for name, expected in request.filter.items():
        for comparison, value in expected.items() if isinstance(expected, dict) else [("$eq", expected)]:
            yield _compared(name, comparison, value)


def _compared(name: str, comparison: str, value: object) -> ColumnElement[bool]:
    """A field with a value. A field that is not there is NULL, which fulfils nothing."""
    field = _I.value.op("->", return_type=JSONB)(name)
    operand = cast(literal(to_json(value).decode(), Text), JSONB)
    if comparison in _EQUAL:
        return _EQUAL[comparison](field, operand)
    return and_(_ORDERED[comparison](field, operand), func.jsonb_typeof(field) == func.jsonb_typeof(operand))


# clock_timestamp(): two writes of one transaction are one after the other.
_PUT = text("""
    INSERT INTO items AS i (item_id, group_id, namespace, key, value, created_at, updated_at, ttl_minutes,
    expires_at)
    VALUES (:id, :group, :namespace, :key, :value, clock_timestamp(), clock_timestamp(), CAST(:ttl AS float8),
        clock_timestamp() + make_interval(secs => CAST(:ttl AS float8) * 60))
    ON CONFLICT (group_id, namespace, key) DO UPDATE SET value = excluded.value, updated_at =
    excluded.updated_at,
        ttl_minutes = excluded.ttl_minutes, expires_at = excluded.expires_at,
        created_at = CASE WHEN i.expires_at <= clock_timestamp() THEN excluded.created_at ELSE i.created_at
        END
    RETURNING item_id
""").bindparams(bindparam("value", type_=JSONB))
_DROP_TEXTS = text("DELETE FROM item_texts WHERE item_id = :id AND group_id = :group")
_DELETE = text("""
    WITH gone AS (
        DELETE FROM items WHERE group_id = :group AND namespace = CAST(:namespace AS text[])
        AND key = :key RETURNING expires_at
    )
    SELECT 1 FROM gone WHERE expires_at IS NULL OR expires_at > clock_timestamp()
""")
_REFRESH = text("""
    UPDATE items SET expires_at = clock_timestamp() + make_interval(secs => ttl_minutes * 60)
    WHERE item_id IN (
        SELECT item_id FROM items
        WHERE group_id = :group AND (expires_at IS NULL OR expires_at > clock_timestamp())
        AND item_id = ANY(:ids)
            AND ttl_minutes IS NOT NULL FOR UPDATE SKIP LOCKED
    ) AND group_id = :group
""")
_NAMESPACES = text("""
    SELECT DISTINCT i.namespace[1:coalesce(CAST(:depth AS int), cardinality(i.namespace))] AS found
    FROM items i
    WHERE i.group_id = :group AND (i.expires_at IS NULL OR i.expires_at > clock_timestamp()) AND NOT EXISTS (
        SELECT FROM jsonb_to_recordset(:matches) AS m(kind text, length int, path jsonb)
        WHERE m.length > cardinality(i.namespace) OR EXISTS (
            SELECT FROM jsonb_array_elements_text(m.path) WITH ORDINALITY AS wanted(part, number)
            WHERE wanted.part <> i.namespace[
                wanted.number + CASE m.kind WHEN 'suffix' THEN cardinality(i.namespace) - m.length ELSE 0 END
            ]
        )
    )
    ORDER BY found LIMIT :limit OFFSET :offset
""").bindparams(bindparam("matches", type_=JSONB))
_DELETE_EXPIRED = text("""
    DELETE FROM items WHERE item_id = ANY(ARRAY(
        SELECT item_id FROM items WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ))
""")
_TO_EMBED = text("""
    SELECT item_id, number, content FROM item_texts
    WHERE item_id = ANY(:ids) AND embedding_model IS DISTINCT FROM CAST(:model AS text)
    ORDER BY item_id, number
""")
_FILL = text("""
    UPDATE item_texts SET embedding = :vector, embedding_model = :model
    WHERE item_id = :id AND number = :number AND content = :content
""")
enqueues_vectors(
    EMBED_VALUES,
    "SELECT DISTINCT item_id, group_id FROM item_texts WHERE embedding_model IS DISTINCT FROM :model",
)


register(ErasurePart(scrubbed=SCRUBBED))
