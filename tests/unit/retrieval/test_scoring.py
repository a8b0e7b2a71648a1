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


@st.composite
def three_columns(draw: st.DrawFn) -> list[np.ndarray]:
    size = draw(st.integers(1, 20))
    return [draw(arrays(np.float64, size, elements=finite)) for _ in range(3)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], [], id="empty stays empty"),
        pytest.param([7], [0.5], id="one gives half"),
        pytest.param([3, 3, 3], [0.5, 0.5, 0.5], id="equal give half each"),
        pytest.param([0, 0], [0.5, 0.5], id="zeros give half each"),
        pytest.param([2, 4, 10], [0, 0.25, 1], id="a range is stretched"),
        pytest.param([-1, 1, 0], [0, 1, 0.5], id="negative values"),
        pytest.param([10, 20], [0, 1], id="two"),
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


@given(
    arrays(np.float64, st.integers(1, 20), elements=st.integers(-1000, 1000).map(float)),
    st.sampled_from([0.25, 0.5, 2.0, 3.0, 1000.0]),
    st.integers(-1000, 1000),
)
def test_normalise_does_not_see_scale_and_shift(values: np.ndarray, scale: float, shift: int) -> None:
    np.testing.assert_allclose(ranking.normalise(values * scale + shift), ranking.normalise(values), atol=1e-9)


def test_recency_by_rank_in_the_original_favours_the_least_recently_accessed() -> None:
    order = np.array([2, 0, 1])  # position 2 was accessed longest ago, position 1 last
    result = ranking.recency_by_rank(order, 0.5, newest_highest=False)
    assert result.tolist() == [0.25, 0.125, 0.5]


def test_recency_by_rank_favours_the_most_recently_accessed_by_default() -> None:
    order = np.array([2, 0, 1])
    result = ranking.recency_by_rank(order, 0.5, newest_highest=True)
    assert result.tolist() == [0.25, 0.5, 0.125]


@pytest.mark.parametrize("newest_highest", [True, False])
def test_recency_by_rank_with_decay_1_tells_nothing_apart(*, newest_highest: bool) -> None:
    result = ranking.recency_by_rank(np.array([1, 0, 2]), 1.0, newest_highest=newest_highest)
    assert result.tolist() == [1, 1, 1]
    assert ranking.normalise(result).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("newest_highest", [True, False])
def test_recency_by_rank_of_one_and_of_none(*, newest_highest: bool) -> None:
    assert ranking.recency_by_rank(np.array([0]), 0.99, newest_highest=newest_highest).tolist() == [0.99]
    assert ranking.recency_by_rank(np.array([], dtype=np.intp), 0.99, newest_highest=newest_highest).tolist() == []


def test_the_first_rank_is_1_not_0() -> None:
    assert ranking.recency_by_rank(np.array([0, 1]), 0.99, newest_highest=False) == pytest.approx([0.99, 0.9801])


@pytest.mark.parametrize(
    ("seconds_ago", "expected"),
    [
        pytest.param(0, 1.0, id="now"),
        pytest.param(3600, 0.5, id="an hour"),
        pytest.param(1800, math.sqrt(0.5), id="half an hour"),
        pytest.param(3 * 3600, 0.125, id="three hours"),
        pytest.param(-3600, 1.0, id="in the future counts as now"),
        pytest.param(1e9, 0.0, id="ages ago fades out"),
    ],
)
def test_recency_by_time(seconds_ago: float, expected: float) -> None:
    now = 1_700_000_000.0
    assert ranking.recency_by_time(floats(now - seconds_ago), now, 0.5) == pytest.approx([expected])


def test_recency_by_time_with_decay_1_never_fades() -> None:
    assert ranking.recency_by_time(floats(0, 5e8), 1e9, 1.0).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("row", "query", "expected"),
    [
        pytest.param([1, 0], [1, 0], 1.0, id="same direction"),
        pytest.param([2, 0], [5, 0], 1.0, id="length does not matter"),
        pytest.param([1, 0], [0, 1], 0.0, id="right angle"),
        pytest.param([1, 0], [-3, 0], -1.0, id="opposite"),
        pytest.param([3, 4], [1, 0], 0.6, id="3-4-5"),
        pytest.param([1, 1], [1, 0], math.sqrt(0.5), id="45 degrees"),
        pytest.param([0, 0], [1, 0], 0.0, id="a row without length"),
        pytest.param([1, 0], [0, 0], 0.0, id="a query without length"),
    ],
)
def test_cosine(row: list[float], query: list[float], expected: float) -> None:
    assert ranking.cosine(np.array([row], np.float32), np.array(query, np.float32)) == pytest.approx([expected], abs=1e-12)


