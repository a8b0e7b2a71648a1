"""Steps for unit tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.growth.trajectories import TrajectoryStep
from jiyi.protocol.trajectories import StepType

START = datetime(2026, 5, 1, 9, tzinfo=UTC)


def step(index: int, step_type: StepType = "tool_call", **fields: Any) -> TrajectoryStep:
    """A step of a second each; tools' ones of the tool ``search``."""
    tool = {"tool": "search"} if step_type.startswith("tool") else {}
    event_id = fields.pop("event_id", UUID(int=index + 1))
    at = fields.pop("occurred_at", START + timedelta(seconds=index))
    return TrajectoryStep(
        event_id=event_id, step_index=index, step_type=step_type, occurred_at=at, **{**tool, **fields}
    )


def run(*tools: str, ok: bool = True, request: str = "find the invoice") -> list[TrajectoryStep]:
    """A request, each tool with its result, an answer."""
    found = [step(0, "user_request", input=request)]
    for tool in tools:
        found.append(step(len(found), "tool_call", tool=tool, input=f"with {tool}"))
        found.append(step(len(found), "tool_result", tool=tool, output="done", ok=ok))
    return [*found, step(len(found), "generation", output="here it is")]
