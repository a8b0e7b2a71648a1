"""How well each chunk of a store's files answers a question: by meaning and words, or by either alone.

The relevance of memories (:mod:`engine.retrieval.relevance`), and on top of it what a chunk's file says: a question is often
answered where one paragraph names the thing and another tells about it. ``bench.stores files`` has measured the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np

from engine.retrieval.corpus import Corpus, Rows, dense, language_code
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.ranking import MIN_NORM, Floats
from engine.retrieval.relevance import hybrid, names_day
from engine.text.keywords import asked_tokens
from jiyi.protocol.wire.vectors import Float32

Search = Literal["hybrid", "dense", "lexical"]

#: What a chunk gains if its whole file says all that the question asks, in standard scores of cosine.
FILE_WORDS = 1.0
#: Share of the scores of the chunks right before and after in the same file.
NEXT_CHUNKS = 0.2
#: Standard scores that a chunk gains when the question names its file's day, beside those of any memory.
FILE_DAY = 1.0


@dataclass(slots=True)
class FileCorpus:
    """The chunks of a store as columns, those of a file beside each other in their order."""

    corpus: Corpus
    #: Row → number of its file, from 0.
    files: Rows
    #: The words of each file, by its number.
    file_lexicon: Lexicon

    @classmethod
    def of(cls, vectors: Float32, tokens: Sequence[str], files: Sequence[int], days: Sequence[float]) -> FileCorpus:
        """Of chunks in the order of their files and numbers.

        Args:
            vectors: ``(n, d)``; a row of zeros where a vector is still owed.
            tokens: each chunk's tokens, with spaces between.
            files: each chunk's file, numbered from 0 in order.
            days: the day each chunk's file is about, epoch seconds; 0 where it tells none.
        """
        lexicon, file_lexicon = Lexicon(), Lexicon()
        lexicon.extend(tokens)
        whole: list[list[str]] = [[] for _ in range(max(files, default=-1) + 1)]
        for number, text in zip(files, tokens, strict=True):
            whole[number].append(text)
        file_lexicon.extend([" ".join(parts) for parts in whole])
        corpus = Corpus.of(vectors, lexicon, [language_code(text) for text in tokens], files, days, [None] * len(files))
        return cls(corpus, np.array(files, dtype=np.intp), file_lexicon)


@dataclass(frozen=True, slots=True)
class Scores:
    """By row: what chunks are ranked by, and what it is made of."""

    total: Floats
    #: None: there was no vector to search with.
    cosine: Floats | None
    lexical: Floats


def score(
    chunks: FileCorpus, text: str, query: Float32 | None, embed: Callable[[str], Float32] | None, now: datetime, search: Search = "hybrid"
) -> Scores:
    """The scores of every chunk for a question; without its vector, words alone count.

    Args:
        chunks: what is searched.
        text: the question.
        query: its vector; None while the embedder is away.
        embed: gives the vectors of the question's sentences; None leaves sentences out.
        now: what "yesterday" is measured from.
        search: ``dense`` ranks by the cosine alone, as the original does, ``lexical`` by BM25 alone.
    """
    corpus = chunks.corpus
    asked = asked_tokens(text)
    lexical = corpus.lexicon.bm25(asked)
    cosine = None if query is None else dense(corpus, query)
    if search == "lexical" or (search == "dense" and cosine is None):
        return Scores(lexical, cosine, lexical)
    if search == "dense" and cosine is not None:
        return Scores(cosine, cosine, lexical)
    total = hybrid(corpus, text, query, embed, now, with_neighbours=False).total
    said = chunks.file_lexicon.bm25(asked) / max(chunks.file_lexicon.information(asked), MIN_NORM)
    total = total + FILE_WORDS * said[chunks.files] + FILE_DAY * names_day(corpus, text, now)
    return Scores(total + NEXT_CHUNKS * _beside(total, chunks.files), cosine, lexical)


def best(scores: Scores, top_k: int, threshold: float) -> Rows:
    """The best rows, best first; equal ones in their order.

    The threshold is on the cosine, as in the original. Above -1, a chunk without a vector is not among them, unless
    there was none to search with.
    """
    rows = np.arange(scores.total.size)
    if threshold > -1 and scores.cosine is not None:
        rows = rows[scores.cosine >= threshold]
    ranked = rows[np.argsort(-scores.total[rows], kind="stable")]
    return np.asarray(ranked[:top_k], dtype=np.intp)


def _beside(values: Floats, files: Rows) -> Floats:
    """The sum of the values above 0 right before and after each row in the same file."""
    gains = np.maximum(values, 0)
    beside = np.zeros_like(values)
    same = files[1:] == files[:-1]
    beside[1:][same] += gains[:-1][same]
    beside[:-1][same] += gains[1:][same]
    return beside
