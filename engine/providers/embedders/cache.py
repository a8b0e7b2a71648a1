"""Vectors of questions that were asked before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from engine.providers.embedders import Embedder
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings

_known: OrderedDict[tuple[str, str], Float32] = OrderedDict()
_lock = Lock()


def forget() -> int:
    """Forget all questions: they may name whom an erasure is about. Returns how many."""
    with _lock:
        count = len(_known)
        _known.clear()
    return count


def remembered(model: str, texts: Sequence[str]) -> dict[str, Float32] | None:
    """The texts' vectors by that model, if all of them were asked for lately; nothing is embedded."""
    with _lock:
        if any((model, text) not in _known for text in texts):
            return None
        for text in texts:
            _known.move_to_end((model, text))
        return {text: _known[model, text] for text in texts}


def query_vector(embedder: Embedder, text: str) -> Float32:
    """The vector to search with, from memory if it was asked for lately. Raises :class:`EmbeddingUnavailable`."""
    return query_vectors(embedder, [text])[text]


def query_vectors(embedder: Embedder, texts: Sequence[str]) -> dict[str, Float32]:
    """Each text's vector, those not asked for lately in one call. Raises :class:`EmbeddingUnavailable`."""
    found: dict[str, Float32] = {}
    with _lock:
        for text in texts:
            key = (embedder.model, text)
            if key in _known:
                _known.move_to_end(key)
                found[text] = _known[key]
    missing = list(dict.fromkeys(text for text in texts if text not in found))
    if not missing:
        return found
    made = dict(zip(missing, embedder.queries(missing), strict=True))
    with _lock:
        for text, vector in made.items():
            _known[embedder.model, text] = vector
        while len(_known) > get_settings().query_cache:
            _known.popitem(last=False)
    return found | made
