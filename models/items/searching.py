"""Items by filters and by likeness, exactly; and the vectors of their texts.

Whoever searches sees to the vectors that are missing, so that what was stored a moment ago is found. An approximate index
that is filtered by tenant and namespace would lose results silently.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Connection, Double, Text, and_, bindparam, cast, func, literal, select, text, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import NullType

from jiyi.protocol.items import Item, SearchItems
from jiyi.protocol.wire.vectors import Float32
from models.items.storing import COLUMNS, IN_FORCE, item_of
from models.items.tables import ItemRow, ItemTextRow
from models.operations.embedding_models import TextWithoutVector, owes_vectors

#: The kind of work that items without vectors of the active model owe.
EMBED_VALUES = "embed_values"


def search(
    connection: Connection, group_id: str, asked: SearchItems, query: Float32 | None = None, model: str | None = None
) -> list[tuple[UUID, Item]]:
    """Items with their ids: those most like the query's vector first, or without one those updated last."""
    conditions = list(_conditions(group_id, asked))
    if query is None:
        latest = select(*COLUMNS).where(*conditions).order_by(_I.updated_at.desc(), _I.item_id.desc())
        return [(row.item_id, item_of(row)) for row in connection.execute(latest.limit(asked.limit).offset(asked.offset))]
    # OFFSET 0 keeps vectors of other models, which may have another size, from being compared before they are filtered out.
    vectors = select(_T.item_id, _T.embedding).where(_T.group_id == group_id, _T.embedding_model == model).offset(0).subquery()
    distance = type_coerce(vectors.c.embedding, NullType()).op("<=>", return_type=Double)(bindparam("query", type_=NullType()))
    scores = select(vectors.c.item_id, func.max(1 - distance).label("score")).group_by(vectors.c.item_id).subquery()
    nearest = select(*COLUMNS, scores.c.score).join_from(_I, scores, scores.c.item_id == _I.item_id).where(*conditions)
    page = nearest.order_by(scores.c.score.desc(), _I.item_id).limit(asked.limit).offset(asked.offset)
    return [(row.item_id, item_of(row, row.score)) for row in connection.execute(page, {"query": query})]


def without_vectors(connection: Connection, group_id: str, asked: SearchItems, model: str, limit: int) -> list[TextWithoutVector]:
    """Texts of the items looked through that have no vector of this model."""
    texts = select(_T.item_id, _T.number, _T.content).join_from(_T, _I, _I.item_id == _T.item_id)
    missing = texts.where(*_conditions(group_id, asked), _T.embedding_model.is_distinct_from(model))
    rows = connection.execute(missing.order_by(_T.item_id, _T.number).limit(limit))
    return [TextWithoutVector(row.item_id, row.content, row.number) for row in rows]


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[TextWithoutVector]:
    """Texts of these items that have no vector of this model."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [TextWithoutVector(row.item_id, row.content, row.number) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[TextWithoutVector, Float32]], model: str) -> None:
    """Store vectors. A text that has changed meanwhile keeps owing its own."""
    rows = [
        {"id": one.subject_id, "number": one.number, "content": one.content, "vector": vector, "model": model} for one, vector in vectors
    ]
    if rows:
        connection.execute(_FILL, rows)


@owes_vectors(EMBED_VALUES)
def owe_all(connection: Connection, model: str) -> int:
    """Owe vectors to every item without those of this model: after a move to it. In the scope of the whole service."""
    return connection.execute(_OWE_ALL, {"kind": EMBED_VALUES, "model": model}).rowcount


def _conditions(group_id: str, asked: SearchItems) -> Iterator[ColumnElement[bool]]:
    """What items have to fulfil."""
    yield _I.group_id == group_id
    yield IN_FORCE
    if asked.prefix:
        yield _I.namespace[1 : len(asked.prefix)] == asked.prefix
    for name, wanted in asked.filter.items():
        for comparison, value in wanted.items() if isinstance(wanted, dict) else [("$eq", wanted)]:
            yield _compared(name, comparison, value)


def _compared(name: str, comparison: str, value: object) -> ColumnElement[bool]:
    """A field with a value. A field that is not there is NULL, which fulfils nothing."""
    field = _I.value.op("->", return_type=JSONB)(name)
    wanted = cast(literal(to_json(value).decode(), Text), JSONB)
    if comparison in _EQUAL:
        return _EQUAL[comparison](field, wanted)
    return and_(_ORDERED[comparison](field, wanted), func.jsonb_typeof(field) == func.jsonb_typeof(wanted))


_I, _T = ItemRow, ItemTextRow
_EQUAL: dict[str, Callable[..., ColumnElement[bool]]] = {"$eq": operator.eq, "$ne": operator.ne}
#: Between values of one type only.
_ORDERED: dict[str, Callable[..., ColumnElement[bool]]] = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
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
