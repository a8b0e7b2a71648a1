"""Embedders: what turns texts into vectors. One protocol, chosen by ``JIYI_EMBEDDER``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from jiyi.settings import get_settings
from jiyi.vectors import Float32


class Embedder(Protocol):
    """Thread-safe. Vectors are float32 of length 1; queries and passages may be embedded differently."""

    #: Stored with every vector; vectors of different models are never compared.
    model: str
    dimensions: int

    def passages(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dimensions)`` for texts to be found. Raises :class:`EmbeddingUnavailable`."""
        ...

    def query(self, text: str) -> Float32:
        """``(dimensions,)`` for a text to search with. Raises :class:`EmbeddingUnavailable`."""
        ...


@lru_cache(maxsize=1)
def embedder() -> Embedder:
    """This process's embedder; loading a model takes a moment, so it happens once, on first use."""
    settings = get_settings()
    if settings.embedder == "hashing":
        from jiyi.embedders.hashing import HashingEmbedder

        return HashingEmbedder(settings.hashing_dimensions)
    from jiyi.embedders.local import LocalEmbedder

    return LocalEmbedder()
