"""The order of what is put before an answer."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from engine.conversations.injection import Candidate
from tasks.conversations.injection import _once


def candidate(node_id: UUID, score: float) -> Candidate:
    return Candidate(node_id, "session", "something", datetime(2026, 3, 1, tzinfo=UTC), score)


def test_what_the_expanded_query_finds_again_keeps_its_first_place() -> None:
    first, second, third = uuid4(), uuid4(), uuid4()
    ranked = [candidate(first, 3.0), candidate(second, 2.0), candidate(third, 0.9), candidate(second, 0.8), candidate(first, 0.7)]
    assert [(one.node_id, one.score) for one in _once(ranked)] == [(first, 3.0), (second, 2.0), (third, 0.9)]