def test_cosine_of_several_rows_keeps_their_order() -> None:
    matrix = np.array([[3, 4], [0, 0], [-1, 0]], np.float32)
    assert ranking.cosine(matrix, np.array([1, 0], np.float32)).tolist() == pytest.approx([0.6, 0, -1])


def test_cosine_computes_in_double_precision() -> None:
    row, query = np.array([[1, 1e-4]], np.float32), np.array([1, 0], np.float32)
    assert 1 - ranking.cosine(row, query)[0] == pytest.approx(5e-9, rel=1e-3)
    thirds = np.array([1, 3, 7], np.float32)
    assert ranking.cosine(np.array([[1, 0, 0]], np.float32), thirds)[0] == pytest.approx(1 / math.sqrt(59), rel=1e-15)


@pytest.mark.parametrize(
    ("row_length", "query_length", "expected"),
    [
        pytest.param(5e-9, 10, 0.0, id="a row too short, beside a long query"),
        pytest.param(10, 5e-9, 0.0, id="a query too short, beside a long row"),
        pytest.param(1e-5, 1e-5, 1.0, id="both short, but each long enough"),
    ],
)
def test_each_vector_by_itself_needs_a_length(row_length: float, query_length: float, expected: float) -> None:
    assert ranking.cosine(floats(row_length, 0).reshape(1, 2), floats(query_length, 0)) == pytest.approx([expected])


def test_cosine_of_different_sizes_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match=r"of 3 values .* one of 2"):
        ranking.cosine(np.ones((1, 3)), np.ones(2))


def test_cosine_of_no_rows_is_empty() -> None:
    assert ranking.cosine(np.ones((0, 3)), np.ones(3)).shape == (0,)


def test_access_order_least_recently_accessed_first() -> None:
    order = ranking.access_order(floats(30, 10, 20), np.array([False, True, False]), np.array([1, 2, 3]))
    assert order.tolist() == [1, 2, 0]


def test_access_order_on_ties_events_before_thoughts_and_newest_first() -> None:
    is_thought = np.array([True, False, True, False, False])
    node_count = np.array([5, 1, 4, 3, 2])
    order = ranking.access_order(floats(7, 7, 7, 7, 1), is_thought, node_count)
    assert node_count[order].tolist() == [2, 3, 1, 5, 4]


def test_the_gains_are_the_originals() -> None:
    assert (ranking.RECENCY_GAIN, ranking.RELEVANCE_GAIN, ranking.IMPORTANCE_GAIN) == (0.5, 3.0, 2.0)


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


def test_a_single_candidate_scores_2_75() -> None:
    scores = ranking.combine(*(ranking.component(floats(3), weight) for weight in (0.5, 3.0, 2.0)))
    assert scores.total.tolist() == [2.75]


@given(three_columns())
def test_a_total_with_default_weights_lies_between_0_and_5_5(raw: list[np.ndarray]) -> None:
    scores = ranking.combine(*(ranking.component(column, weight) for column, weight in zip(raw, (0.5, 3.0, 2.0), strict=True)))
    assert ((scores.total >= 0) & (scores.total <= 5.5 + 1e-12)).all()


def test_best_gives_the_highest_first() -> None:
    assert ranking.best(floats(1, 3, 2), np.array([0, 1, 2]), 2).tolist() == [1, 2]


def test_best_keeps_the_tie_order() -> None:
    scores = floats(1, 2, 1, 2)
    assert ranking.best(scores, np.array([3, 2, 1, 0]), 4).tolist() == [3, 1, 2, 0]
    assert ranking.best(scores, np.array([0, 1, 2, 3]), 4).tolist() == [1, 3, 0, 2]


def test_best_gives_all_when_fewer_than_asked() -> None:
    assert ranking.best(floats(1, 2), np.array([0, 1]), 30).tolist() == [1, 0]
    assert ranking.best(floats(), np.array([], dtype=np.intp), 30).tolist() == []


@given(st.lists(st.integers(0, 4).map(float), max_size=20), st.integers(1, 25), st.randoms(use_true_random=False))
def test_best_is_a_prefix_of_the_stable_sort(values: list[float], k: int, random) -> None:
    ties = list(range(len(values)))
    random.shuffle(ties)
    expected = sorted(ties, key=lambda position: -values[position])[:k]
    assert ranking.best(floats(*values), np.array(ties, dtype=np.intp), k).tolist() == expected
