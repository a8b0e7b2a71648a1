"""Booleans are no numbers, and numbers no times, wherever in a body they stand."""

from __future__ import annotations

from typing import Any

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


def test_booleans_where_numbers_belong_are_named_by_their_paths() -> None:
    asked = {"query": "a", "relevance_threshold": False, "max_results": True}
    deep = {"branches": [{"weight": 1}, {"weight": True, "branches": [{"weight": False}]}]}
    models: list[tuple[type[BaseModel], Any, list[str]]] = [
        (MemoryQuestion, asked, ["relevance_threshold", "max_results"]),
        (MemoryQuestion, {"query": "a", "relevance_threshold": 0, "unknown": True}, []),
        (Tree, deep, ["branches.1.weight", "branches.1.branches.0.weight"]),
        (Tree, {"yes": True, "any": {"weight": True}, "weight": None}, []),
        (EventsBody, {"agent_id": "a", "description": "b"}, []),
        (Tree, [True], []),
    ]
    for model, value, paths in models:
        found = [f"{path}: must be a number, not true or false" for path in paths]
        assert list(wrong_types(model, value)) == found


def test_a_number_is_no_time() -> None:
    asked = {"agent_id": "a", "query": "b", "now": 60000}
    assert list(wrong_types(RecallRequest, asked)) == ["now: must be a text in quotes, not a number"]
    assert list(wrong_types(RecallRequest, {**asked, "now": "2026-03-02T08:00:00Z", "max_tokens": 5})) == []
