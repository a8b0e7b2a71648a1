"""Items written and read in the database. Items whose time is over are as good as gone; a job deletes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, func, or_, select, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.protocol.items import Item, ItemReference, ItemWrite, ListNamespaces
from models.items.tables import ItemRow
from models.memory.agents import make_groups


def put(connection: Connection, group_id: str, items: Sequence[ItemWrite]) -> list[UUID]:
    """Store items in place of what is there; of those with texts the ids, which owe vectors.

    A row keeps its id and its ``created_at``. Sorted, so that two writers of the same items wait for each other in one order.
    """
    make_groups(connection, [group_id])
    owing = []
    for item in sorted(items, key=lambda one: (one.namespace, one.key)):
        row = {"id": uuid7(), "namespace": item.namespace, "key": item.key, "value": item.value, "ttl": item.ttl_minutes}
        item_id = connection.execute(_PUT, {**row, "group": group_id}).scalar_one()
        connection.execute(_DROP_TEXTS, {"id": item_id, "group": group_id})
        if item.texts:
            texts = [{"id": item_id, "group": group_id, "number": number, "content": one} for number, one in enumerate(item.texts)]
            connection.execute(_ADD_TEXT, texts)
            owing.append(item_id)
    return owing


def delete(connection: Connection, group_id: str, items: Sequence[ItemWrite]) -> int:
    """Delete items; how many of them there were."""
    rows = [{"group": group_id, "namespace": item.namespace, "key": item.key} for item in items]
    return sum(len(connection.execute(_DELETE, row).all()) for row in rows)


def get(connection: Connection, group_id: str, items: Sequence[ItemReference]) -> list[tuple[UUID, Item] | None]:
    """Items with their ids, in the order in which they are asked for; None where there is none."""
    rows = ({"group": group_id, "namespace": item.namespace, "key": item.key} for item in items)
    found = (connection.execute(_GET, row).one_or_none() for row in rows)
    return [None if row is None else (row.item_id, item_of(row)) for row in found]


def refresh(connection: Connection, group_id: str, ids: Sequence[UUID]) -> None:
    """Let the time of these items begin anew. Those that another access is refreshing at the moment are left to it."""
    connection.execute(_REFRESH, {"group": group_id, "ids": list(ids)})


def namespaces(connection: Connection, group_id: str, asked: ListNamespaces) -> list[list[str]]:
    """Namespaces that have items, in alphabetical order."""
    matches = [
        {"kind": match.kind, "length": len(match.path), "path": [None if part == "*" else part for part in match.path]}
        for match in asked.match
    ]
    parameters = {"group": group_id, "matches": matches, "depth": asked.max_depth, "limit": asked.limit, "offset": asked.offset}
    return list(connection.execute(_NAMESPACES, parameters).scalars())


def count_expired(connection: Connection, now: Any) -> int:
    """How many items are past their time."""
    return int(connection.execute(_COUNT_EXPIRED, {"now": now}).scalar_one())


def delete_expired(connection: Connection, now: Any, limit: int) -> int:
    """Delete up to ``limit`` items past their time; returns how many."""
    return connection.execute(_DELETE_EXPIRED, {"now": now, "limit": limit}).rowcount


def item_of(row: Any, score: float | None = None) -> Item:
    return Item(namespace=row.namespace, key=row.key, value=row.value, created_at=row.created_at, updated_at=row.updated_at, score=score)


_I = ItemRow
COLUMNS = (_I.item_id, _I.namespace, _I.key, _I.value, _I.created_at, _I.updated_at)
IN_FORCE = or_(_I.expires_at.is_(None), _I.expires_at > func.clock_timestamp())
# clock_timestamp(): two writes of one transaction are one after the other.
_PUT = text("""
    INSERT INTO items AS i (item_id, group_id, namespace, key, value, created_at, updated_at, ttl_minutes, expires_at)
    VALUES (:id, :group, :namespace, :key, :value, clock_timestamp(), clock_timestamp(), CAST(:ttl AS float8),
        clock_timestamp() + make_interval(secs => CAST(:ttl AS float8) * 60))
    ON CONFLICT (group_id, namespace, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at,
        ttl_minutes = excluded.ttl_minutes, expires_at = excluded.expires_at,
        created_at = CASE WHEN i.expires_at <= clock_timestamp() THEN excluded.created_at ELSE i.created_at END
    RETURNING item_id
""").bindparams(bindparam("value", type_=JSONB))
_DROP_TEXTS = text("DELETE FROM item_texts WHERE item_id = :id AND group_id = :group")
_ADD_TEXT = text("INSERT INTO item_texts (item_id, number, group_id, content) VALUES (:id, :number, :group, :content)")
_DELETE = text("""
    WITH gone AS (
        DELETE FROM items WHERE group_id = :group AND namespace = CAST(:namespace AS text[]) AND key = :key RETURNING expires_at
    )
    SELECT 1 FROM gone WHERE expires_at IS NULL OR expires_at > clock_timestamp()
""")
_GET = select(*COLUMNS).where(
    _I.group_id == bindparam("group"), IN_FORCE, _I.namespace == bindparam("namespace"), _I.key == bindparam("key")
)
_REFRESH = text("""
    UPDATE items SET expires_at = clock_timestamp() + make_interval(secs => ttl_minutes * 60) WHERE item_id IN (
        SELECT item_id FROM items
        WHERE group_id = :group AND (expires_at IS NULL OR expires_at > clock_timestamp()) AND item_id = ANY(:ids)
            AND ttl_minutes IS NOT NULL FOR UPDATE SKIP LOCKED
    ) AND group_id = :group
""")
_NAMESPACES = text("""
    SELECT DISTINCT i.namespace[1:coalesce(CAST(:depth AS int), cardinality(i.namespace))] AS found FROM items i
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
_COUNT_EXPIRED = text("SELECT count(*) FROM items WHERE expires_at <= :now")
_DELETE_EXPIRED = text("""
    DELETE FROM items WHERE item_id = ANY(ARRAY(
        SELECT item_id FROM items WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ))
""")
