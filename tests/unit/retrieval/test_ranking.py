"""engine.retrieval.ranking: scores by hand, and mode ``stanford`` beside the original's rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import ranking
from engine.retrieval.ranking import Candidates, RankingWeights, diverse, rank, rank_in_turn
from jiyi.errors import ModelMismatch

NOW = 1_700_000_000.0
HOUR = 3600.0


def weights(mode: str = "recent", **other: float) -> RankingWeights:
    return RankingWeights(
        **{"mode": mode, "recency": 1.0, "relevance": 1.0, "importance": 1.0, "decay": 0.5, **other}
    )


def candidates(
    last_accessed: list[float],
    *,
    poignancy: list[float] | None = None,
    vectors: list[list[float]] | None = None,
) -> Candidates:
    size = len(last_accessed)
    return Candidates(
        node_count=np.arange(1, size + 1),
        is_thought=np.zeros(size, dtype=bool),
        last_accessed=np.array(last_accessed, dtype=np.float64),
        poignancy=np.array(poignancy or [0.0] * size),
        vectors=np.array(vectors or [[1.0, 0.0]] * size, dtype=np.float32),
    )


def focal(*values: float) -> np.ndarray:
    return np.array(values or (1.0, 0.0), dtype=np.float32)


def test_rank_adds_the_three_components_with_their_gains() -> None:
    given_ = candidates([10, 20, 30], poignancy=[2, 10, 6], vectors=[[1, 0], [0, 1], [3, 4]])
    w = weights("stanford", recency=2, relevance=1, importance=0.5)
    ranked = rank(given_, focal(), w, top_k=3, now=NOW)
    # recency 0.5, 0.25, 0.125 → 1, ⅓, 0 (× 2 × 0.5); relevance 1, 0, 0.6 (× 3); importance 0, 1, 0.5 (× 0.5 ×
    # 2)
    scores = ranked.scores
    assert scores.recency.raw.tolist() == [0.5, 0.25, 0.125]
    assert [part.weight for part in (scores.recency, scores.relevance, scores.importance)] == [1, 3, 1]
    assert ranked.scores.total == pytest.approx([1 + 3 + 0, 1 / 3 + 0 + 1, 0 + 1.8 + 0.5])
    assert ranked.best.tolist() == [0, 2, 1]
    assert ranked.retained.tolist() == [0, 1, 2]


def test_recency_and_importance_are_nudges_on_the_scale_of_relevance() -> None:
    given_ = candidates([10, 20, 30], poignancy=[2, 10, 6], vectors=[[1, 0], [0, 1], [3, 4]])
    w = weights("recent", recency=2, relevance=1, importance=0.5)
    ranked = rank(given_, focal(), w, top_k=3, now=NOW)
    # relevance 1, 0, 0.6: standard deviation 0.411, times its gain 1.233. Between the recencies 0.125, 0.25,
    # 0.5 there is 0.375, a quarter of which counts, twice; between the importances 8 of 10, half of which
    # counts, half.
    spread = 3 * np.std([1, 0, 0.6])
    recency, importance = 2 * 0.25 * 0.375 * spread, 0.5 * 0.5 * 0.8 * spread
    assert ranked.scores.recency.raw.tolist() == [0.125, 0.25, 0.5]
    scores = ranked.scores
    found = [part.weight for part in (scores.recency, scores.relevance, scores.importance)]
    assert found == pytest.approx([recency, 3, importance])
    assert ranked.scores.total == pytest.approx([3, recency / 3 + importance, 1.8 + recency + importance / 2])
    assert ranked.best.tolist() == [0, 2, 1]


@pytest.mark.parametrize("mode", ["recent", "elapsed"])
def test_neither_recency_nor_importance_buries_what_answers(mode: str) -> None:
    """The oldest and least important of a thousand answers; all others are new and important."""
    vectors = [[1.0, 0.0]] + [[0.1, 1.0], [0.2, 1.0]] * 500
    times, poignancy = [NOW - 9_000 * HOUR] + [NOW] * 1_000, [1.0] + [10.0] * 1_000
    given_ = candidates(times, poignancy=poignancy, vectors=vectors)
    assert rank(given_, focal(), weights(mode, decay=0.99), top_k=1, now=NOW).best.tolist() == [0]


def test_little_differences_of_recency_stay_little() -> None:
    """Ten memories of a morning are about as recent as each other, though one of them is the latest."""
    given_ = candidates(list(range(10)), vectors=[[1.0, 0.01 * i] for i in range(10, 0, -1)])
    ranked = rank(given_, focal(), weights("recent", decay=0.99), top_k=1, now=NOW)
    assert ranked.scores.recency.contribution.max() < 0.03 * ranked.scores.relevance.contribution.std() * 3


@pytest.mark.parametrize(
    ("mode", "recency"),
    [
        ("recent", [0.25, 0.5, 0.125]),  # by rank, newest highest
        ("stanford", [0.25, 0.125, 0.5]),  # by rank, oldest highest
        ("elapsed", [0.25, 0.5, 0.0625]),  # by hours
    ],
)
def test_each_mode_measures_recency_in_its_way(mode: str, recency: list[float]) -> None:
    given_ = candidates([NOW - 2 * HOUR, NOW - HOUR, NOW - 4 * HOUR])
    assert rank(given_, focal(), weights(mode), top_k=3, now=NOW).scores.recency.raw == pytest.approx(recency)


def test_min_similarity_leaves_out_what_is_less_similar_before_the_scoring() -> None:
    given_ = candidates([20, 10, 30], poignancy=[10, 1, 3], vectors=[[-1, 0], [1, 0], [3, 4]])
    ranked = rank(given_, focal(), weights(), top_k=1, now=NOW, min_similarity=0.5)
    assert ranked.retained.tolist() == [1, 2]
    assert ranked.scores.importance.normalised.tolist() == [0, 1]  # 10 no longer stretches the range
    assert ranked.scores.recency.raw.tolist() == [0.25, 0.5]
    assert ranked.retained[ranked.best].tolist() == [1]  # positions are those of the whole set
    for least, kept in ((-1.0, [0, 1, 2]), (1.0, [1])):  # what is exactly as similar stays
        ranked = rank(given_, focal(), weights(), top_k=3, now=NOW, min_similarity=least)
        assert ranked.retained.tolist() == kept
    for mode in ("recent", "elapsed", "stanford"):  # and there may be nothing
        ranked = rank(candidates([10]), focal(-1, 0), weights(mode), top_k=3, now=NOW, min_similarity=0.5)
        assert ranked.retained.size == ranked.best.size == ranked.scores.total.size == 0


def test_a_memory_without_a_vector_has_relevance_0_and_a_question_of_another_size_is_a_mismatch() -> None:
    given_ = candidates([10, 10, 10], vectors=[[1, 0], [0, 0], [-1, 0]])
    assert rank(given_, focal(), weights(), top_k=3, now=NOW).scores.relevance.raw.tolist() == [1, 0, -1]
    with pytest.raises(ModelMismatch, match=r"of 2 values .* one of 3"):
        rank(given_, focal(1, 0, 0), weights(), top_k=3, now=NOW)


def test_touching_follows_positions_of_the_whole_set() -> None:
    given_ = candidates([10, 20, 30], vectors=[[-1, 0], [1, 0], [1, 0]])
    kept = {"min_similarity": 0.5, "top_k": 1, "now": NOW}
    first, second = rank_in_turn(given_, [focal(), focal()], weights("stanford"), **kept)
    assert first.retained[first.best].tolist() == [1]
    assert second.scores.recency.raw.tolist() == [0.25, 0.5]  # of 1, touched, and 2


@pytest.mark.parametrize("mode", ["recent", "elapsed"])
def test_in_the_other_modes_all_focal_texts_see_the_same_state(mode: str) -> None:
    times = [NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR]
    given_ = candidates(times, poignancy=[9, 1, 1])
    first, second = rank_in_turn(given_, [focal(), focal()], weights(mode), top_k=3, now=NOW)
    assert first.scores.total.tolist() == second.scores.total.tolist()
    # Equally relevant: by importance and recency.
    assert first.best.tolist() == second.best.tolist() == [0, 2, 1]
    rank_in_turn(given_, [focal()], weights("stanford"), top_k=2, now=NOW)
    assert given_.last_accessed.tolist() == times  # ranking leaves the candidates as they were


# The original's rules (generative agents, new_retrieve), told once more in plain Python, step by step.


@dataclass
class Node:
    count: int
    type: str
    last_accessed: float
    poignancy: int
    vector: list[int]


def stretched(values: dict[int, float]) -> dict[int, float]:
    low, high = min(values.values()), max(values.values())
    if high - low == 0:
        return dict.fromkeys(values, (1 - 0) / 2)
    return {key: (value - low) / (high - low) for key, value in values.items()}


def original_retrieve(
    nodes: list[Node], focal_vectors: list[list[int]], w: RankingWeights, n: int, clock: float
) -> list[Any]:
    by_count = {node.count: node for node in nodes}
    newest_first = sorted(nodes, key=lambda node: node.count, reverse=True)
    seq_event = [node for node in newest_first if node.type == "event"]
    seq_thought = [node for node in newest_first if node.type == "thought"]
    results = []
    for query in focal_vectors:
        sequence = sorted(seq_event + seq_thought, key=lambda node: node.last_accessed)
        recency = {node.count: w.decay**i for i, node in enumerate(sequence, start=1)}
        importance = {node.count: float(node.poignancy) for node in sequence}
        relevance = {}
        for node in sequence:
            dot = float(sum(a * b for a, b in zip(node.vector, query, strict=True)))
            lengths = math.sqrt(sum(a * a for a in node.vector)) * math.sqrt(sum(b * b for b in query))
            relevance[node.count] = dot / lengths
        recency, importance, relevance = stretched(recency), stretched(importance), stretched(relevance)
        gains = (w.recency * 0.5, recency), (w.relevance * 3, relevance), (w.importance * 2, importance)
        score = {key: sum(gain * part[key] for gain, part in gains) for key in recency}
        top = sorted(score.items(), key=lambda item: item[1], reverse=True)[:n]
        for key, _ in top:
            by_count[key].last_accessed = clock
        results.append(top)
    return results


small_vectors = st.lists(st.integers(-2, 2), min_size=3, max_size=3).filter(any)


@st.composite
def memories(draw: st.DrawFn) -> list[Node]:
    """Small whole numbers: many ties, and no rounding that could tell two ways of computing apart."""
    kinds, times, weights_ = st.sampled_from(["event", "thought"]), st.integers(0, 5), st.integers(1, 10)
    nodes = [
        Node(count, draw(kinds), float(draw(times)), draw(weights_), draw(small_vectors))
        for count in range(1, draw(st.integers(1, 12)) + 1)
    ]
    return draw(st.permutations(nodes))


def columns(nodes: list[Node]) -> Candidates:
    return Candidates(
        node_count=np.array([node.count for node in nodes], dtype=np.int64),
        is_thought=np.array([node.type == "thought" for node in nodes]),
        last_accessed=np.array([node.last_accessed for node in nodes]),
        poignancy=np.array([node.poignancy for node in nodes], dtype=np.float64),
        vectors=np.array([node.vector for node in nodes], dtype=np.float32),
    )


halves = st.sampled_from([0.0, 0.5, 1.0, 2.0])
whole_weights = st.builds(
    RankingWeights,
    mode=st.just("stanford"),
    **dict.fromkeys(("recency", "relevance", "importance"), halves),
    decay=st.sampled_from([0.5, 0.75, 1.0]),  # exact powers
)
vectors_of_questions = st.lists(small_vectors, min_size=1, max_size=3)


@given(memories(), vectors_of_questions, whole_weights, st.integers(1, 13), st.integers(0, 9))
def test_mode_stanford_is_the_original(
    nodes: list[Node], queries: list[list[int]], w: RankingWeights, n: int, clock: int
) -> None:
    given_ = columns(nodes)
    asked = [np.array(query, np.float32) for query in queries]
    ranked = rank_in_turn(given_, asked, w, top_k=n, now=float(clock))
    expected = original_retrieve(nodes, queries, w, n, float(clock))
    for ours, theirs in zip(ranked, expected, strict=True):
        assert given_.node_count[ours.best].tolist() == [count for count, _ in theirs]
        assert ours.scores.total[ours.best] == pytest.approx([score for _, score in theirs], abs=1e-12)


@given(memories(), small_vectors, st.sampled_from(["recent", "elapsed", "stanford"]), st.data())
def test_the_order_of_the_candidates_does_not_matter(
    nodes: list[Node], query: list[int], mode: str, data: st.DataObject
) -> None:
    w = weights(mode, decay=0.5)
    shuffled = data.draw(st.permutations(nodes))
    rankings = []
    for some in (nodes, shuffled):
        given_ = columns(some)
        ranked = rank(given_, np.array(query, np.float32), w, top_k=5, now=9.0)
        rankings.append((given_.node_count[ranked.best].tolist(), ranked.scores.total[ranked.best].tolist()))
    assert rankings[0] == rankings[1]


def test_a_twin_of_what_is_taken_already_gives_way_to_something_else() -> None:
    vectors = np.array([[1, 0], [2, 0], [0, 1], [0, 0]], dtype=np.float32)
    scores = np.array([10.0, 9.9, 6.0, 5.0])
    assert diverse(scores, vectors, 2, 0.0).tolist() == [0, 1]  # not asked for: the best scores win
    # 1 - d = d = .5; scores stretched: 1, .98, .2, 0. The twin is worth .49 - .5, the third .1 - 0.
    assert diverse(scores, vectors, 3, 0.5).tolist() == [0, 2, 3]
    assert diverse(scores, vectors, 9, 0.5).tolist() == [0, 2, 3, 1]


@given(st.integers(0, 1_000), st.floats(0, 1))
def test_thinning_takes_each_once_and_the_best_first(seed: int, diversity: float) -> None:
    random = np.random.default_rng(seed)
    scores = np.sort(random.random(12))[::-1].copy()
    found = diverse(scores, random.standard_normal((12, 3)).astype(np.float32), 7, diversity).tolist()
    assert len(set(found)) == 7
    assert found[0] == 0 or diversity == 1
    # No more different than something unrelated.
    opposite = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
    assert diverse(np.array([3.0, 2.0, 1.9]), opposite, 2, 0.9).tolist() == [0, 1]


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("seconds_ago", "decay", "expected"),
    [
        *((0, 0.5, 1.0), (1800, 0.5, math.sqrt(0.5)), (3 * 3600, 0.5, 0.125)),
        # The future counts as now, and what was ages ago fades out.
        *((-3600, 0.5, 1.0), (1e9, 0.5, 0.0), (1e9, 1.0, 1.0)),
    ],
)
def test_recency_by_time(seconds_ago: float, decay: float, expected: float) -> None:
    assert ranking.recency_by_time(floats(NOW - seconds_ago), NOW, decay) == pytest.approx([expected])


def cosine(rows: list[list[float]], query: list[float]) -> list[float]:
    return ranking.cosine(np.array(rows, np.float32), np.array(query, np.float32)).tolist()


@pytest.mark.parametrize(
    ("rows", "query", "expected"),
    [
        ([[3, 4], [0, 0], [-1, 0], [0, 7]], [5, 0], [0.6, 0, -1, 0]),
        *(([[1, 1]], [1, 0], [math.sqrt(0.5)]), ([[1, 0]], [0, 0], [0])),
        # A row or a query that is too short, beside long ones; and both, but each long enough.
        *(([[5e-9, 0]], [10, 0], [0]), ([[10, 0]], [5e-9, 0], [0]), ([[1e-5, 0]], [1e-5, 0], [1])),
    ],
)
def test_cosine(rows: list[list[float]], query: list[float], expected: list[float]) -> None:
    assert cosine(rows, query) == pytest.approx(expected, abs=1e-7)
    assert ranking.cosine(np.ones((0, 2)), np.ones(2)).size == 0
    # In double precision.
    assert 1 - cosine([[1, 1e-4]], [1, 0])[0] == pytest.approx(5e-9, rel=1e-3)
    assert cosine([[1, 0, 0]], [1, 3, 7])[0] == pytest.approx(1 / math.sqrt(59), rel=1e-15)


def test_nudges_without_a_scale_are_the_originals_gains() -> None:
    equal = np.full(3, 0.5)
    assert ranking.nudges(equal, np.array([0.0, 0.5, 1.0]), np.array([1.0, 2.0, 3.0])) == (0.5, 2.0)
    assert ranking.nudges(equal[:0], equal[:0], equal[:0]) == (0.5, 2.0)


@given(st.lists(st.integers(0, 4).map(float), max_size=20), st.integers(1, 25), st.randoms())
def test_best_is_a_prefix_of_the_stable_sort(values: list[float], k: int, random) -> None:
    ties = list(range(len(values)))
    random.shuffle(ties)
    expected = sorted(ties, key=lambda position: -values[position])[:k]
    assert ranking.best(floats(*values), np.array(ties, dtype=np.intp), k).tolist() == expected


def test_no_memories_have_no_scores() -> None:
    assert ranking.normalise(floats()).size == 0
    assert ranking.recency_by_rank(np.array([], dtype=np.intp), 0.99, newest_highest=True).size == 0
