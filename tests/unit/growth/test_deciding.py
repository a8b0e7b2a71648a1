"""What may be decided about a skill or a workflow, by what became of it so far."""

from __future__ import annotations

import pytest

from jiyi.growth.skills.types import Status
from jiyi.protocol.growth.artifacts import ArtifactState
from models.growth.artifacts.deciding import possible


@pytest.mark.parametrize(
    ("status", "enabled", "verbs"),
    [
        ("refused", False, ["delete"]),
        ("pending", False, ["accept", "decline", "delete"]),
        ("accepted", True, ["disable", "archive", "delete"]),
        ("accepted", False, ["enable", "archive", "delete"]),
        ("declined", False, ["delete"]),
        ("archived", False, ["delete"]),
        ("deleted", False, []),
    ],
)
def test_each_status_has_its_decisions(status: Status, enabled: bool, verbs: list[str]) -> None:
    assert possible(ArtifactState.model_construct(status=status, enabled=enabled)) == verbs
