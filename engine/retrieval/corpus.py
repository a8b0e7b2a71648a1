"""An agent's memories as columns, with what relevance to any question is worked out from.

That is how much memories are about the same thing, whatever language each is in, and what was said right
before and after each.

Similarity of texts by their words.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.lexicon import Lexicon
from engine.retrieval.ranking import MIN_NORM, Floats, length_of
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import language_of, normalise, tokens

#: Memories of a language as many as which its own mean is trusted as much as that of all languages.
LANGUAGE_PRIOR = 5.0
#: Codes of languages: Chinese, and anything else.
LANGUAGES = 2
#: Rows that are made double precision together: 3 MB of vectors of 384 values.
SUMMED_AT_ONCE = 1_000


def language_sums(
    vectors: Float32, lengths: Floats, rows: NDArray[np.intp], languages: NDArray[np.int8]
) -> Float32:
    """The sums of some rows that have a length, each made one long, by language: ``(LANGUAGES, d)``.

    In double precision: in single precision the order in which memories arrived would show.
    """
    sums = np.zeros((LANGUAGES, vectors.shape[1]))
    for start in range(0, rows.size, SUMMED_AT_ONCE):
        part = rows[start : start + SUMMED_AT_ONCE]
        weights = np.zeros((LANGUAGES, part.size))
        weights[languages[part], np.arange(part.size)] = 1 / lengths[part]
        sums += weights @ vectors[part].astype(np.float64)
    return sums.astype(np.float32)


def similarity_matrix(
    unit: Floats, languages: NDArray[np.integer], sums: Floats, counts: NDArray[np.int64]
) -> Floats:
    """Cosine of each of ``k`` memories with each, without what is common to all memories of its language:
    ``(k, k)``.

    Without the direction that embeddings of one language share, texts in two languages that say the same are
    similar, too. The common part of a pair is the mean of all others but these two. A language with few
    memories is judged by all of them.

    Args:
        unit: the memories' vectors, each one long, ``(k, d)``.
        languages: their codes, ``(k,)``.
        sums: of all of the agent's vectors, each one long, by language, ``(LANGUAGES, d)``.
        counts: of how many, ``(LANGUAGES,)``.
    """
    languages = languages.astype(np.intp)
    # Of one language all pairs weigh the same.
    kinds = languages[:1] if (languages == languages[:1]).all() else languages
    same = kinds[:, None] == kinds
    own = 1 / (np.maximum(counts[kinds][:, None] - 1 - same, 0) + LANGUAGE_PRIOR)
    every = LANGUAGE_PRIOR * own / max(int(counts.sum()) - 2, 1)
    # What a memory u is beside another one v, without its common part: mine·u + other·v - every·whole -
    # own·spoken, where whole is the sum of all memories and spoken that of its language. Row and column stand
    # for u and v.
    mine, other = 1 + own + every, own * same + every
    uv, sums_u, among_sums = unit @ unit.T, sums @ unit.T, sums @ sums.T
    uu, u_whole = np.diagonal(uv)[:, None], sums_u.sum(axis=0)[:, None]
    spoken_v, both_spoken = sums_u[languages], among_sums[languages][:, languages]
    u_spoken, spoken_whole = np.diagonal(spoken_v)[:, None], among_sums.sum(axis=0)[languages, None]
    # Its products with each of these, and with the sum of the other's language.
    with_u = mine * uu + other * uv - every * u_whole - own * u_spoken
    with_v = mine * uv + other * uu.T - every * u_whole.T - own * spoken_v
    with_whole = mine * u_whole + other * u_whole.T - every * float(among_sums.sum()) - own * spoken_whole
    with_spoken = (
        mine * u_spoken + other * spoken_v - every * spoken_whole - own * np.diagonal(both_spoken)[:, None]
    )
    with_others = mine * spoken_v.T + other * u_spoken.T - every * spoken_whole.T - own * both_spoken
    lengths = np.sqrt(np.maximum(mine * with_u + other * with_v - every * with_whole - own * with_spoken, 0))
    products = mine.T * with_v + other.T * with_u - every.T * with_whole - own.T * with_others
    scale = lengths * lengths.T
    similarity: Floats = np.zeros(uv.shape)
    np.divide(products, scale, out=similarity, where=scale > MIN_NORM)
    return similarity


#: Share of a neighbour's score, by how far away it is in the session.
NEIGHBOUR_SHARES = (0.4, 0.25)
#: Before and after, at each distance.
NEIGHBOURS = 2 * len(NEIGHBOUR_SHARES)
#: Seconds after which a neighbour counts e times less: a conversation goes on, a diary does not.
NEIGHBOUR_FADES = 900.0
#: Session of what is in none, as notes and records are: it has no neighbours.
NO_SESSION = -1
#: Seconds: what people say without a session is one conversation with what was said in the same hour of the
#: clock; and the code of the first such hour, below any other's. Rare are the neighbours on both sides of the
#: full hour, and a write concerns one hour only.
HOUR, FIRST_HOUR, HOURS = 3_600.0, -10, 1 << 24
#: Telling words from which on a turn is a full neighbour; one with fewer gains and gives in proportion.
FULL_CONTENT = 4


def content(telling: Sequence[int] | NDArray[np.int32]) -> Floats:
    """What texts with so many telling words say, 0 (nothing: a greeting, "haha nice") … 1."""
    return np.minimum(np.asarray(telling, dtype=np.float64) / FULL_CONTENT, 1.0)


def with_hours(
    sessions: NDArray[np.int32], created: Floats, subjects: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The sessions of memories. What somebody said without one (below 0) gets that of its hour."""
    hours = FIRST_HOUR - np.mod(np.floor(created / HOUR), HOURS)
    return np.where(sessions >= 0, sessions, np.where(subjects >= 0, hours, NO_SESSION)).astype(np.int32)


