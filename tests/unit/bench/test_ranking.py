"""The benchmarks' figures, by hand-computed values."""

import math

import pytest

from bench.support.ranking import figures, mean, ndcg_at, quantile, recall_at

RANKED = ["a", "x", "b", "y", "z", "c"]
EVIDENCE = {"a", "b", "c", "d"}


def test_recall_is_the_share_of_the_evidence_found():
    for k, share in ((1, 0.25), (2, 0.25), (3, 0.5), (6, 0.75), (30, 0.75)):
        assert recall_at(k, RANKED, EVIDENCE) == share
    assert recall_at(10, [], {"a"}) == 0


def test_ndcg_discounts_by_the_place():
    gain = 1 + 1 / math.log2(4) + 1 / math.log2(7)  # places 1, 3 and 6
    best = 1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)  # four in the first four places
    assert ndcg_at(10, RANKED, EVIDENCE) == pytest.approx(gain / best)
    assert ndcg_at(2, ["a", "b"], {"a", "b", "c"}) == 1  # more evidence than places
    assert ndcg_at(1, ["x", "a"], {"a"}) == 0


def test_figures_and_their_means():
    rows = [figures(RANKED, EVIDENCE, [1, 3], [2]), figures(["q"], {"q"}, [1, 3], [2])]
    assert list(rows[0]) == ["recall@1", "recall@3", "ndcg@2"]
    assert rows[0]["ndcg@2"] == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert mean(rows) == {"recall@1": 0.625, "recall@3": 0.75, "ndcg@2": 0.8066}


def test_quantile_takes_a_measured_value():
    for share, value in ((0.5, 2), (0.75, 3), (0.95, 4), (1, 4)):
        assert quantile([4, 1, 3, 2], share) == value
