"""Searching long-term knowledge, and its vectors.

Pieces are stored without a vector, and found by their words until ``embed_knowledge`` has embedded them in batches; so they
are after a change of the embedding model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Double, Text, bindparam, cast, func, or_, select, text, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import NullType

from jiyi.protocol.tier_questions import MemoryQuestion, TierItem
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import tokens
from models.db.conditions import equal_if_given
from models.operations.embedding_models import TextWithoutVector, owes_vectors
from models.tiers.tables import KnowledgeRow

#: The kind of work that knowledge without a vector of the active model owes.
EMBED_KNOWLEDGE = "embed_knowledge"
#: Pieces without a comparable vector that share a word with a question, of which the best are looked for.
MAX_BY_WORDS = 500


def nearest(connection: Connection, group_id: str, question: MemoryQuestion, query: Float32, model: str, limit: int) -> list[TierItem]:
    """The pieces most like a question, exactly, of those with a vector of the same model.

    No approximate index: a group's knowledge is what people have promoted, thousands at most, and an index that is filtered
    by tenant loses results silently.
    """
    # Materialised: the vectors that are compared are of one model, so of one size.
    vectors = select(*_SHOWN, type_coerce(_K.embedding, NullType()).label("embedding"))
    vectors = vectors.where(*_in_force(group_id, question), _K.embedding_model == model)
    comparable = vectors.cte("comparable").prefix_with("MATERIALIZED")
    distance = comparable.c.embedding.op("<=>", return_type=Double)(bindparam("query", type_=NullType()))
    shown = [column for column in comparable.c if column is not comparable.c.embedding]
    wanted = select(*shown, (1 - distance).label("score")).order_by(distance, comparable.c.knowledge_id).limit(limit)
    return [_item(row, row.score, row.score) for row in connection.execute(wanted, {"query": query})]


def by_words(connection: Connection, group_id: str, question: MemoryQuestion, model: str | None) -> tuple[list[TierItem], int]:
    """Pieces without a vector of the model (None: all) that share a word with the question, and how many such there are.

    An item's score is the share of the question's words that it has, those that are rare among these pieces counting more.
    """
    wanted = list(dict.fromkeys(tokens(question.query)))
    not_comparable = [*_in_force(group_id, question), *([] if model is None else [_K.embedding_model.is_distinct_from(model)])]
    without = int(connection.execute(select(func.count()).select_from(_K).where(*not_comparable)).scalar_one())
    by_word = select(*_SHOWN, _K.tokens).where(*not_comparable, _TERMS.op("&&")(cast(wanted, ARRAY(Text))))
    latest = by_word.order_by(_K.promoted_at.desc(), _K.knowledge_id).limit(MAX_BY_WORDS)
    rows = connection.execute(latest).all() if without and wanted else []
    has = [set(row.tokens.split()) for row in rows]
    rarity = {term: 1 / (1 + sum(term in one for one in has)) for term in wanted}
    total = sum(rarity.values())
    found = [_item(row, sum(rarity[term] for term in wanted if term in one) / total, None) for row, one in zip(rows, has, strict=True)]
    return sorted(found, key=lambda item: -item.score), without


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[TextWithoutVector]:
    """Those in force that have no vector of this model, with their texts."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [TextWithoutVector(row.knowledge_id, row.content) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[TextWithoutVector, Float32]], model: str) -> None:
    """Store vectors. A piece whose text has changed meanwhile keeps owing its vector to whoever changed it."""
    rows = [{"id": one.subject_id, "content": one.content, "vector": vector, "model": model} for one, vector in vectors]
    if rows:
        connection.execute(_FILL, rows)


@owes_vectors(EMBED_KNOWLEDGE)
def owe_all(connection: Connection, model: str) -> int:
    """Owe a vector to every piece without one of this model: after a move to it. In the scope of the whole service."""
    return connection.execute(_OWE_ALL, {"kind": EMBED_KNOWLEDGE, "model": model}).rowcount


def _in_force(group_id: str, question: MemoryQuestion) -> Iterator[ColumnElement[bool]]:
    """What the question may be answered from: the whole group's, and its own agent's."""
    yield _K.group_id == group_id
    yield _K.demoted_at.is_(None)
    yield or_(_K.agent_id.is_(None), _K.agent_id == question.agent_id)
    yield from equal_if_given((_K.session_id, question.session_id))
    if not question.include_verdicts:
        yield _K.kind != "verdict"


def _item(row: Any, score: float, similarity: float | None) -> TierItem:
    return TierItem(
        item_id=str(row.knowledge_id),
        source="cold",
        content=row.content,
        score=score,
        similarity=similarity,
        kind=row.kind,
        created_at=row.promoted_at,
        session_id=row.session_id,
        agent_id=row.agent_id,
        verified=True,
        metadata=row.metadata,
    )


_K = KnowledgeRow
_SHOWN = (_K.knowledge_id, _K.agent_id, _K.session_id, _K.kind, _K.content, _K.source_metadata.label("metadata"), _K.promoted_at)
_TERMS = func.string_to_array(_K.tokens, " ")
_TO_EMBED = text("""
    SELECT knowledge_id, content FROM knowledge
    WHERE knowledge_id = ANY(:ids) AND demoted_at IS NULL AND embedding_model IS DISTINCT FROM :model
""")
_FILL = text("""
    UPDATE knowledge SET embedding = :vector, embedding_model = :model WHERE knowledge_id = :id AND content = :content
""")
_OWE_ALL = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, knowledge_id, group_id FROM knowledge
    WHERE demoted_at IS NULL AND embedding_model IS DISTINCT FROM CAST(:model AS text)
    ON CONFLICT DO NOTHING
""")
