"""engine.reflection.reflect: how far an agent is on the way to its next reflection."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from engine.reflection.reflect import with_progress
from jiyi.protocol.memory import AgentState
from jiyi.settings import Settings

DEPLOYMENT = Settings(importance_trigger_max=150)


@pytest.mark.parametrize(
    ("own", "left", "expected"),
    [
        ({}, 150, (0, 150, False)),
        ({}, 30, (120, 150, False)),
        ({}, 0, (150, 150, True)),
        ({}, -4, (154, 150, True)),
        ({"importance_trigger_max": 20}, 5, (15, 20, False)),
    ],
)
def test_what_events_have_added_up_to_is_compared_with_the_agents_own_threshold(
    own: dict[str, Any], left: float, expected: tuple[float, float, bool]
) -> None:
    agent = AgentState(
        agent_id="Ada",
        settings=own,
        node_count=1,
        type_counts={"event": 1},
        importance_trigger_curr=left,
        importance_ele_n=1,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    found = with_progress(agent, DEPLOYMENT)
    assert (found.agent_id, found.reflection.gathered, found.reflection.max, found.reflection.owed) == ("Ada", *expected)
