"""engine.retrieval.ranking: values worked out by hand, and what must hold for any input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.retrieval import ranking

finite = st.floats(-1e6, 1e6, allow_nan=False)
columns = arrays(np.float64, st.integers(0, 30), elements=finite)


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], [], id="empty stays empty"),
        pytest.param([7], [0.5], id="one gives half"),
        pytest.param([3, 3, 3], [0.5, 0.5, 0.5], id="equal give half each"),
        pytest.param([-2, 0, 6], [0, 0.25, 1], id="a range is stretched"),
    ],
)
def test_normalise(values: list[float], expected: list[float]) -> None:
    result = ranking.normalise(floats(*values))
    assert result.tolist() == expected
    assert result.dtype == np.float64


@given(columns)
def test_normalised_values_stay_within_0_and_1(values: np.ndarray) -> None:
    result = ranking.normalise(values)
    assert result.shape == values.shape
    assert ((result >= 0) & (result <= 1)).all()
    if values.size and values.min() < values.max():
        assert result[values.argmin()] == 0
        assert result[values.argmax()] == 1


@pytest.mark.parametrize(
    ("order", "decay", "newest_highest", "expected"),
    [
        # Position 2 was accessed longest ago, position 1 last; the first rank is 1, not 0.
        pytest.param([2, 0, 1], 0.5, False, [0.25, 0.125, 0.5], id="the original favours the least recently accessed"),
        pytest.param([2, 0, 1], 0.5, True, [0.25, 0.5, 0.125], id="the most recently accessed by default"),
        pytest.param([1, 0, 2], 1.0, True, [1, 1, 1], id="decay 1 tells nothing apart"),
        pytest.param([], 0.99, True, [], id="none"),
    ],
)
def test_recency_by_rank(order: list[int], decay: float, newest_highest: bool, expected: list[float]) -> None:
    result = ranking.recency_by_rank(np.array(order, dtype=np.intp), decay, newest_highest=newest_highest)
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("seconds_ago", "decay", "expected"),
    [
        pytest.param(0, 0.5, 1.0, id="now"),
        pytest.param(1800, 0.5, math.sqrt(0.5), id="half an hour"),
        pytest.param(3 * 3600, 0.5, 0.125, id="three hours"),
        pytest.param(-3600, 0.5, 1.0, id="in the future counts as now"),
        pytest.param(1e9, 0.5, 0.0, id="ages ago fades out"),
        pytest.param(1e9, 1.0, 1.0, id="decay 1 never fades"),
    ],
)
def test_recency_by_time(seconds_ago: float, decay: float, expected: float) -> None:
    now = 1_700_000_000.0
    assert ranking.recency_by_time(floats(now - seconds_ago), now, decay) == pytest.approx([expected])


@pytest.mark.parametrize(
    ("rows", "query", "expected"),
    [
        pytest.param([[3, 4], [0, 0], [-1, 0], [0, 7]], [5, 0], [0.6, 0, -1, 0], id="several rows, one without length"),
        pytest.param([[1, 1]], [1, 0], [math.sqrt(0.5)], id="45 degrees"),
        pytest.param([[1, 0]], [0, 0], [0], id="a query without length"),
        pytest.param([[5e-9, 0]], [10, 0], [0], id="a row too short, beside a long query"),
        pytest.param([[10, 0]], [5e-9, 0], [0], id="a query too short, beside a long row"),
        pytest.param([[1e-5, 0]], [1e-5, 0], [1], id="both short, but each long enough"),
        pytest.param(np.ones((0, 2)), [1, 0], [], id="no rows"),
    ],
)
def test_cosine(rows: list[list[float]], query: list[float], expected: list[float]) -> None:
    assert ranking.cosine(np.array(rows, np.float32), np.array(query, np.float32)) == pytest.approx(expected, abs=1e-7)


def test_cosine_computes_in_double_precision() -> None:
    row, query = np.array([[1, 1e-4]], np.float32), np.array([1, 0], np.float32)
    assert 1 - ranking.cosine(row, query)[0] == pytest.approx(5e-9, rel=1e-3)
    thirds = np.array([1, 3, 7], np.float32)
    assert ranking.cosine(np.array([[1, 0, 0]], np.float32), thirds)[0] == pytest.approx(1 / math.sqrt(59), rel=1e-15)


def test_cosine_of_different_sizes_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match=r"of 3 values .* one of 2"):
        ranking.cosine(np.ones((1, 3)), np.ones(2))


def test_access_order_on_ties_events_before_thoughts_and_newest_first() -> None:
    is_thought = np.array([True, False, True, False, False])
    node_count = np.array([5, 1, 4, 3, 2])
    order = ranking.access_order(floats(7, 7, 7, 7, 1), is_thought, node_count)
    assert node_count[order].tolist() == [2, 3, 1, 5, 4]


def test_nudges_keep_to_their_reach() -> None:
    relevance = np.array([0.0, 0.5, 1.0])
    spread = math.sqrt(1 / 6)
    recency, importance = ranking.nudges(relevance, np.array([0.0, 1.0, 0.5]), np.array([0.0, 10.0, 5.0]))
    assert recency == pytest.approx(3 * spread * ranking.RECENCY_REACH)
    assert importance == pytest.approx(3 * spread * ranking.IMPORTANCE_REACH)
    recency, importance = ranking.nudges(relevance, np.array([0.9, 1.0, 0.9]), np.array([3.0, 4.0, 3.0]))
    assert recency == pytest.approx(0.1 * 3 * spread * ranking.RECENCY_REACH)
    assert importance == pytest.approx(0.1 * 3 * spread * ranking.IMPORTANCE_REACH)


def test_nudges_without_a_scale_are_the_originals_gains() -> None:
    equal = np.full(3, 0.5)
    assert ranking.nudges(equal, np.array([0.0, 0.5, 1.0]), np.array([1.0, 2.0, 3.0])) == (0.5, 2.0)
    assert ranking.nudges(equal[:0], equal[:0], equal[:0]) == (0.5, 2.0)


def test_combine_adds_the_weighted_normalised_components() -> None:
    scores = ranking.combine(
        ranking.component(floats(0.9, 0.8, 0.7), 0.5),  # 1, 0.5, 0
        ranking.component(floats(0, 1, 4), 3.0),  # 0, 0.25, 1
        ranking.component(floats(5, 5, 5), 2.0),  # 0.5 each
    )
    assert scores.total == pytest.approx([0.5 + 0 + 1, 0.25 + 0.75 + 1, 0 + 3 + 1])
    assert scores.recency.raw.tolist() == [0.9, 0.8, 0.7]
    assert scores.recency.contribution == pytest.approx([0.5, 0.25, 0])
    assert scores.relevance.normalised.tolist() == [0, 0.25, 1]
    assert scores.importance.contribution.tolist() == [1, 1, 1]


@given(st.lists(st.integers(0, 4).map(float), max_size=20), st.integers(1, 25), st.randoms(use_true_random=False))
def test_best_is_a_prefix_of_the_stable_sort(values: list[float], k: int, random) -> None:
    ties = list(range(len(values)))
    random.shuffle(ties)
    expected = sorted(ties, key=lambda position: -values[position])[:k]
    assert ranking.best(floats(*values), np.array(ties, dtype=np.intp), k).tolist() == expected
