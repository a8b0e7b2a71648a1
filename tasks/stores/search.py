"""The answer to a question to a store, whatever its type, and the vectors of its items; mem0 stores are asked
and written.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from engine.providers.embedder_specs import Embedder, sized, texts_aside
from engine.providers.embedders import own_embedder
from engine.retrieval.corpus import Rows
from engine.stores import devall
from engine.stores.devall import Mem0Account
from engine.stores.items import (
    ItemScores,
    Search,
    best,
    embed,
    key_content,
    model_name,
    score,
    without_labels,
)
from jiyi.errors import ProviderUnavailable, SettingsError
from jiyi.protocol import limits
from jiyi.protocol.stores import FoundStoreItems, Hit, MemoryItem, RetrieveItems
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.stores.types import EmbeddingConfig, EmbeddingParams, Mem0MemoryConfig
from models.db.actions import Actor
from models.db.connection import reading, unit_of_work
from models.operations import embedding_models
from models.stores import actions, items, rows
from models.stores.backends import SEND_ITEM
from models.stores.items import EMBED_ITEMS, PendingItem, vendor
from models.stores.reads import StoreIndex, index_of
from models.stores.rows import StoreRecord
from tasks.framework.embedding import in_use
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task

log = logging.getLogger(__name__)


@implements(actions.retrieve)
def retrieve(actor: Actor, request: RetrieveItems) -> FoundStoreItems:
    """Search a store. Safe to repeat because it only notes that the store is used."""
    with unit_of_work() as connection:
        store = rows.need(connection, actor.group_id, request.name, request.run_id)
        rows.touch(connection, store.store_id)
    return search(store, request)


def search(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """What a store has for a question, in the scope of its group."""
    return _SEARCHES[store.type](store, request)


def _latest(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """A blackboard's latest ``top_k``, oldest first, whatever is asked."""
    hours = store.config.max_age_hours
    since = None if hours is None else datetime.now(UTC) - timedelta(hours=hours)
    with reading() as connection:
        latest = items.latest(connection, store, request.top_k, since=since)
        return FoundStoreItems(hits=[Hit(item=items.item_of(connection, row)) for row in reversed(latest)])


