"""Booleans are no numbers, wherever in a body they stand."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from jiyi.protocol.events.rest import EventsBody
from jiyi.protocol.tiers.query import MemoryQuestion
from jiyi.protocol.wire.booleans import booleans_for_numbers


class Tree(BaseModel):
    weight: float | None = None
    yes: bool | int = 0
    any: Any = None
    branches: list[Tree] = []


@pytest.mark.parametrize(
    ("model", "value", "paths"),
    [
        (MemoryQuestion, {"query": "a", "relevance_threshold": False, "max_results": True}, ["relevance_threshold", "max_results"]),
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
    assert list(booleans_for_numbers(model, value)) == paths
