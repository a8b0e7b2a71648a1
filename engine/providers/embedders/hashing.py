"""Vectors from hashed words and character pairs: instant and deterministic, for tests and load only.

Texts that share words get similar vectors, which is all that a test of the machinery needs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import normalise


class HashingEmbedder:
    """Signed feature hashing of words and character bigrams (Weinberger et al. 2009)."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.model = f"hashing-{dimensions}"

    def passages(self, texts: Sequence[str]) -> Float32:
        return np.stack([self.query(text) for text in texts]) if texts else np.empty((0, self.dimensions), np.float32)

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.passages(texts)

    def query(self, text: str) -> Float32:
        folded = normalise(text)
        features = folded.split() + [folded[i : i + 2] for i in range(len(folded) - 1)] or [folded]
        hashes = np.fromiter((zlib.crc32(feature.encode()) for feature in features), dtype=np.int64)
        vector = np.zeros(self.dimensions, dtype=np.float32)
        # The top bit gives the sign, so that collisions cancel on average instead of adding up.
        np.add.at(vector, hashes % self.dimensions, np.where(hashes >> 31, 1.0, -1.0))
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:  # everything cancelled: still a direction of its own
            vector[hashes[0] % self.dimensions] = norm = 1.0
        return vector / np.float32(norm)
