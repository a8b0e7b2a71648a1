"""Searching long-term knowledge, and its vectors (CN-37, CN-41, CN-50).

Pieces are stored without a vector, and found by their words until ``embed_knowledge`` has embedded them in batches; so they
are after a change of the embedding model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.tiers.query import Item, MemoryQuestion
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.tokens import tokens

#: The kind of work that knowledge without a vector of the active model owes.
EMBED_KNOWLEDGE = "embed_knowledge"
#: Pieces without a comparable vector that share a word with a question, of which the best are looked for.
MAX_BY_WORDS = 500


def nearest(connection: Connection, group_id: str, question: MemoryQuestion, query: Float32, model: str, limit: int) -> list[Item]:
    """The pieces most like a question, exactly, of those with a vector of the same model (CN-41, CN-50).

    No approximate index: a group's knowledge is what people have promoted, thousands at most, and an index that is filtered
    by tenant loses results silently.
    """
    rows = connection.execute(_NEAREST, {**_filters(group_id, question), "query": query, "model": model, "limit": limit})
    return [_item(row, row.score, row.score) for row in rows]


def by_words(connection: Connection, group_id: str, question: MemoryQuestion, model: str | None) -> tuple[list[Item], int]:
    """Pieces without a vector of the model (None: all) that share a word with the question, and how many such there are.

    An item's score is the share of the question's words that it has, those that are rare among these pieces counting more.
    """
    wanted = list(dict.fromkeys(tokens(question.query)))
    parameters = {**_filters(group_id, question), "model": model, "limit": MAX_BY_WORDS, "terms": wanted}
    without = int(connection.execute(_WITHOUT, parameters).scalar_one())
    rows = connection.execute(_BY_WORDS, parameters).all() if without and wanted else []
    has = [set(row.tokens.split()) for row in rows]
    rarity = {term: 1 / (1 + sum(term in one for one in has)) for term in wanted}
    total = sum(rarity.values())
    found = [_item(row, sum(rarity[term] for term in wanted if term in one) / total, None) for row, one in zip(rows, has, strict=True)]
    return sorted(found, key=lambda item: -item.score), without


def to_embed(connection: Connection, ids: Sequence[UUID], model: str) -> list[tuple[UUID, str]]:
    """Those in force that have no vector of this model, with their texts."""
    rows = connection.execute(_TO_EMBED, {"ids": list(ids), "model": model})
    return [(row.knowledge_id, row.content) for row in rows]


def fill(connection: Connection, vectors: Sequence[tuple[UUID, str, Float32]], model: str) -> None:
    """(id, text, vector) each. A piece whose text has changed meanwhile keeps owing its vector to whoever changed it."""
    rows = [{"id": one, "content": content, "vector": vector, "model": model} for one, content, vector in vectors]
    if rows:
        connection.execute(_FILL, rows)


def owe_all(connection: Connection, model: str) -> int:
    """Owe a vector to every piece without one of this model: after a move to it. In the scope of the whole service."""
    return connection.execute(_OWE_ALL, {"kind": EMBED_KNOWLEDGE, "model": model}).rowcount


def _filters(group_id: str, question: MemoryQuestion) -> dict[str, object]:
    return {"group": group_id, "agent": question.agent_id, "session": question.session_id, "verdicts": question.include_verdicts}


def _item(row: Any, score: float, similarity: float | None) -> Item:
    return Item(
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


_IN_FORCE = """
    group_id = :group AND demoted_at IS NULL AND (agent_id IS NULL OR agent_id = CAST(:agent AS text))
    AND (CAST(:session AS text) IS NULL OR session_id = :session)
    AND (:verdicts OR kind <> 'verdict')
"""
_COLUMNS = "knowledge_id, agent_id, session_id, kind, content, metadata, promoted_at"
# Materialised: the vectors that are compared are of one model, so of one size.
_NEAREST = text(f"""
    WITH comparable AS MATERIALIZED (
        SELECT {_COLUMNS}, embedding FROM knowledge WHERE {_IN_FORCE} AND embedding_model = :model
    )
    SELECT {_COLUMNS}, 1 - (embedding <=> :query) AS score FROM comparable
    ORDER BY embedding <=> :query, knowledge_id LIMIT :limit
""")  # noqa: S608 – our own names; values are parameters
_NOT_COMPARABLE = f"{_IN_FORCE} AND (CAST(:model AS text) IS NULL OR embedding_model IS DISTINCT FROM :model)"
_WITHOUT = text(f"SELECT count(*) FROM knowledge WHERE {_NOT_COMPARABLE}")  # noqa: S608 – our own names; values are parameters
_BY_WORDS = text(f"""
    SELECT {_COLUMNS}, tokens FROM knowledge
    WHERE {_NOT_COMPARABLE} AND string_to_array(tokens, ' ') && CAST(:terms AS text[])
    ORDER BY promoted_at DESC, knowledge_id LIMIT :limit
""")  # noqa: S608 – our own names; values are parameters
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
