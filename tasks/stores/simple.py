"""Searching a simple store: by meaning, then word by word; what has no vector yet is found by its words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, text

from engine.stores.items import without_labels
from engine.stores.query import query_text
from engine.stores.scoring import CANDIDATES, combined, likenesses, without_vector
from engine.text.keywords import asked_tokens
from jiyi.errors import ProviderUnavailable, SettingsError
from jiyi.protocol.stores.asking import FoundItems, RetrieveItems
from jiyi.protocol.stores.items import Hit
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.config.types import SimpleMemoryConfig
from models.db.connection import reading
from models.stores import items
from models.stores.index import INDEXES
from models.stores.kinds.kept import KeptStore
from tasks.stores.embedders import StoreEmbedder, embedder_of_store

log = logging.getLogger(__name__)


def search(store: KeptStore, request: RetrieveItems) -> FoundItems:
    """The items that fit a question best, best first."""
    config: SimpleMemoryConfig = store.config
    question = query_text(request.query, config.max_content_length, config.fidelity)
    embedder, query, notes = _query(store, question)
    wanted = CANDIDATES * request.top_k
    near: dict[int, float] = {}
    skipped = pending = 0
    uncompared: list[int] | None = None
    with reading() as connection:
        if embedder is not None and query is not None:
            index = INDEXES.of(store.group_id, store.store_id, embedder.model, len(query))
            with index.lock:
                index.sync(connection, store.store_id)
                near = _nearest(*index.cosines(query), wanted, request.similarity_threshold)
                skipped, pending = len(index.other), len(index.pending)
                uncompared = [*index.other, *index.pending]
        found = items.by_positions(connection, store, list(near))
        if skipped:
            log.warning(
                "store %s: %d items have vectors of another model or size, and are looked for by their words", store.store_id, skipped
            )
        by_words: Sequence[Row[Any]] = ()
        if uncompared is None or uncompared:
            by_words = _by_words(connection, store, question, uncompared, wanted)
        found |= {row.position: row for row in by_words if row.position not in near}
        ranked = _ranked(question, found, near, config)[: request.top_k]
        hits = [_hit(connection, found[position], score, near.get(position), parts) for score, position, parts in ranked]
    return FoundItems(hits=hits, skipped=skipped, pending=pending, notes=notes)


def _query(store: KeptStore, question: str) -> tuple[StoreEmbedder | None, Float32 | None, list[str]]:
    """The store's embedder and the question's vector; without one the items' words have to do."""
    try:
        with reading() as connection:
            embedder = embedder_of_store(connection, store)
        return embedder, None if embedder is None or not question.strip() else embedder.query(question), []
    except (ProviderUnavailable, SettingsError) as error:
        return None, None, [f"searched by words: {error}"]


def _nearest(scores: Float32, positions: Any, wanted: int, threshold: float) -> dict[int, float]:
    """Position → cosine of the best ones."""
    count = min(wanted, len(scores))
    if not count:
        return {}
    best = np.argpartition(-scores, count - 1)[:count]
    return {int(positions[row]): float(scores[row]) for row in best if threshold < 0 or scores[row] >= threshold}


def _ranked(
    question: str, found: dict[int, Row[Any]], near: dict[int, float], config: SimpleMemoryConfig
) -> list[tuple[float, int, dict[str, float]]]:
    """(score, position, parts) of the candidates, best first; of equal ones the newest."""
    texts = [row.content_summary if config.fidelity == "devall" else without_labels(row.content_summary) for row in found.values()]
    scored = [
        (combined(near[position], like) if position in near else without_vector(like), position, like.parts)
        for position, like in zip(found, likenesses(question, texts, config.fidelity), strict=True)
    ]
    return sorted(scored, key=lambda one: (-one[0], -one[1]))


def _by_words(connection: Connection, store: KeptStore, question: str, positions: list[int] | None, wanted: int) -> Sequence[Row[Any]]:
    """Of the items at these positions (None: all) those that share most words with the question.

    Positions rather than a condition on the vector: what has got its vector since the index was read is found by its words.
    """
    terms = list(dict.fromkeys(asked_tokens(question)))
    values = {"group": store.group_id, "store": store.store_id, "positions": positions, "terms": terms, "limit": wanted}
    return connection.execute(_BY_WORDS, values).all() if terms else []


def _hit(connection: Connection, row: Row[Any], score: float, cosine: float | None, parts: dict[str, float]) -> Hit:
    return Hit(item=items.item_of(connection, row), score=score, cosine=cosine, parts=parts)


_BY_WORDS = text("""
    SELECT store_id, item_id, key, position, content_summary, input_snapshot, output_snapshot, metadata, attachments, created_at,
        embedding_model
    FROM store_items i CROSS JOIN LATERAL (
        SELECT count(*) AS shared FROM unnest(CAST(:terms AS text[])) AS t(term) WHERE t.term = ANY(string_to_array(i.tokens, ' '))
    ) s
    WHERE group_id = :group AND store_id = :store AND s.shared > 0
        AND (CAST(:positions AS bigint[]) IS NULL OR position = ANY(CAST(:positions AS bigint[])))
    ORDER BY s.shared DESC, position DESC LIMIT :limit
""")
