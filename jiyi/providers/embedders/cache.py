"""Vectors of questions that were asked before."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from jiyi.protocol.wire.vectors import Float32
from jiyi.providers.embedders import Embedder
from jiyi.settings import get_settings

_known: OrderedDict[tuple[str, str], Float32] = OrderedDict()
_lock = Lock()


def forget() -> int:
    """Forget all questions: they may name whom an erasure is about. Returns how many."""
    with _lock:
        count = len(_known)
        _known.clear()
    return count


def query_vector(embedder: Embedder, text: str) -> Float32:
    """The vector to search with, from memory if it was asked for lately. Raises :class:`EmbeddingUnavailable`."""
    key = (embedder.model, text)
    with _lock:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    vector = embedder.query(text)
    with _lock:
        _known[key] = vector
        while len(_known) > get_settings().query_cache:
            _known.popitem(last=False)
    return vector