def neighbours_of(
    sessions: NDArray[np.int32], created: Floats, node_count: NDArray[np.int64], contents: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Floats]:
    """For each row, which rows of the same session are close, and the share of their scores: ``(n,
    NEIGHBOURS)`` each.

    For each distance the row before and the row after, -1 where there is none; their shares fade by the time
    between and by how little either says. ``contents`` are the numbers of telling words.
    """
    says = content(contents)
    order = np.lexsort((node_count, created, sessions))
    ordered = sessions[order]
    near = np.full((sessions.size, NEIGHBOURS), -1, np.int32)
    shares = np.zeros((sessions.size, NEIGHBOURS))
    for distance, share in enumerate(NEIGHBOUR_SHARES, start=1):
        same = (ordered[distance:] == ordered[:-distance]) & (ordered[distance:] != NO_SESSION)
        first, second = order[:-distance][same], order[distance:][same]
        apart = np.abs(created[second] - created[first])
        faded = share * np.exp(-apart / NEIGHBOUR_FADES) * says[first] * says[second]
        near[second, 2 * distance - 2], near[first, 2 * distance - 1] = first, second
        shares[second, 2 * distance - 2], shares[first, 2 * distance - 1] = faded, faded
    return near, shares


Rows = NDArray[np.intp]
T = TypeVar("T")
V = TypeVar("V", bound=np.generic)
Counted = NDArray[np.bool_] | None

