"""Booleans are no numbers, and numbers no times, wherever in a body they stand."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from jiyi.protocol.event_requests import EventsBody
from jiyi.protocol.recall import RecallRequest
from jiyi.protocol.tier_questions import MemoryQuestion
from jiyi.protocol.wire.json_checks import wrong_types


class Tree(BaseModel):
    weight: float | None = None
    yes: bool | int = 0
    any: Any = None
    branches: list[Tree] = []


@pytest.mark.parametrize(
    ("model", "value", "paths"),
    [
        (
            MemoryQuestion,
            {"query": "a", "relevance_threshold": False, "max_results": True},
            ["relevance_threshold", "max_results"],
        ),
        (MemoryQuestion, {"query": "a", "relevance_threshold": 0, "unknown": True}, []),
        (
            Tree,
            {"branches": [{"weight": 1}, {"weight": True, "branches": [{"weight": False}]}]},
            ["branches.1.weight", "branches.1.branches.0.weight"],
        ),
        (Tree, {"yes": True, "any": {"weight": True}, "weight": None}, []),
        (EventsBody, {"agent_id": "a", "description": "b"}, []),
        (Tree, [True], []),
    ],
)
def test_paths_of_booleans_where_numbers_belong(model: type[BaseModel], value: Any, paths: list[str]) -> None:
    assert [
        problem.partition(": must be a number, not true or false")[0] for problem in wrong_types(model, value)
    ] == paths


def test_a_number_is_no_time() -> None:
    asked = {"agent_id": "a", "query": "b", "now": 60000}
    assert list(wrong_types(RecallRequest, asked)) == ["now: must be a text in quotes, not a number"]
    assert list(wrong_types(RecallRequest, {**asked, "now": "2026-03-02T08:00:00Z", "max_tokens": 5})) == []
