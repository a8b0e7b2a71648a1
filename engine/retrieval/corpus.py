"""An agent's memories as columns, with what relevance to any question is worked out from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from engine.retrieval import likeness
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.likeness import LANGUAGES, language_sums
from engine.retrieval.neighbours import flow_of, neighbours_of, with_hours
from engine.retrieval.scoring import MIN_NORM, Floats, length_of
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import language_of, normalise

Rows = NDArray[np.intp]
T = TypeVar("T")

#: Memories beyond which the mean vector is trusted as much as none: few memories say little about their own mean.
CENTRE_PRIOR = 25


@dataclass(slots=True)
class Corpus:
    """An agent's memories as columns, ``n`` rows."""

    #: ``(n, d)``; a row of zeros where there is no comparable vector.
    vectors: Float32
    #: Lengths of the rows, 0 where there is none.
    lengths: Floats
    #: Sums of the trusted vectors, each made one long, by language, ``(LANGUAGES, d)``, and of how many.
    sums: Float32
    counts: NDArray[np.int64]
    #: Mean direction of the memories, shrunk towards nothing when they are few: ``(d,)``.
    centre: Float32
    #: ``unit row · centre``, and the length of ``unit row - centre``.
    centre_dots: Floats
    centred_lengths: Floats
    lexicon: Lexicon
    #: ``(n, NEIGHBOURS)``: rows close by in the same session, -1 where there is none, and the share of their scores.
    #: A share is already multiplied by what both rows say (:func:`engine.retrieval.neighbours.content`).
    near: NDArray[np.int32]
    shares: Floats
    #: Code of each row's language, see :func:`language_code`.
    languages: NDArray[np.int8]
    #: When each was created, epoch seconds.
    created: Floats
    #: Row → code of its subject, -1 without; and the codes by normalised name.
    subjects: NDArray[np.int32]
    subject_codes: dict[str, int]
    #: How far turns keep to the subject of those before, 0 … 1: that much neighbours lend.
    flow: float
    #: What was worked out from the rows alone (:meth:`kept`).
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        vectors: Float32,
        lexicon: Lexicon,
        languages: Sequence[int],
        sessions: Sequence[int],
        created: Sequence[float],
        subjects: Sequence[str | None],
        trusted: Rows | None = None,
    ) -> Corpus:
        """Of memories told, in the order in which they came; ``trusted`` ones make the centre, by default all with a vector."""
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        mean_of = np.flatnonzero(lengths > MIN_NORM) if trusted is None else trusted
        spoken = np.array(languages, dtype=np.int8)
        sums, counts = language_sums(vectors, lengths, mean_of, spoken), np.bincount(spoken[mean_of], minlength=LANGUAGES)
        centre = centre_of(sums, mean_of.size)
        times = np.array(created, dtype=np.float64)
        talks = with_hours(np.array(sessions, dtype=np.int32), times)
        near, shares = neighbours_of(talks, times, np.arange(len(times)), lexicon.contents())
        codes: dict[str, int] = {}
        coded = [codes.setdefault(normalise(name), len(codes)) if name else -1 for name in subjects]
        return cls(
            vectors,
            lengths,
            sums,
            counts,
            centre,
            *project_on_centroid(vectors, lengths, centre),
            lexicon,
            near,
            shares,
            spoken,
            times,
            np.array(coded, dtype=np.int32),
            codes,
            flow_of(vectors, lengths, sums, counts, near, shares, times),
        )

    def __len__(self) -> int:
        return int(self.created.size)

    def kept(self, name: Hashable, make: Callable[[], T]) -> T:
        """What is the same for every question, made by the first that needs it. Nobody writes into it."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast("T", self._kept[name])

    @property
    def has_vector(self) -> NDArray[np.bool_]:
        return self.kept("has_vector", lambda: self.lengths > MIN_NORM)

    @property
    def all_have_vectors(self) -> bool:
        return self.kept("all_have_vectors", lambda: bool(self.has_vector.all()))

    @property
    def spoken(self) -> list[int]:
        """The codes of the languages there are."""
        return self.kept("spoken", lambda: np.flatnonzero(np.bincount(self.languages, minlength=1)).tolist())

    def alike(self, rows: Rows) -> Floats:
        """How much each of some rows is about the same as each, see :func:`engine.retrieval.likeness.alike`; 0 without a vector."""
        has = self.lengths[rows] > MIN_NORM
        unit = np.where(has[:, None], self.vectors[rows] / np.maximum(self.lengths[rows], MIN_NORM)[:, None], 0)
        found = likeness.alike(unit.astype(np.float64), self.languages[rows], self.sums.astype(np.float64), self.counts)
        return np.where(has[:, None] & has, found, 0)


def centre_of(sums: Float32, count: int) -> Float32:
    """The mean of so many vectors, each made one long, of which these are the sums; shrunk by ``count / (count + CENTRE_PRIOR)``: ``(d,)``.

    Embeddings of one model share a large common direction; without it, what is left tells memories apart.
    """
    return np.asarray(sums.sum(axis=0) / (count + CENTRE_PRIOR) if count else sums[0], np.float32)


def project_on_centroid(vectors: Float32, lengths: Floats, centre: Float32) -> tuple[Floats, Floats]:
    """``unit row · centre`` and the length of ``unit row - centre``, of each row; 0 and what follows from it without one."""
    dots = np.zeros(len(vectors), dtype=np.float64)
    np.divide(vectors @ centre, lengths, out=dots, where=lengths > MIN_NORM)
    return dots, np.sqrt(np.maximum(1 - 2 * dots + float(centre @ centre), 0))


def dense(corpus: Corpus, query: Float32) -> Floats:
    """Cosine of each row with the query; 0 for rows without a vector."""
    length = length_of(query)
    if length <= MIN_NORM or not corpus.vectors.shape[1]:
        return np.zeros(len(corpus), dtype=np.float64)
    products, scale = corpus.vectors @ query.astype(np.float32, copy=False), corpus.lengths * length
    if corpus.all_have_vectors:
        return np.asarray(products / scale, dtype=np.float64)
    similarity = np.zeros(len(corpus), dtype=np.float64)
    np.divide(products, scale, out=similarity, where=corpus.has_vector)
    return similarity


def language_code(text: str) -> int:
    """1 for Chinese, 0 for anything else."""
    return int(language_of(text) == "zh")


def language_codes(texts: Sequence[str]) -> NDArray[np.int8]:
    """:func:`language_code` of each text."""
    if all(map(str.isascii, texts)):
        return np.full(len(texts), language_code(""), np.int8)
    return np.fromiter(map(language_code, texts), np.int8, len(texts))
