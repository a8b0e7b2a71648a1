"""The best of an index for each focal text of a question, with what they are measured by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engine.heads.local import heads
from engine.heads.retiring import retires, said_of
from engine.operations.deadlines import check_deadline
from engine.providers.rerankers import MOST_DOCUMENTS, OFF
from engine.retrieval import ordering, relevance
from engine.retrieval.corpus import dense
from engine.retrieval.ordering import Shown
from engine.retrieval.query import vector_of, words_of
from engine.retrieval.ranking import Candidates, Floats, Ranked, diverse, rank_by, rank_in_turn
from engine.retrieval.relevance import Relevance, Words
from engine.text.keywords import asked_tokens
from jiyi.errors import ModelMismatch
from jiyi.protocol.retrieval import Debug, RetrievalRequest
from jiyi.protocol.wire.vectors import Float32, to_array
from jiyi.settings import get_settings
from models.retrieval.agent_index import AgentIndex
from models.retrieval.columns import Rows
from models.retrieval.index_rows import TYPES
from tasks.retrieval.question import ParsedQuestion, counted_sentences

#: Near-duplicates are thinned among this many times ``top_k`` of the best.
POOL_FACTOR = 4


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One focal text's result: the ranking, positions in which are positions in ``rows`` of the index."""

    ranked: Ranked
    relevance: Relevance | None
    #: Rows of the index that the best ones are.
    best_rows: Rows
    debug: Debug
    #: Row → the newer memory that says it anew.
    replaced: Mapping[int, UUID] = field(default_factory=dict)
    #: Row → how likely it is to answer; empty where relevance is not ``hybrid``.
    probability: Mapping[int, float] = field(default_factory=dict)
    #: Row → what the reranker said of it; empty without one.
    reranked: Mapping[int, float] = field(default_factory=dict)


def find(asked: ParsedQuestion, index: AgentIndex, rows: Rows) -> list[SearchResult]:
    """The best of the rows for each focal text."""
    queries, note = _queries(asked, index)
    debug = debug_of(asked, index, rows, note)
    now, top_k, least = asked.now.timestamp(), asked.request.top_k, asked.request.filters.min_similarity
    everyone = rows.size == index.size

    def column(name: str) -> NDArray[Any]:
        return index.columns[name] if everyone else index.columns[name][rows]

    original = asked.weights.mode == "stanford"
    pool = Candidates(
        node_count=column("node_count"),
        is_thought=column("type") == TYPES.index("thought"),
        last_accessed=column("last_accessed"),
        poignancy=column("poignancy"),
        vectors=index.vectors[rows] if original else index.vectors[:0],
    )
    if original:
        nothing = np.zeros(index.vectors.shape[1], dtype=np.float32)  # similar to none
        vectors = [nothing if query is None else query for query in queries]
        ranked = rank_in_turn(pool, vectors, asked.weights, top_k=top_k, now=now, min_similarity=least)
        return [_found(rows, one, None, debug) for one in ranked]
    order = _within(index.access_order(), rows, index.size)
    results = []
    for text, query in zip(asked.request.texts, queries, strict=True):
        check_deadline()
        measured, cosine = _measure(asked, index, text, query)
        kept = np.arange(rows.size) if least is None or cosine is None else np.flatnonzero(cosine[rows] >= least)
        total = measured.total if everyone else measured.total[rows]
        ranked_one = rank_by(pool, total, kept, asked.weights, top_k=_pool_of(asked), now=now, order=order)
        likely = _probability(asked, index, text, measured, rows[ranked_one.kept[ranked_one.best]])
        ranked_one = _likely_enough(asked.request, ranked_one, rows, likely)
        ranked_one = _thinned(asked.request, ranked_one, index.vectors, rows)
        used = debug.model_copy(update={"relevance": "lexical"}) if query is None else debug
        results.append(replace(_found(rows, ranked_one, measured, used), probability=likely))
    return results


def wanted(asked: ParsedQuestion) -> int:
    """How many of the best are to be found: as many as are asked for, or as many as are reranked."""
    return max(asked.request.top_k, MOST_DOCUMENTS) if reranks(asked) else asked.request.top_k


def reranks(asked: ParsedQuestion) -> bool:
    """Whether what is found is ordered anew by a reranker: never in the original's mode."""
    return get_settings().reranker != OFF and asked.weights.mode != "stanford"


