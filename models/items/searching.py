"""Items by filters and by likeness, exactly; and the vectors of their texts.

Whoever searches sees to the vectors that are missing, so that what was stored a moment ago is found. An approximate index
that is filtered by tenant and namespace would lose results silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pydantic_core import to_json
from sqlalchemy import Connection, text

from jiyi.protocol.integrations.items import Item, SearchItems
from jiyi.protocol.wire.vectors import Float32
from models.items.storing import COLUMNS, IN_FORCE, item_of

#: The kind of work that items without vectors of the active model owe.
EMBED_VALUES = "embed_values"

#: (item, number), and the text at that place.
Owed = tuple[tuple[UUID, int], str]


def search(
    connection: Connection, group_id: str, asked: SearchItems, query: Float32 | None = None, model: str | None = None
) -> list[tuple[UUID, Item]]:
    """Items with their ids: those most like the query's vector first, or without one those updated last."""
    where, parameters = _conditions(group_id, asked)
    page = {**parameters, "limit": asked.limit, "offset": asked.offset}
    if query is None:
        rows = connection.execute(text(_LATEST.format(where=where)), page)
        return [(row.item_id, item_of(row)) for row in rows]
    rows = connection.execute(text(_NEAREST.format(where=where)), {**page, "query": query, "model": model})
    return [(row.item_id, item_of(row, row.score)) for row in rows]


def without_vectors(connection: Connection, group_id: str, asked: SearchItems, model: str, limit: int) -> list[Owed]:
    """Texts of the items looked through that have no vector of this model."""
    where, parameters = _conditions(group_id, asked)
    rows = connection.execute(text(_WITHOUT.format(where=where)), {**parameters, "model": model, "limit": limit})
    return [((row.item_id, row.number), row.content) for row in rows]


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[Owed]:
    """Texts of these items that have no vector of this model."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [((row.item_id, row.number), row.content) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[Owed, Float32]], model: str) -> None:
    """Store vectors. A text that has changed meanwhile keeps owing its own."""
    rows = [
        {"id": item_id, "number": number, "content": content, "vector": vector, "model": model}
        for ((item_id, number), content), vector in vectors
    ]
    if rows:
        connection.execute(_FILL, rows)


def owe_all(connection: Connection, model: str) -> int:
    """Owe vectors to every item without those of this model: after a move to it. In the scope of the whole service."""
    return connection.execute(_OWE_ALL, {"kind": EMBED_VALUES, "model": model}).rowcount


def _conditions(group_id: str, asked: SearchItems) -> tuple[str, dict[str, object]]:
    """What items have to fulfil: SQL of parameters, and these."""
    parts = [IN_FORCE]
    parameters: dict[str, Any] = {"group": group_id}
    if asked.prefix:
        parts.append("i.namespace[1:cardinality(CAST(:prefix AS text[]))] = CAST(:prefix AS text[])")
        parameters["prefix"] = asked.prefix
    for name, wanted in asked.filter.items():
        for operator, value in wanted.items() if isinstance(wanted, dict) else [("$eq", wanted)]:
            at = len(parameters)
            parts.append(_COMPARED[operator].format(field=f":field{at}", value=f"CAST(:value{at} AS jsonb)"))
            parameters |= {f"field{at}": name, f"value{at}": to_json(value).decode()}
    return " AND ".join(parts), parameters


_ORDERED = "(i.value -> {{field}} {sign} {{value}} AND jsonb_typeof(i.value -> {{field}}) = jsonb_typeof({{value}}))"
#: Operator → its condition. A field that is not there is NULL, which fulfils none.
_COMPARED = {"$eq": "i.value -> {field} = {value}", "$ne": "i.value -> {field} <> {value}"} | {
    name: _ORDERED.format(sign=sign) for name, sign in (("$gt", ">"), ("$gte", ">="), ("$lt", "<"), ("$lte", "<="))
}
_LATEST = f"SELECT {COLUMNS} FROM items i WHERE {{where}} ORDER BY i.updated_at DESC, i.item_id DESC LIMIT :limit OFFSET :offset"  # noqa: S608
# OFFSET 0 keeps vectors of other models, which may have another size, from being compared before they are filtered out.
_NEAREST = f"""
    SELECT {COLUMNS}, best.score FROM items i JOIN (
        SELECT t.item_id, max(1 - (t.embedding <=> :query)) AS score FROM (
            SELECT item_id, embedding FROM item_texts WHERE group_id = :group AND embedding_model = CAST(:model AS text) OFFSET 0
        ) AS t GROUP BY t.item_id
    ) AS best USING (item_id)
    WHERE {{where}} ORDER BY best.score DESC, i.item_id LIMIT :limit OFFSET :offset
"""  # noqa: S608 – our own names; values are parameters
_WITHOUT = """
    SELECT t.item_id, t.number, t.content FROM item_texts t JOIN items i USING (item_id)
    WHERE {where} AND t.embedding_model IS DISTINCT FROM CAST(:model AS text) ORDER BY t.item_id, t.number LIMIT :limit
"""
_TO_EMBED = text("""
    SELECT item_id, number, content FROM item_texts
    WHERE item_id = ANY(:ids) AND embedding_model IS DISTINCT FROM CAST(:model AS text) ORDER BY item_id, number
""")
_FILL = text("""
    UPDATE item_texts SET embedding = :vector, embedding_model = :model
    WHERE item_id = :id AND number = :number AND content = :content
""")
_OWE_ALL = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT DISTINCT :kind, item_id, group_id FROM item_texts WHERE embedding_model IS DISTINCT FROM CAST(:model AS text)
    ON CONFLICT DO NOTHING
""")
