"""jiyi.protocol.tier_questions, engine.tiers.answer and engine.tiers.answer: two tiers, one answer."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.tiers.answer import Skipped, gather, merge
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.tier_questions import (
    MemoryAnswer,
    MemoryQuery,
    MemoryQuestion,
    TierItem,
    TierStatus,
    kind_of,
)

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def hot(number: int, **fields: Any) -> TierItem:
    """The newest has the number 0."""
    made = {"item_id": f"h{number}", "content": f"said {number}", "created_at": NOW - timedelta(hours=number)}
    return TierItem.model_validate(made | {"source": "hot", "score": 1.0} | fields)


def cold(number: int, score: float = 0.9, **fields: Any) -> TierItem:
    made = {"item_id": f"c{number}", "content": f"known {number}", "created_at": NOW - timedelta(days=number)}
    return TierItem.model_validate(made | {"source": "cold", "verified": True, "score": score} | fields)


def ask(hots: Sequence[TierItem] = (), colds: Sequence[TierItem] = (), **fields: Any) -> list[str]:
    return [item.item_id for item in merge(hots, colds, MemoryQuestion(query="glaze", **fields), NOW)]


HOTS = [hot(number) for number in range(50)]
COLDS = [cold(number, 0.9 - number / 100) for number in range(20)]


@pytest.mark.parametrize(
    ("limit", "hots", "colds"),
    [(None, 10, 5), (1, 1, 0), (2, 2, 0), (3, 2, 1), (5, 4, 1), (6, 4, 2), (15, 10, 5), (40, 10, 20)],
)
def test_max_results_is_the_total_and_leaves_room_for_long_term_memory(
    limit: int | None, hots: int, colds: int
) -> None:
    """Hot first and then cut would hide every precedent. What one tier lacks the other may have."""
    expected = [*(f"h{n}" for n in range(hots)), *(f"c{n}" for n in range(colds))]
    assert ask(HOTS, COLDS, max_results=limit) == expected
    assert ask(HOTS[:1], COLDS, max_results=4) == ["h0", "c0", "c1", "c2"]


@given(
    st.integers(0, 60),
    st.lists(st.floats(-1, 1), max_size=40),
    st.none() | st.integers(1, 100),
    st.sampled_from(["tier", "score"]),
)
def test_limits_and_order_hold_whatever_there_is(
    hots: int, scores: list[float], limit: int | None, order: str
) -> None:
    question = MemoryQuestion(query="q", max_results=limit, order=order)
    colds = [cold(n, score) for n, score in enumerate(scores)]
    found = merge([hot(n) for n in range(hots)], colds, question, NOW)
    assert len(found) <= (15 if limit is None else limit)
    sources = [item.source for item in found]
    assert sources.count("hot") <= 10
    assert sorted(sources, reverse=True) == sources  # also by score: nothing is more similar than 1
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    possible = min(10, hots) + min(len(scores), 5 if limit is None else limit)
    assert len(found) == (possible if limit is None else min(limit, possible))


def test_by_score_the_most_similar_comes_first_of_either_tier() -> None:
    hots = [hot(0, similarity=0.3), hot(1, similarity=0.9), hot(2)]
    assert ask(hots, [cold(0, 0.8), cold(1, 0.95)], order="score") == ["h2", "c1", "h1", "c0", "h0"]
    assert ask(hots, [cold(0, 0.8), cold(1, 0.95)], order="score", max_results=2) == ["h2", "c1"]
    nowhere = float("nan")
    assert ask([hot(0, similarity=nowhere)], [cold(0, nowhere)], order="score") == ["h0"]


def test_the_time_range_binds_working_memory_only() -> None:
    assert ask(HOTS, COLDS, time_range_days=1) == ask(HOTS, COLDS)
    ancient = cold(9, created_at=NOW - timedelta(days=4_000))
    found = ask([hot(30), hot(20)], [cold(8), cold(7), ancient], time_range_days=1)
    assert found == ["h20", "c8", "c7", "c9"]
    assert ask([hot(0, created_at=None)], [cold(0, created_at=None)], time_range_days=1) == ["h0", "c0"]
    before_the_calendar = datetime(50, 1, 1, tzinfo=UTC)
    assert MemoryQuestion(query="q", time_range_days=36_500).since(before_the_calendar) is None
    # What has expired is not shown though it is still stored.
    assert ask([hot(0, expires_at=NOW + timedelta(seconds=1)), hot(1, expires_at=NOW)]) == ["h0"]


def test_verdicts_can_be_left_out_of_both_tiers_before_the_limit_of_ten() -> None:
    hots, colds = [hot(0, kind="verdict"), hot(1)], [cold(0, kind="verdict"), cold(1)]
    assert ask(hots, colds) == ["h0", "h1", "c0", "c1"]
    assert ask(hots, colds, include_verdicts=False) == ["h1", "c1"]
    entries = [hot(number, kind="verdict" if number < 20 else "statement") for number in range(30)]
    assert ask(entries, include_verdicts=False) == [f"h{number}" for number in range(20, 30)]


def test_the_session_is_a_filter_only_if_it_is_asked_for() -> None:
    """The original always filtered by session, and promotion stored none: long-term memory found nothing."""
    hots, colds = [hot(0, session_id="s1"), hot(1)], [cold(0, session_id=None), cold(1, session_id="s1")]
    assert ask(hots, colds) == ["h0", "h1", "c0", "c1"]
    assert ask(hots, colds, session_id="s1") == ["h0", "c1"]


def test_what_is_promoted_and_still_in_working_memory_is_shown_once_and_as_verified() -> None:
    question = MemoryQuestion(query="q")
    hots, colds = [hot(0, content="One  Verdict"), hot(1)], [cold(0, content="one verdict"), cold(1)]
    found = [(item.item_id, item.verified, item.temporary) for item in merge(hots, colds, question, NOW)]
    assert found == [("h0", True, True), ("h1", False, True), ("c1", True, False)]


def test_the_webs_results_come_last_are_marked_and_count_by_themselves() -> None:
    web = [TierItem(item_id=f"w{n}", source="external", content="found", score=0.99) for n in range(5)]
    for order in ("tier", "score"):
        question = MemoryQuestion(query="q", max_results=2, web_results=3, order=order)  # type: ignore[arg-type]
        found = merge(HOTS, COLDS, question, NOW, external=web)
        assert [item.source for item in found] == ["hot", "hot", "external", "external", "external"]
    unasked = merge(HOTS, [], MemoryQuestion(query="q"), NOW, external=web)
    assert "external" not in [item.source for item in unasked]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"query": " "}, {"query": "a\0"}, {"group_id": " "}, {"session_id": " "}, {"limit": 3}),
        *({"max_results": 0}, {"max_results": 101}, {"order": "newest"}, {"time_range_days": 0}),
        *({"relevance_threshold": 1.1}, {"relevance_threshold": float("nan")}),
    ],
)
def test_questions_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MemoryQuery.model_validate({"query": "glaze", "group_id": "g"} | wrong)


@pytest.mark.parametrize(
    ("node_type", "metadata", "kind"),
    [
        ("vote", {}, "verdict"),
        ("Judge", {}, "verdict"),
        ("agent", {}, "statement"),
        (None, {"verdict": True}, "verdict"),
        ("agent", {"kind": "verdict"}, "verdict"),
        ("vote", {"kind": "statement"}, "statement"),
        (None, {"kind": 7}, "statement"),
    ],
)
def test_verdicts_are_what_says_so_or_comes_from_a_node_that_decides(
    node_type: Any, metadata: dict[str, Any], kind: str
) -> None:
    assert kind_of(node_type, metadata) == kind


@pytest.mark.parametrize(
    ("states", "status"),
    [(["ok", "skipped"], "ok"), (["failed", "ok"], "partial"), (["failed", "skipped"], "failed"), ([], "ok")],
)
def test_the_answer_says_whether_all_tiers_answered(states: list[Any], status: str) -> None:
    answer = MemoryAnswer(tiers=[TierStatus(tier="working", state=state) for state in states])
    assert answer.status == status
    assert answer.model_dump(mode="json")["status"] == status
    assert len(answer.failures) == states.count("failed")


SCOPE: contextvars.ContextVar[str] = contextvars.ContextVar("scope", default="none")


def failing(error: Exception) -> Callable[[], list[TierItem]]:
    def read() -> list[TierItem]:
        raise error

    return read


def test_tiers_are_asked_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20)

    def reader(item: TierItem) -> Callable[[], list[TierItem]]:
        return lambda: [item, item][both.wait() * 0 :]  # neither goes on before the other has come

    token = SCOPE.set("group-1")
    web: Callable[[], list[TierItem]] = lambda: [hot(1, content=SCOPE.get())]
    gathered = gather({"working": reader(hot(0)), "longterm": reader(cold(0)), "web": web}, 30)
    SCOPE.reset(token)
    assert gathered.items.pop("web")[0].content == "group-1", "readers see the caller's context"
    assert {status.state for status in gathered.tiers.values()} == {"ok"}
    assert (gathered.tiers["working"].found, len(gathered.items["longterm"])) == (2, 2)


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (EmbeddingUnavailable("the vendor is away"), "failed", "the vendor is away"),
        (OSError("postgresql://user:secret@host"), "failed", "OSError: see the service's log"),
        (Skipped("no key"), "skipped", "no key"),
    ],
)
@pytest.mark.parametrize("broken", ["working", "longterm"])
def test_one_tier_failing_is_reported_and_hides_nothing(
    broken: Any, error: Exception, state: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    readers: dict[Any, Any] = {"working": lambda: [hot(0)], "longterm": lambda: [cold(0)]}
    readers[broken] = failing(error)
    with caplog.at_level(logging.ERROR):
        gathered = gather(readers, 30)
    other = next(tier for tier in readers if tier != broken)
    assert len(gathered.items[other]) == 1
    told = gathered.tiers[broken]
    assert (told.state, told.message, gathered.items[broken]) == (state, message, [])
    assert (f"tier {broken} cannot be read" in caplog.text) == (state == "failed")


def test_a_tier_that_hangs_is_reported_and_not_waited_for() -> None:
    release = threading.Event()
    gathered = gather({"working": lambda: [hot(0)], "longterm": lambda: [cold(0)][: release.wait(60) * 0]}, 1)
    release.set()
    assert gathered.tiers["longterm"].message == "no answer within 1 s"
    assert gathered.tiers["working"].state == "ok"
