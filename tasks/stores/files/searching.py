"""Questions to a store of files: answered from an index of its chunks, which a worker keeps until the store changes."""

from __future__ import annotations

from datetime import UTC, datetime

from engine.stores.files.scoring import Scores, best, score
from jiyi.errors import ProviderUnavailable, SettingsError
from jiyi.protocol import limits
from jiyi.protocol.stores.asking import FoundItems, RetrieveItems
from jiyi.protocol.stores.items import Hit, MemoryItem
from jiyi.protocol.wire.vectors import Float32
from models.db.connection import unit_of_work
from models.stores import items
from models.stores.files.index import FileIndex, index_of
from models.stores.kinds.kept import KeptStore
from tasks.stores.embedders import StoreEmbedder, embedder_of_store


def search(store: KeptStore, request: RetrieveItems) -> FoundItems:
    """The chunks that fit best. While the embedder is away words alone count, and a note says so.

    Safe to repeat because it only reads.
    """
    how = request.search or store.config.search
    text = request.query[: limits.MAX_FOCAL_CHARS]
    if not text.strip():  # nothing is asked, and any chunk would be as near as any other
        return FoundItems(hits=[])
    with unit_of_work() as connection:
        embedder = embedder_of_store(connection, store)
        assert embedder is not None, "a store of files without one cannot be declared"
    query, notes = (None, []) if how == "lexical" else _vector(embedder, text)
    with unit_of_work() as connection:
        index = index_of(connection, store, embedder.model, None if query is None else query.size)
    if not index.chunks.corpus.lengths.any():  # no chunk has a vector that it could be compared with
        query = None
    embed = None if query is None else embedder.query
    scores = score(index.chunks, text, query, embed, datetime.now(UTC), how)
    rows = best(scores, request.top_k, request.similarity_threshold)
    positions = [int(index.positions[row]) for row in rows]
    with unit_of_work() as connection:
        found = items.by_positions(connection, store, positions)
        hits = [
            _hit(index, scores, int(row), items.item_of(connection, found[position]))
            for row, position in zip(rows, positions, strict=True)
            if position in found  # else the file changed meanwhile
        ]
    return FoundItems(hits=hits, skipped=index.skipped, pending=index.pending, notes=notes)


def _vector(embedder: StoreEmbedder, text: str) -> tuple[Float32 | None, list[str]]:
    try:
        return embedder.query(text), []
    except (ProviderUnavailable, SettingsError) as error:
        return None, [f"searched by words alone: {error}"]


def _hit(index: FileIndex, scores: Scores, row: int, item: MemoryItem) -> Hit:
    has_vector = scores.cosine is not None and index.chunks.corpus.lengths[row] > 0
    return Hit(
        item=item,
        score=float(scores.total[row]),
        cosine=float(scores.cosine[row]) if has_vector and scores.cosine is not None else None,
        parts={"lexical": float(scores.lexical[row])},
    )
