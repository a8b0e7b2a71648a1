"""The agent indexes of one retrieval worker, bounded by bytes: the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from jiyi.settings import get_settings
from models.index import AgentIndex, Keyed

_indexes: OrderedDict[Keyed, AgentIndex] = OrderedDict()
_lock = Lock()


def index_of(group_id: str, agent_id: str, model: str, *, archived: bool = False) -> AgentIndex:
    """The index of an agent's memories; new and empty if there is none: refresh it under its lock."""
    key = Keyed(group_id, agent_id, model, archived)
    with _lock:
        index = _indexes.get(key)
        if index is None:
            index = _indexes[key] = AgentIndex(key)
        _indexes.move_to_end(key)
        return index


def make_room() -> None:
    """Drop the least recently used indexes until the rest fit. The most recent one stays, however large it is."""
    with _lock:
        used = sum(index.bytes_used for index in _indexes.values())
        while used > get_settings().index_max_bytes and len(_indexes) > 1:
            _, oldest = _indexes.popitem(last=False)
            used -= oldest.bytes_used


def held() -> list[tuple[Keyed, int, int]]:
    """What there is: (of what, rows, bytes), least recently used first."""
    with _lock:
        return [(key, index.size, index.bytes_used) for key, index in _indexes.items()]


def forget_all() -> None:
    with _lock:
        _indexes.clear()
