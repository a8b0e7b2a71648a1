"""Meters, news and server-sent events where no server is needed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.operations import meters
from models.operations.meters import BOUNDS_MS, quantile
from models.queue import stream
from models.queue.stream import place
from web.stream import CHUNK, event, gathered
from workers.worker_setup import Watch


def classes(**counts: float) -> list[float]:
    found = [0.0] * (len(BOUNDS_MS) + 1)
    for bound, count in counts.items():
        found[BOUNDS_MS.index(int(bound[2:]))] = count
    return found


def test_a_quantile_lies_within_its_class_in_proportion() -> None:
    assert quantile(classes(), 0.5) is None
    assert quantile(classes(ms1=10), 0.5) == 0.5
    assert quantile(classes(ms5=4), 0.25) == 3.5  # 3 … 5, a quarter of the way
    assert quantile(classes(ms1=50, ms20=50), 0.95) == pytest.approx(13 + 7 * 0.9)
    assert quantile([0.0] * len(BOUNDS_MS) + [1.0], 0.5) == BOUNDS_MS[-1]


def test_a_task_that_took_care_of_its_failure_has_failed_all_the_same(monkeypatch):
    noted: list[tuple[object, ...]] = []
    monkeypatch.setattr(meters, "task", lambda name, end, _seconds, waited: noted.append((name, end, waited)))
    watch, task = Watch(), SimpleNamespace(name="work.embed", request=SimpleNamespace())
    for state, failing, outcome in (
        ("SUCCESS", False, "done"),
        ("SUCCESS", True, "failed"),
        ("FAILURE", False, "failed"),
        ("RETRY", False, "retried"),
        ("SUCCESS", False, "done"),  # the next one in this thread is innocent
    ):
        watch.begun("1", task)
        if failing:
            meters.failing()
        watch.ended("1", task, state)
        assert noted.pop() == ("work.embed", outcome, None)
    watch.ended("unknown", task, "SUCCESS")
    assert noted == []


def test_news_names_a_hundred_ids_and_counts_them_all() -> None:
    nodes = [("one", f"agent {n % 150}", uuid4()) for n in range(400)] + [("other", "Ada", uuid4())]
    (first, kind, news), (second, _, little) = stream.about(nodes, "node.stored")
    assert (first, second, kind) == ("one", "other", "node.stored")
    assert news["ids"] == [str(node_id) for _, _, node_id in nodes[:100]]
    assert news["count"] == 400
    assert len(news["agents"]) == 100
    assert min(news["agents"].values()) == 3  # those with most come first: 50 agents have two
    assert little == {"ids": [str(nodes[-1][2])], "count": 1, "agents": {"Ada": 1}}
    assert len(json.dumps(news)) < CHUNK


def test_ids_are_compared_as_numbers_and_sent_with_their_event() -> None:
    assert place("9-9") < place("10-0") < place("10-2") < place("10-10")
    assert place("0") == (0, 0)
    for wrong in ("", "-1", "1-", "1-2-3", "x", "１-0", "1" * 16, " 1"):
        with pytest.raises(ValueError, match="not the id"):
            place(wrong)
    assert event("node.stored", '{"count":1}', "5-0") == 'id: 5-0\nevent: node.stored\ndata: {"count":1}\n\n'
    assert event("gap", "{}") == "event: gap\ndata: {}\n\n"


@given(st.lists(st.integers(0, 3 * CHUNK), max_size=8))
def test_chunks_hold_everything_in_order_and_not_much_more_than_their_size(sizes: list[int]) -> None:
    texts = [str(place % 10) * size for place, size in enumerate(sizes)]
    chunks = list(gathered(iter(texts)))
    assert "".join(chunks) == "".join(texts)
    largest = max(sizes, default=0)
    assert all(len(chunk) < CHUNK + largest for chunk in chunks if largest)
