"""How much memories are about the same thing, whatever language each is in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jiyi.protocol.wire.vectors import Float32
from jiyi.retrieval.scoring import MIN_NORM, Floats

#: Memories of a language as many as which its own mean is trusted as much as that of all languages.
LANGUAGE_PRIOR = 5.0
#: Codes of languages: Chinese, and anything else.
LANGUAGES = 2


def language_sums(vectors: Float32, lengths: Floats, rows: NDArray[np.intp], languages: NDArray[np.int8]) -> Float32:
    """The sums of some rows, each made one long, by language: ``(LANGUAGES, d)``. Rows without a length must not be among them."""
    weights = np.zeros((LANGUAGES, len(vectors)), dtype=np.float32)
    weights[languages[rows], rows] = 1 / lengths[rows]
    return np.asarray(weights @ vectors, dtype=np.float32)


def alike(unit: Floats, languages: NDArray[np.integer], sums: Floats, counts: NDArray[np.int64]) -> Floats:
    """Cosine of each of ``k`` memories with each, without what is common to all memories of its language: ``(k, k)``.

    Embeddings of one language share a direction of their own: without it, what says the same in two languages is
    alike, too. The common part of a pair is the mean of all others but these two: of few memories they would be much of
    it, and what they share would go with it. A language with few memories is judged by all of them.

    Args:
        unit: the memories' vectors, each one long, ``(k, d)``.
        languages: their codes, ``(k,)``.
        sums: of all of the agent's vectors, each one long, by language, ``(LANGUAGES, d)``.
        counts: of how many, ``(LANGUAGES,)``.
    """
    size, languages = len(unit), languages.astype(np.intp)
    same = languages[:, None] == languages
    own = 1 / (np.maximum(counts[languages][:, None] - 1 - same, 0) + LANGUAGE_PRIOR)
    # A memory without its common part, in coordinates: how much of each of the memories, and of each language's sum.
    within: Floats = np.zeros((size, size, size + LANGUAGES))
    each, first, second = np.arange(size), *np.indices((size, size))
    every = LANGUAGE_PRIOR * own / max(int(counts.sum()) - 2, 1)
    within[each, :, each] = 1 + own + every
    within[first, second, second] += own * same + every
    within[:, :, size:] = -every[:, :, None]
    within[first, second, size + languages[:, None]] -= own
    basis = np.concatenate([unit, sums])
    products = within @ (basis @ basis.T)
    lengths = np.sqrt(np.maximum(np.einsum("ijk,ijk->ij", products, within), 0))
    scale = lengths * lengths.T
    found: Floats = np.zeros((size, size))
    np.divide(np.einsum("ijk,jik->ij", products, within), scale, out=found, where=scale > MIN_NORM)
    return found