def _search_items(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """A simple store's items that fit best, by the part of the question that counts."""
    if store.config.fidelity == "devall":
        return _search_index(store, request, devall.query_text(request.query), "dense")
    return _search_index(
        store, request, key_content(request.query, store.config.max_content_length), "hybrid"
    )


def _search_files(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """The chunks of a store of files that fit best."""
    text = request.query[: limits.MAX_FOCAL_CHARS]
    if not text.strip():  # nothing is asked, and any chunk would be as near as any other
        return FoundStoreItems(hits=[])
    return _search_index(store, request, text, request.search or store.config.search)


def _search_index(store: StoreRecord, request: RetrieveItems, text: str, by: Search) -> FoundStoreItems:
    """The best items, best first. While the embedder is away words alone count, and a note says so."""
    embedder, query, notes = _query(store, text, by)
    with unit_of_work() as connection:
        model = "" if embedder is None else embedder.model
        index = index_of(connection, store, model, None if query is None else query.size)
    if index.skipped:
        log.warning("store %s: %d items have vectors of another model or size", store.store_id, index.skipped)
    if not index.items.corpus.has_vector.any():  # none that the question's could be compared with
        query = None
    embed = None if embedder is None or query is None else embedder.query
    original = getattr(store.config, "fidelity", "jiyi") == "devall"
    most = devall.CANDIDATES * request.top_k if original else request.top_k
    with index.lock:
        scores = score(index.items, text, query, embed, datetime.now(UTC), by)
    chosen = best(index.items, scores, most, request.similarity_threshold)
    with reading() as connection:
        hits = _hits(connection, store, index, scores, chosen, text if original else None)
    if original:
        hits = sorted(hits, key=lambda hit: -(hit.score or 0))[: request.top_k]
    return FoundStoreItems(hits=hits, skipped=index.skipped, pending=index.pending, notes=notes)


def _query(
    store: StoreRecord, text: str, by: Search
) -> tuple[StoreEmbedder | None, Float32 | None, list[str]]:
    """The store's embedder, the question's vector, and a note where that could not be made."""
    embedder: StoreEmbedder | None = None
    try:
        with reading() as connection:
            embedder = embedder_of_store(connection, store)
        needs_vector = embedder is not None and by != "lexical" and bool(text.strip())
        return embedder, embedder.query(text) if embedder is not None and needs_vector else None, []
    except (ProviderUnavailable, SettingsError) as error:
        return embedder, None, [f"searched by words: {error}"]


def _hits(
    connection: Connection,
    store: StoreRecord,
    index: StoreIndex,
    scores: ItemScores,
    chosen: Rows,
    original: str | None,
) -> list[Hit]:
    """The items of these rows that are still there; ``original``: scored for this question as DevAll does."""
    positions = index.positions[chosen].tolist()
    item_rows = items.by_positions(connection, store, positions)
    hits = []
    for row, position in zip(chosen, positions, strict=True):
        if position not in item_rows:
            continue
        item = items.item_of(connection, item_rows[position])
        compared = scores.cosine is not None and index.items.corpus.has_vector[row]
        cosine = float(scores.cosine[row]) if scores.cosine is not None and compared else None
        total, parts = float(scores.total[row]), {"lexical": float(scores.lexical[row])}
        if original is not None:
            similarity = devall.word_similarity(original, item.content_summary)
            total, parts = devall.score(cosine, similarity), asdict(similarity)
        hits.append(Hit(item=item, score=total, cosine=cosine, parts=parts))
    return hits


@work_task(SEND_ITEM, batch=20, time_limit=100)
def send_items(batch: Batch) -> None:
    """Send what was written to mem0 stores, in order; what cannot be sent waits.

    Safe to repeat because what was sent is no longer there. If a worker dies between mem0's answer and its
    note of it, mem0 gets the text twice, and merges what it knows on its own.
    """
    sent_items, away = [], []
    for store, waiting in _pending_by_store(batch):
        for place, item in enumerate(waiting):
            try:
                _account(store).add(item.content)
            except ProviderUnavailable as error:
                away.append((str(error), waiting[place:]))
                break
            sent_items.append(item)
    for reason, remaining in away:
        batch.put_off([item.item_id for item in remaining], reason)
    with batch.finish() as (connection, _):
        items.delete(connection, sent_items)


def search_mem0(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """What mem0 finds; nothing, and why, if it does not answer."""
    try:
        hits = _account(store).search(request.query, request.top_k, request.similarity_threshold)
    except ProviderUnavailable as error:
        return FoundStoreItems(hits=[], notes=[str(error)])
    return FoundStoreItems(hits=[_hit(row) for row in hits[: request.top_k]])


def _account(store: StoreRecord) -> Mem0Account:
    config: Mem0MemoryConfig = store.config
    assert config.api_key is not None, "it was checked"
    return Mem0Account(config.base_url, config.api_key, config.user_id, config.agent_id)


def _hit(row: Mapping[str, Any]) -> Hit:
    score = row.get("score")
    try:
        at = datetime.fromisoformat(str(row.get("updated_at") or row.get("created_at"))).timestamp()
    except ValueError:
        at = time.time()
    item = MemoryItem(
        id=str(row.get("id", "")),
        content_summary=str(row.get("memory", row.get("text", ""))),
        metadata=row["metadata"] if isinstance(row.get("metadata"), dict) else {},
        timestamp=at,
    )
    return Hit(item=item, score=float(score) if isinstance(score, int | float) else None)


@dataclass(slots=True)
class _OfStore:
    """A store's items of a batch, and their vectors by their contents' hashes."""

    embedder: StoreEmbedder
    items: list[PendingItem]
    vectors: dict[bytes, Float32]


@work_task(EMBED_ITEMS, batch=texts_aside(get_settings()), time_limit=90, gives_way=True)
def embed_items(batch: Batch) -> None:
    """Embed items of stores by their stores' embedders; what a store has for the same content is copied.

    A store whose embedder is away waits, the others go on.

    Safe to repeat because an item that is gone, or whose store has no embedder, is skipped, and a vector that
    is there already is written again unchanged.
    """
    stores: dict[UUID, _OfStore] = {}
    for store, pending_items in _pending_by_store(batch):
        try:
            own = _embed(store, pending_items)
        except (ProviderUnavailable, SettingsError) as error:
            batch.put_off([item.item_id for item in pending_items], str(error))
            continue
        if own is not None:
            stores[store.store_id] = own
    with batch.finish() as (connection, pending):
        for store_id, own in sorted(stores.items()):
            if own.vectors:
                own.embedder.hold(connection, len(next(iter(own.vectors.values()))))
            mine = [item for item in own.items if item.item_id in pending]
            new = {
                one.item_id: own.vectors[one.content_hash] for one in mine if one.content_hash in own.vectors
            }
            same = [item.item_id for item in mine if item.item_id not in new]
            items.embed(connection, store_id, new, same, own.embedder.model)
        models = {store_id: own.embedder.model for store_id, own in stores.items()}
        batch.again.extend(items.without(connection, pending, models))


def _pending_by_store(batch: Batch) -> list[tuple[StoreRecord, list[PendingItem]]]:
    by_store: dict[UUID, list[PendingItem]] = defaultdict(list)
    with unit_of_work() as connection:
        for item in items.pending_items(connection, batch.subject_ids):
            by_store[item.store_id].append(item)
        return [
            (store, by_store[store_id]) for store_id, store in rows.by_ids(connection, list(by_store)).items()
        ]


def _embed(store: StoreRecord, pending_items: list[PendingItem]) -> _OfStore | None:
    """Each content that the store has no vector for is embedded once; None: the store has no embedder."""
    with unit_of_work() as connection:
        embedder = embedder_of_store(connection, store)
        if embedder is None:
            return None
        hashes = [item.content_hash for item in pending_items]
        embedded_hashes = items.known(connection, store.store_id, hashes, embedder.model)
    missing = {
        item.content_hash: without_labels(item.content)
        for item in pending_items
        if item.content_hash not in embedded_hashes
    }
    vectors = embedder.passages(list(missing.values())) if missing else ()
    return _OfStore(embedder, pending_items, dict(zip(missing, vectors, strict=True)))


@dataclass(frozen=True, slots=True)
class StoreEmbedder:
    """Makes the vectors of a store's items and questions."""

    embedder: Embedder
    params: EmbeddingParams
    #: The deployment's name of it; empty for a store's own.
    spec: str

    @property
    def model(self) -> str:
        """Stored with every vector: of another model, or of texts cut in another way, none is compared."""
        return model_name(self.embedder.model, self.params)

    def passages(self, texts: Sequence[str]) -> Float32:
        return embed(texts, self.params, self.embedder.passages)

    def query(self, text: str) -> Float32:
        return self.embedder.query(text[: self.params.max_length])

    def hold(self, connection: Connection, dimensions: int) -> None:
        """Before storing vectors: the deployment's model stays the active one in this transaction."""
        if self.spec:
            embedding_models.hold(connection, self.embedder.model, self.spec, dimensions)


def embedder_of_store(connection: Connection, store: StoreRecord) -> StoreEmbedder | None:
    """None: it has none. Raises ``EmbeddingUnavailable`` or ``SettingsError``."""
    config: EmbeddingConfig | None = getattr(store.config, "embedding", None)
    if config is None:
        return None
    if config.provider == "deployment":
        embedder, spec = in_use(connection)
        return StoreEmbedder(embedder, config.params, spec)
    key = "" if config.api_key is None else config.api_key.get_secret_value()
    name = config.params.model_path or config.model if config.provider == "local" else config.model
    engine = own_embedder(
        vendor(config), name, config.params.dimensions, config.base_url or "", key, store.group_id
    )
    size = items.vector_size(connection, store.store_id, model_name(engine.model, config.params))
    return StoreEmbedder(sized(engine, size), config.params, "")


#: Type → what searches its stores. Each opens connections of its own.
_SEARCHES: Mapping[str, Callable[[StoreRecord, RetrieveItems], FoundStoreItems]] = {
    "simple": _search_items,
    "blackboard": _latest,
    "file": _search_files,
    "mem0": search_mem0,
}
