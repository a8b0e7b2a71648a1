"""The answer to a question to a store, whatever its type; what is written to a mem0 store is sent to it, what is asked, asked there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from engine.retrieval.corpus import Rows
from engine.stores import devall
from engine.stores.devall import Mem0
from engine.stores.items import Scores, Search, best, key_content, score
from jiyi.errors import ProviderUnavailable, SettingsError
from jiyi.protocol import limits
from jiyi.protocol.stores import FoundStoreItems, Hit, MemoryItem, RetrieveItems
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.types import Mem0MemoryConfig
from models.db.actions import Actor
from models.db.connection import reading, unit_of_work
from models.stores import actions, items, rows
from models.stores.backends import SEND_ITEM, forget_sent, items_to_send
from models.stores.reads import StoreIndex, index_of
from models.stores.rows import StoreRecord
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task
from tasks.stores.embedding import StoreEmbedder, embedder_of_store

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
    with reading() as connection:
        latest = items.latest(connection, store, request.top_k)
        return FoundStoreItems(hits=[Hit(item=items.item_of(connection, row)) for row in reversed(latest)])


def _search_items(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """A simple store's items that fit best, by the part of the question that counts."""
    if store.config.fidelity == "devall":
        return _search_index(store, request, devall.query_text(request.query), "dense")
    return _search_index(store, request, key_content(request.query, store.config.max_content_length), "hybrid")


def _search_files(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """The chunks of a store of files that fit best."""
    text = request.query[: limits.MAX_FOCAL_CHARS]
    if not text.strip():  # nothing is asked, and any chunk would be as near as any other
        return FoundStoreItems(hits=[])
    return _search_index(store, request, text, request.search or store.config.search)


def _search_index(store: StoreRecord, request: RetrieveItems, text: str, by: Search) -> FoundStoreItems:
    """The items that fit best, best first. While the embedder is away words alone count, and a note says so."""
    embedder, query, notes = _query(store, text, by)
    with unit_of_work() as connection:
        index = index_of(connection, store, "" if embedder is None else embedder.model, None if query is None else query.size)
    if index.skipped:
        log.warning("store %s: %d items have vectors of another model or size; words alone find them", store.store_id, index.skipped)
    if not index.items.corpus.has_vector.any():  # none that the question's could be compared with
        query = None
    embed = None if embedder is None or query is None else embedder.query
    with index.lock:
        scores = score(index.items, text, query, embed, datetime.now(UTC), by)
    with reading() as connection:
        if getattr(store.config, "fidelity", "jiyi") == "devall":
            hits = _hits_of_original(connection, store, request, text, index, scores)
        else:
            chosen = best(index.items, scores, request.top_k, request.similarity_threshold)
            hits = _hits(connection, store, index, scores, chosen)
    return FoundStoreItems(hits=hits, skipped=index.skipped, pending=index.pending, notes=notes)


def _query(store: StoreRecord, text: str, by: Search) -> tuple[StoreEmbedder | None, Float32 | None, list[str]]:
    """The store's embedder, the question's vector, and a note where that could not be made."""
    embedder: StoreEmbedder | None = None
    try:
        with reading() as connection:
            embedder = embedder_of_store(connection, store)
        wanted = embedder is not None and by != "lexical" and bool(text.strip())
        return embedder, embedder.query(text) if embedder is not None and wanted else None, []
    except (ProviderUnavailable, SettingsError) as error:
        return embedder, None, [f"searched by words: {error}"]


def _hits(connection: Connection, store: StoreRecord, index: StoreIndex, scores: Scores, chosen: Rows) -> list[Hit]:
    positions = index.positions[chosen].tolist()
    stored = items.by_positions(connection, store, positions)  # without those that went meanwhile
    return [
        Hit(
            item=items.item_of(connection, stored[position]),
            score=float(scores.total[row]),
            cosine=_cosine(index, scores, int(row)),
            parts={"lexical": float(scores.lexical[row])},
        )
        for row, position in zip(chosen, positions, strict=True)
        if position in stored
    ]


def _hits_of_original(
    connection: Connection, store: StoreRecord, request: RetrieveItems, text: str, index: StoreIndex, scores: Scores
) -> list[Hit]:
    """The nearest items, and those without a vector that share words, in the original's order (:mod:`engine.stores.devall`)."""
    near = best(index.items, scores, devall.CANDIDATES * request.top_k, request.similarity_threshold)
    positions = index.positions[near].tolist()
    stored = items.by_positions(connection, store, positions)
    hits: list[Hit] = []
    for row, position in zip(near, positions, strict=True):
        if position in stored:
            cosine, like = _cosine(index, scores, int(row)), devall.likeness(text, stored[position].content_summary)
            item = items.item_of(connection, stored[position])
            hits.append(Hit(item=item, score=devall.score(cosine, like), cosine=cosine, parts=like.parts))
    return sorted(hits, key=lambda hit: -(hit.score or 0))[: request.top_k]


def _cosine(index: StoreIndex, scores: Scores, row: int) -> float | None:
    """None: there was nothing to compare."""
    return None if scores.cosine is None or not index.items.corpus.has_vector[row] else float(scores.cosine[row])


@work_task(SEND_ITEM, batch=20, time_limit=100)
def send_items(batch: Batch) -> None:
    """Send what was written to mem0 stores, in order; what cannot be sent waits.

    Safe to repeat because what was sent is no longer there. If a worker dies between mem0's answer and its note of it, mem0 gets
    the text twice, and merges what it knows by itself.
    """
    with unit_of_work() as connection:
        waiting = items_to_send(connection, batch.subject_ids)
        stores = rows.by_ids(connection, [item.store_id for item in waiting])
    done, away = [], {}
    for item in waiting:
        if item.store_id in away:
            continue
        try:
            _account(stores[item.store_id]).add(item.content)
            done.append(item)
        except ProviderUnavailable as error:
            away[item.store_id] = str(error)
    for store_id, reason in away.items():
        batch.put_off([item.item_id for item in waiting if item.store_id == store_id and item not in done], reason)
    with batch.finish() as (connection, _):
        forget_sent(connection, done)


def search_mem0(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """What mem0 finds; nothing, and why, if it does not answer."""
    try:
        hits = _account(store).search(request.query, request.top_k, request.similarity_threshold)
    except ProviderUnavailable as error:
        return FoundStoreItems(hits=[], notes=[str(error)])
    return FoundStoreItems(hits=[_hit(row) for row in hits[: request.top_k]])


def _account(store: StoreRecord) -> Mem0:
    config: Mem0MemoryConfig = store.config
    assert config.api_key is not None, "it was checked"
    return Mem0(config.base_url, config.api_key, config.user_id, config.agent_id)


def _hit(row: Mapping[str, Any]) -> Hit:
    score = row.get("score")
    metadata = row["metadata"] if isinstance(row.get("metadata"), dict) else {}
    item = MemoryItem(
        id=str(row.get("id", "")), content_summary=str(row.get("memory", row.get("text", ""))), metadata=metadata, timestamp=_time(row)
    )
    return Hit(item=item, score=float(score) if isinstance(score, int | float) else None)


def _time(row: Mapping[str, Any]) -> float:
    given = row.get("updated_at") or row.get("created_at")
    try:
        return datetime.fromisoformat(str(given)).timestamp()
    except ValueError:
        return time.time()


#: Type → what searches its stores. Each opens connections of its own.
_SEARCHES: Mapping[str, Callable[[StoreRecord, RetrieveItems], FoundStoreItems]] = {
    "simple": _search_items,
    "blackboard": _latest,
    "file": _search_files,
    "mem0": search_mem0,
}
