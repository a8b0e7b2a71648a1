"""How much memories are about the same thing, whatever language each is in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.scoring import MIN_NORM, Floats
from jiyi.protocol.wire.vectors import Float32

#: Memories of a language as many as which its own mean is trusted as much as that of all languages.
LANGUAGE_PRIOR = 5.0
#: Codes of languages: Chinese, and anything else.
LANGUAGES = 2
#: Rows that are made double precision together: 3 MB of vectors of 384 values.
SUMMED_AT_ONCE = 1_000


def language_sums(vectors: Float32, lengths: Floats, rows: NDArray[np.intp], languages: NDArray[np.int8]) -> Float32:
    """The sums of some rows, each made one long, by language: ``(LANGUAGES, d)``. Rows without a length must not be among them.

    Summed in double precision: in single precision the order in which memories arrived would show, and decide between old memories
    that are nearly the same.
    """
    sums = np.zeros((LANGUAGES, vectors.shape[1]))
    for start in range(0, rows.size, SUMMED_AT_ONCE):
        some = rows[start : start + SUMMED_AT_ONCE]
        weights = np.zeros((LANGUAGES, some.size))
        weights[languages[some], np.arange(some.size)] = 1 / lengths[some]
        sums += weights @ vectors[some].astype(np.float64)
    return sums.astype(np.float32)


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
    languages = languages.astype(np.intp)
    kinds = languages[:1] if (languages == languages[:1]).all() else languages  # of one language all pairs weigh the same
    same = kinds[:, None] == kinds
    own = 1 / (np.maximum(counts[kinds][:, None] - 1 - same, 0) + LANGUAGE_PRIOR)
    every = LANGUAGE_PRIOR * own / max(int(counts.sum()) - 2, 1)
    # What a memory u is beside another one v, without its common part: mine·u + other·v - every·whole - own·spoken, where whole is
    # the sum of all memories and spoken that of its language. Row and column stand for u and v.
    mine, other = 1 + own + every, own * same + every
    uv, sums_u, among_sums = unit @ unit.T, sums @ unit.T, sums @ sums.T
    uu, u_whole = np.diagonal(uv)[:, None], sums_u.sum(axis=0)[:, None]
    spoken_v, both_spoken = sums_u[languages], among_sums[languages][:, languages]
    u_spoken, spoken_whole = np.diagonal(spoken_v)[:, None], among_sums.sum(axis=0)[languages, None]
    # Its products with each of these, and with the sum of the other's language.
    with_u = mine * uu + other * uv - every * u_whole - own * u_spoken
    with_v = mine * uv + other * uu.T - every * u_whole.T - own * spoken_v
    with_whole = mine * u_whole + other * u_whole.T - every * float(among_sums.sum()) - own * spoken_whole
    with_spoken = mine * u_spoken + other * spoken_v - every * spoken_whole - own * np.diagonal(both_spoken)[:, None]
    with_others = mine * spoken_v.T + other * u_spoken.T - every * spoken_whole.T - own * both_spoken
    lengths = np.sqrt(np.maximum(mine * with_u + other * with_v - every * with_whole - own * with_spoken, 0))
    products = mine.T * with_v + other.T * with_u - every.T * with_whole - own.T * with_others
    scale = lengths * lengths.T
    found: Floats = np.zeros(uv.shape)
    np.divide(products, scale, out=found, where=scale > MIN_NORM)
    return found
