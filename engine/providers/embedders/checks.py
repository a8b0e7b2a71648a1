"""Whether what a provider answered are the vectors that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol import limits
from jiyi.protocol.wire.vectors import Float32


def unit_rows(rows: Sequence[Any], count: int, dimensions: int | None, who: str) -> Float32:
    """The rows as float32 of shape ``(count, dimensions)``, each of length 1.

    ``dimensions`` is what the model's vectors had so far, None for the first ones; ``who`` is for the message.

    Raises:
        EmbeddingUnavailable: they are fewer or more, of another size, no numbers, not finite, or zero.
    """
    if len(rows) != count:
        raise EmbeddingUnavailable(f"{who} answered {len(rows):,} vectors for {count:,} texts: nothing of it is stored")
    try:
        with np.errstate(over="ignore"):
            made = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EmbeddingUnavailable(f"{who} answered vectors of different sizes, or no numbers: nothing is stored") from None
    most = limits.MAX_VECTOR_DIMENSIONS
    if made.ndim != 2 or not 1 <= made.shape[1] <= most:
        raise EmbeddingUnavailable(f"{who} answered something of the shape {made.shape}; a vector has 1 to {most:,} values")
    if dimensions is not None and made.shape[1] != dimensions:
        raise EmbeddingUnavailable(
            f"{who} answered vectors of {made.shape[1]:,} values, its vectors so far have {dimensions:,}: another model goes "
            "by its name now. Nothing is stored; correct JIYI_EMBEDDER, or move to the new model with `jiyi reembed --to`"
        )
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbeddingUnavailable(f"{who} answered values that are not finite, or only zeros: nothing of it is stored")
    unit: Float32 = (made / lengths).astype(np.float32)
    return unit