def _pool_of(asked: ParsedQuestion) -> int:
    """How many of the best are looked at, to find as many as are :func:`wanted`."""
    request, least = asked.request, wanted(asked)
    if request.diversity:
        return request.top_k * POOL_FACTOR
    return max(least, ordering.LOOKED_AT) if request.newer_first else least


def _probability(asked: ParsedQuestion, index: AgentIndex, text: str, measured: Relevance, best: Rows) -> dict[int, float]:
    """How likely each of the best rows is to answer; nothing where relevance is not measured in a way that was calibrated."""
    if asked.relevance != "hybrid" or not best.size:
        return {}
    likely = relevance.probabilities(index.corpus(), measured, _words(asked, text), best, asked.model)
    return dict(zip(best.tolist(), likely.tolist(), strict=True))


def _likely_enough(request: RetrievalRequest, ranked: Ranked, rows: Rows, likely: Mapping[int, float]) -> Ranked:
    """Without those that are less likely to answer than the request wants."""
    least = request.min_probability
    if not least or not likely:
        return ranked
    best = ranked.best
    return replace(ranked, best=best[[likely[row] >= least for row in rows[ranked.kept[best]].tolist()]])


def _thinned(request: RetrievalRequest, ranked: Ranked, vectors: Float32, rows: Rows) -> Ranked:
    if not request.diversity:
        return ranked
    best = ranked.best
    kept = diverse(ranked.scores.total[best], vectors[rows[ranked.kept[best]]], request.top_k, request.diversity)
    return replace(ranked, best=best[kept])


def _within(order: Rows, rows: Rows, size: int) -> Rows:
    """An order of all rows as positions in some of them."""
    if rows.size == size:
        return order
    position = np.full(size, -1, dtype=np.intp)
    position[rows] = np.arange(rows.size)
    found = position[order]
    return found[found >= 0]


def _measure(asked: ParsedQuestion, index: AgentIndex, text: str, query: Float32 | None) -> tuple[Relevance, Floats | None]:
    """Relevance of all of the index's rows, and their cosines where there are any."""
    corpus = index.corpus()
    if asked.relevance == "lexical":
        lexical = corpus.lexicon.bm25(_words(asked, text))
        return Relevance(lexical, None, lexical, None, None, None), None if query is None else dense(corpus, query)
    if asked.relevance == "dense" and query is not None:
        cosine = dense(corpus, query)
        return Relevance(cosine, cosine, None, None, None, None), cosine
    # Without the sentences' vectors the question as a whole will do.
    known = query is None or all(sentence in asked.vectors for sentence in counted_sentences(asked, text))
    embed = asked.vectors.__getitem__ if known and asked.embed is not None else None
    measured = relevance.hybrid(corpus, text, query, embed, asked.now, dialogue=asked.dialogue, with_neighbours=asked.request.neighbours)
    return measured, measured.dense


def _words(asked: ParsedQuestion, text: str) -> Words:
    return words_of(asked.dialogue) if asked.dialogue else asked_tokens(text)


def _queries(asked: ParsedQuestion, index: AgentIndex) -> tuple[list[Float32 | None], str]:
    """A vector for each focal text, or None for all with the reason.

    Raises:
        ModelMismatch: there are vectors, but none that the question's can be compared with.
    """
    texts, given = asked.request.texts, asked.request.vectors
    comparable = asked.model in index.models
    if not comparable and index.models:
        raise ModelMismatch(
            f"the agent's memories are embedded with {', '.join(sorted(index.models))}, the question with {asked.model}: "
            "give vectors and embedding_model with the request, or embed the memories anew"
        )
    if asked.relevance == "lexical" and asked.request.filters.min_similarity is None:
        return [None] * len(texts), ""
    if not comparable:
        return [None] * len(texts), "no memory is embedded yet: found by words only"
    if given is None:
        if asked.away is not None:
            if asked.weights.mode == "stanford" or asked.relevance == "dense":
                raise asked.away
            return [None] * len(texts), f"the embedder is away, found by words only: {asked.away}"
        queries = [vector_of(asked.dialogue, asked.vectors)] if asked.dialogue else [asked.vectors[text] for text in texts]
    else:
        queries = [to_array(vector) for vector in given]
    width = index.vectors.shape[1]
    if not width:  # all that are stored have another size
        if given is not None:
            raise _sizes_differ(index.sizes, asked.dimensions)
        return [None] * len(texts), f"no memory has a vector of {asked.dimensions:,} values: found by words only"
    wrong = next((query.size for query in queries if query.size != width), None)
    if wrong is not None:
        raise _sizes_differ({width}, wrong)
    return list(queries), ""


