"""Vectors that come with the events and the questions: nothing is embedded here."""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.wire.vectors import Float32


class PrecomputedEmbedder:
    """Whoever sends events embeds them, and questions too. What comes without a vector stays owed, and says why."""

    dimensions = None

    def __init__(self, model: str) -> None:
        self.model = model

    def passages(self, texts: Sequence[str]) -> Float32:
        raise EmbeddingUnavailable(
            f"{len(texts):,} memories came without a vector, and JIYI_EMBEDDER=precomputed:{self.model} makes none: send "
            f"vector and embedding_model={self.model!r} with the events, or move to an embedder with `jiyi reembed --to`"
        )

    def query(self, text: str) -> Float32:  # noqa: ARG002 - the protocol's
        raise EmbeddingUnavailable(
            f"JIYI_EMBEDDER=precomputed:{self.model} embeds no questions: give vectors and embedding_model with the request"
        )

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.query("\n".join(texts))
