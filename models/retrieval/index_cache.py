"""The agent indexes of one retrieval worker, bounded by bytes: the least recently used go first.

Each worker reports its indexes to Valkey now and then, for monitoring of the service from outside.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import OrderedDict
from collections.abc import Collection
from datetime import datetime
from threading import Lock
from typing import cast

from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.valkey import valkey
from models.retrieval.agent_index import AgentIndex, IndexKey

#: Seconds between two reports of a worker that is at work, and after which one that is not is forgotten.
REPORT_EVERY, REPORT_LIVES = 5.0, 300

_indexes: OrderedDict[IndexKey, AgentIndex] = OrderedDict()
#: What each took when it was measured last, and those used since: of thousands only these are measured again.
_bytes: dict[IndexKey, int] = {}
_used: set[IndexKey] = set()
_lock = Lock()
_reported_at = 0.0
#: When the model that was active at the last look became so.
_followed: datetime | None = None


def index_of(key: IndexKey) -> AgentIndex:
    """The index of an agent's memories; new and empty if there is none: refresh it under its lock."""
    with _lock:
        index = _indexes.get(key)
        if index is None:
            index = _indexes[key] = AgentIndex(key)
        _indexes.move_to_end(key)
        _used.add(key)
        return index


def has(key: IndexKey) -> bool:
    """Whether there is an index of it that has something."""
    with _lock:
        index = _indexes.get(key)
        return index is not None and index.size > 0


def used(index: AgentIndex) -> None:
    """It was read from, and may have grown by that."""
    with _lock:
        _used.add(index.key)


def follow(model: str, since: datetime) -> None:
    """Drop the indexes of a model that has become the active one since the last look.

    Its vectors were filled in beside the nodes, which are not changed by that: an index from before, of a
    model that was active once, would not notice.
    """
    global _followed  # noqa: PLW0603 – one of each process
    with _lock:
        if _followed is None or since > _followed:
            _followed = since
            for key in [key for key in _indexes if key.model == model]:
                _drop(key)


def make_room() -> None:
    """Drop the least recently used indexes until the rest fit. The most recent one stays."""
    with _lock:
        _bytes.update({key: _indexes[key].bytes_used for key in _used if key in _indexes})
        _used.clear()
        total = sum(_bytes.values())
        while total > get_settings().index_max_bytes and len(_indexes) > 1:
            oldest = next(iter(_indexes))
            total -= _bytes.get(oldest, 0)
            _drop(oldest)


def held() -> list[tuple[IndexKey, int, int]]:
    """What there is: (of what, rows, bytes), least recently used first."""
    with _lock:
        return [(key, index.size, index.bytes_used) for key, index in _indexes.items()]


def report() -> None:
    """Report this worker's indexes, if it has not done so lately."""
    global _reported_at  # noqa: PLW0603 – one of each process
    if time.monotonic() - _reported_at < REPORT_EVERY:
        return
    _reported_at = time.monotonic()
    indexes = held()
    usage = {
        "indexes": len(indexes),
        "memories": sum(rows for _, rows, _ in indexes),
        "bytes": sum(used for *_, used in indexes),
        "limit_bytes": get_settings().index_max_bytes,
    }
    valkey().set(valkey_keys.indexes(f"{platform.node()}:{os.getpid()}"), json.dumps(usage), ex=REPORT_LIVES)


def reports() -> dict[str, dict[str, int]]:
    """The last report of each worker: worker → indexes, memories, bytes, and the most bytes it may use."""
    names = sorted(cast("list[bytes]", list(valkey().scan_iter(valkey_keys.indexes("*"), count=1_000))))
    entries = [(name, cast("bytes | None", valkey().get(name))) for name in names]
    return {
        name.decode().removeprefix(valkey_keys.indexes("")): json.loads(report_of)
        for name, report_of in entries
        if report_of is not None
    }


def forget(group_id: str, agent_ids: Collection[str]) -> dict[str, int]:
    """Drop these agents' indexes, and what is remembered of their memories; returns how much."""
    with _lock:
        dropped = [
            _drop(key) for key in list(_indexes) if key.group_id == group_id and key.agent_id in agent_ids
        ]
    return {"indexes": len(dropped), "memories": sum(index.size for index in dropped)}


def forget_all() -> None:
    with _lock:
        for key in list(_indexes):
            _drop(key)


def _drop(key: IndexKey) -> AgentIndex:
    _bytes.pop(key, None)
    return _indexes.pop(key)