def _sizes_differ(stored: Collection[int], asked: int) -> ModelMismatch:
    sizes = " or ".join(f"{size:,}" for size in sorted(stored) if size)
    return ModelMismatch(f"vectors of {sizes} values cannot be compared with one of {asked:,}")


def _found(rows: Rows, ranked: Ranked, measured: Relevance | None, debug: Debug) -> SearchResult:
    best_rows = rows[ranked.kept[ranked.best]]
    total = ranked.scores.total
    if total.size:
        debug = debug.model_copy(
            update={
                "total_candidates": int(total.size),
                "retrieved_count": int(ranked.best.size),
                "min_score": float(total.min()),
                "max_score": float(total.max()),
            }
        )
    return SearchResult(ranked, measured, best_rows, debug)


def newer_first(asked: ParsedQuestion, text: str, found: SearchResult, index: AgentIndex, described: Mapping[int, Shown]) -> SearchResult:
    """The memories found for a focal text with the newer before the older and thoughts behind their evidence, cut to what was asked for."""
    request = asked.request
    if asked.weights.mode == "stanford" or not request.newer_first or not found.best_rows.size:
        return found
    # Erased meanwhile: not described, and nothing in the answer.
    there = np.array([place for place, row in enumerate(found.best_rows.tolist()) if row in described], dtype=np.intp)
    there, rest = there[: ordering.MOST_COMPARED], there[ordering.MOST_COMPARED :]
    rows = found.best_rows[there]
    shown = [described[row] for row in rows.tolist()]
    order, by = np.arange(rows.size), dict[int, int]()
    if ordering.may_be_renewed(text, shown):
        alike, above = index.corpus().alike(rows), _above_ordinary(found.ranked)[there]
        order, by = ordering.in_order(shown, _confirmed(shown, ordering.renewed(text, shown, alike, above)))
    order = order[ordering.behind_evidence([shown[place] for place in order.tolist()])]
    kept = np.concatenate([there[order], rest])[: wanted(asked)]
    if not by and kept.tolist() == list(range(found.best_rows.size)):
        return found
    in_answer = set(found.best_rows[kept].tolist())
    replaced = {int(rows[older]): shown[newer].node_id for older, newer in by.items() if int(rows[newer]) in in_answer}
    return replace(
        found,
        ranked=replace(found.ranked, best=found.ranked.best[kept]),
        best_rows=found.best_rows[kept],
        replaced=replaced,
        debug=found.debug.model_copy(update={"retrieved_count": int(kept.size)}),
    )


def _confirmed(shown: Sequence[Shown], renewed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pairs (newer, older) of which the heads, too, are sure; without them those of one attribute with a word of change."""
    pairs = np.argwhere(renewed)
    if not len(pairs):
        return renewed
    texts = [(said_of(shown[older].text), said_of(shown[newer].text)) for newer, older in pairs.tolist()]
    judge, said_so = heads(), ordering.said_so(texts)
    sure = said_so if judge is None else retires(judge, texts, said_so)
    found = np.zeros_like(renewed)
    found[tuple(pairs[sure].T)] = True
    return found


def _above_ordinary(ranked: Ranked) -> Floats:
    """The relevance of the best above the ordinary, which is that of all but a few: of a short conversation all are looked at."""
    relevance = ranked.scores.relevance.normalised
    others = np.ones(relevance.size, dtype=bool)
    others[ranked.best[: min(ordering.LOOKED_AT, relevance.size // 4)]] = False
    return np.asarray(relevance[ranked.best] - ordering.ordinary(relevance[others]), dtype=np.float64)


def debug_of(asked: ParsedQuestion, index: AgentIndex, rows: Rows, note: str = "") -> Debug:
    has_vector = index.columns["has_vector"]
    without = int(rows.size - np.count_nonzero(has_vector if rows.size == index.size else has_vector[rows]))
    return Debug(
        mode=asked.weights.mode,
        relevance=asked.relevance,
        embedding_model=asked.model,
        note=note,
        without_comparable_vector=without,
        exact=index.complete,
    )