#: Memories beyond which the mean vector is trusted as much as none: few memories say little about their own
#: mean.
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
    #: ``(n, NEIGHBOURS)``: rows close by in the same session, -1 where there is none, and the share of their
    #: scores. A share is already multiplied by what both rows say (:func:`engine.retrieval.corpus.content`).
    near: NDArray[np.int32]
    shares: Floats
    #: Code of each row's language, see :func:`language_code`.
    languages: NDArray[np.int8]
    #: When each was created, epoch seconds.
    created: Floats
    #: Row → code of its subject, -1 without; and the codes by normalised name.
    subjects: NDArray[np.int32]
    subject_codes: dict[str, int]
    #: Which rows say what is usual; None for all. Others are measured by these, so that asking a question
    #: changes no answer.
    counted: Counted = None
    #: What was worked out from the rows alone (:meth:`cached`).
    _cache: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

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
        """Of memories in the order in which they came; ``trusted`` ones make the centre, by default all."""
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        mean_of = np.flatnonzero(lengths > MIN_NORM) if trusted is None else trusted
        spoken = np.array(languages, dtype=np.int8)
        sums = language_sums(vectors, lengths, mean_of, spoken)
        counts = np.bincount(spoken[mean_of], minlength=LANGUAGES)
        centre = centre_of(sums, mean_of.size)
        times = np.array(created, dtype=np.float64)
        codes: dict[str, int] = {}
        each = [codes.setdefault(normalise(name), len(codes)) if name else -1 for name in subjects]
        who = np.array(each, dtype=np.int32)
        talks = with_hours(np.array(sessions, dtype=np.int32), times, who)
        near, shares = neighbours_of(talks, times, np.arange(len(times)), lexicon.contents())
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
            who,
            codes,
        )

    def __len__(self) -> int:
        return int(self.created.size)

    def cached(self, name: Hashable, make: Callable[[], T]) -> T:
        """What is the same for every question, made by the first that needs it. Nobody writes into it."""
        if name not in self._cache:
            self._cache[name] = make()
        return cast("T", self._cache[name])

    @property
    def has_vector(self) -> NDArray[np.bool_]:
        return self.cached("has_vector", lambda: self.lengths > MIN_NORM)

    @property
    def all_have_vectors(self) -> bool:
        return self.cached("all_have_vectors", lambda: bool(self.has_vector.all()))

    def of_counted(self, values: NDArray[V]) -> NDArray[V]:
        return values if self.counted is None else values[self.counted]

    def similarity_matrix(self, rows: Rows) -> Floats:
        """Similarity of each of some rows with each, see :func:`similarity_matrix`; 0 without a vector."""
        has, lengths = self.lengths[rows] > MIN_NORM, np.maximum(self.lengths[rows], MIN_NORM)
        unit = np.where(has[:, None], self.vectors[rows] / lengths[:, None], 0).astype(np.float64)
        similarity = similarity_matrix(unit, self.languages[rows], self.sums.astype(np.float64), self.counts)
        return np.where(has[:, None] & has, similarity, 0)


def centre_of(sums: Float32, count: int) -> Float32:
    """The mean of ``count`` vectors of which these are the sums, shrunk by ``count / (count +
    CENTRE_PRIOR)``: ``(d,)``.

    Embeddings of one model share a large common direction; without it, the rest distinguishes memories.
    """
    return np.asarray(sums.sum(axis=0) / (count + CENTRE_PRIOR) if count else sums[0], np.float32)


def project_on_centroid(vectors: Float32, lengths: Floats, centre: Float32) -> tuple[Floats, Floats]:
    """``unit row · centre`` and the length of ``unit row - centre``, of each row."""
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
    if all(map(str.isascii, texts)):
        return np.full(len(texts), language_code(""), np.int8)
    return np.fromiter(map(language_code, texts), np.int8, len(texts))


#: Characters of a text that its words are taken from: each is compared with each.
MAX_READ = 1_000
#: From here on two texts are similar by the weight of shared words.
SIMILAR_BY_WORDS = 0.15


def similarity_by_words(texts: Sequence[str]) -> Floats:
    """BM25 of each text for another's words, over what it has for its own; the mean of both ways."""
    lexicon = Lexicon(texts=(" ".join(tokens(text[:MAX_READ])) for text in texts))
    scores = np.array([lexicon.similarity(row) for row in range(len(texts))]).reshape(len(texts), len(texts))
    own = np.maximum(np.diagonal(scores), MIN_NORM)
    shares = scores / own[:, None]
    return np.asarray((shares + shares.T) / 2, dtype=np.float64)
