"""One vector for a text that is longer than an embedding model reads at once. Punctuation stays, and every result has length 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.config.embedding import ChunkStrategy, EmbeddingParams

#: Pieces of one text that are embedded; what follows counts no more.
MAX_PIECES = 64


def pieces(text: str, params: EmbeddingParams) -> list[str]:
    """What of a text is embedded: its beginning, or pieces of half of ``max_length`` each."""
    if not params.use_chunking or len(text) <= params.max_length:
        return [text[: params.max_length]]
    size = params.max_length // 2
    found = [text[start : start + size] for start in range(0, min(len(text), size * MAX_PIECES), size)]
    return found[:1] if params.chunk_strategy == "first" else found


def combine(vectors: Float32, strategy: ChunkStrategy) -> Float32:
    """The vector of a text from those of its pieces, of length 1 again."""
    if strategy == "first" or len(vectors) == 1:
        joined = vectors[0]
    elif strategy == "weighted":
        joined = np.average(vectors, axis=0, weights=[1 / (place + 1) for place in range(len(vectors))])
    else:
        joined = vectors.mean(axis=0)
    length = float(np.linalg.norm(joined))
    if not np.isfinite(length) or length == 0:
        raise ValueError("the pieces' vectors add up to nothing")
    result: Float32 = (joined / length).astype(np.float32)
    return result


def embed(texts: Sequence[str], params: EmbeddingParams, passages: Callable[[Sequence[str]], Float32]) -> Float32:
    """A vector for each text, all pieces in one call."""
    parts = [pieces(text, params) for text in texts]
    made = passages([one for several in parts for one in several])
    ends = np.cumsum([len(several) for several in parts])
    starts = [0, *ends[:-1]]
    return np.stack([combine(made[start:end], params.chunk_strategy) for start, end in zip(starts, ends, strict=True)])


def model_name(model: str, params: EmbeddingParams) -> str:
    """The name that goes with vectors: texts cut in other ways have other vectors."""
    if not params.use_chunking:
        return model
    return f"{model}+{params.chunk_strategy}{params.max_length}"
