"""What is written to a mem0 store is sent to it; what is asked, asked there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engine.providers.mem0 import Mem0
from jiyi.errors import ProviderUnavailable
from jiyi.protocol.stores import FoundStoreItems, Hit, MemoryItem, RetrieveItems
from jiyi.stores.types import Mem0MemoryConfig
from models.db.connection import unit_of_work
from models.stores import rows
from models.stores.backends import SEND_ITEM, forget_sent, items_to_send
from models.stores.rows import StoreRecord
from tasks.framework.work import Batch, work_task


@work_task(SEND_ITEM, batch=20, time_limit=100)
def send_items(batch: Batch) -> None:
    """Send what was written to mem0 stores, in order; what cannot be sent waits.

    Safe to repeat because what was sent is no longer there. If a worker dies between mem0's answer and its note of it, mem0 gets
    the text twice, and merges what it knows by itself.
    """
    with unit_of_work() as connection:
        waiting = items_to_send(connection, batch.subject_ids)
        stores = rows.by_ids(connection, [one.store_id for one in waiting])
    done, away = [], {}
    for one in waiting:
        if one.store_id in away:
            continue
        try:
            _account(stores[one.store_id]).add(one.content)
            done.append(one)
        except ProviderUnavailable as error:
            away[one.store_id] = str(error)
    for store_id, reason in away.items():
        batch.put_off([one.item_id for one in waiting if one.store_id == store_id and one not in done], reason)
    with batch.finish() as (connection, _):
        forget_sent(connection, done)


def search(store: StoreRecord, request: RetrieveItems) -> FoundStoreItems:
    """What mem0 finds; nothing, and why, if it does not answer."""
    try:
        found = _account(store).search(request.query, request.top_k, request.similarity_threshold)
    except ProviderUnavailable as error:
        return FoundStoreItems(hits=[], notes=[str(error)])
    return FoundStoreItems(hits=[_hit(row) for row in found[: request.top_k]])


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
