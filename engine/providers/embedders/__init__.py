"""Embedders: what turns texts into vectors. One protocol; ``JIYI_EMBEDDER`` chooses the first one of a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.once import once, once_each
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings

#: Embedders that one process keeps: the one in use, and the next one while a deployment moves.
KEPT = 4


class Embedder(Protocol):
    """Thread-safe. Vectors are float32 of length 1; queries and passages may be embedded differently."""

    #: Stored with every vector; vectors of different models are never compared.
    model: str

    @property
    def dimensions(self) -> int | None:
        """Values of a vector; None where that is not known before the first answer."""
        ...

    def passages(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dimensions)`` for texts to be found.

        Raises:
            EmbeddingUnavailable: the provider is away, too slow, refuses, or answers something unusable.
            TextRefused: the provider works, but refuses one of these texts.
        """
        ...

    def query(self, text: str) -> Float32:
        """``(dimensions,)`` for a text to search with. Raises :class:`EmbeddingUnavailable`."""
        ...

    def queries(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dimensions)`` for texts to search with, in one call. Raises :class:`EmbeddingUnavailable`."""
        ...


@once
def embedder() -> Embedder:
    """The embedder that the settings name: what a deployment begins with. See :func:`embedder_of`.

    Raises:
        SettingsError: they name none.
        EmbeddingUnavailable: a package that it needs is missing.
    """
    from engine.providers.embedders.choice import chosen

    return embedder_of(str(chosen(get_settings())))


@once_each(KEPT)
def embedder_of(spec: str) -> Embedder:
    """The embedder of this name. Loading a model takes a moment, so a process does it once, on first use.

    Raises:
        EmbeddingUnavailable: it cannot be had with these settings or packages; what is owed waits until it can.
    """
    from engine.providers.embedders.factory import make

    try:
        return make(spec, get_settings(), embedder_of)
    except SettingsError as error:
        raise EmbeddingUnavailable(f"{spec}, which embeds this deployment's memories, cannot be used: {error}") from None
