"""Trajectories and raw steps, read."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, Uuid, any_, bindparam, select, text
from sqlalchemy.dialects.postgresql import ARRAY

from jiyi.errors import NotFound
from jiyi.protocol.growth.trajectories import (
    StepRows,
    StepsQuery,
    StepState,
    TrajectoriesQuery,
    TrajectoryId,
    TrajectoryRows,
    TrajectoryState,
)
from models.db.actions import Context, action
from models.db.conditions import equal_if_given
from models.db.rows import columns, fetch
from models.growth.trajectories.storing import session_key
from models.growth.trajectories.tables import TrajectoryRow


@action("trajectories.list")
def list_trajectories(context: Context, request: TrajectoriesQuery) -> TrajectoryRows:
    """List an agent's trajectories.

    What sessions' steps were compressed to, newest first, page by page: request, tools, how it ended, and the chain of steps.
    """
    rows = page(context.connection, context.group_id, request.agent_id, request.session_id, request.before, request.limit)
    return TrajectoryRows(rows=rows, next=rows[-1].id if len(rows) == request.limit else None)


@action("trajectories.get")
def get(context: Context, request: TrajectoryId) -> TrajectoryState:
    """Get one trajectory.

    By its id, which patterns and workflows name as evidence.
    """
    row = context.connection.execute(_ONE, {"group": context.group_id, "id": request.id}).mappings().one_or_none()
    if row is None:
        raise NotFound(f"id: no trajectory {request.id} in the group {context.group_id!r}")
    return TrajectoryState.model_validate(dict(row))


@action("trajectories.steps")
def list_steps(context: Context, request: StepsQuery) -> StepRows:
    """List a session's raw steps.

    In their order, as far as they are still kept: they are deleted after seven days.
    """
    key = session_key(request.agent_id, request.session_id)
    return StepRows(rows=fetch(context.connection, StepState, _STEPS, group=context.group_id, key=key, limit=request.limit))


def page(
    connection: Connection, group_id: str, agent_id: str, session_id: str | None, before: UUID | None, limit: int
) -> list[TrajectoryState]:
    """An agent's trajectories, newest first."""
    wanted = _SHOWN.where(_T.group_id == group_id, _T.agent_id == agent_id, *equal_if_given((_T.session_id, session_id)))
    if before is not None:
        wanted = wanted.where(_T.trajectory_id < before)
    rows = connection.execute(wanted.order_by(_T.trajectory_id.desc()).limit(limit)).mappings()
    return [TrajectoryState.model_validate(dict(row)) for row in rows]


def some(connection: Connection, group_id: str, ids: Sequence[UUID]) -> list[TrajectoryState]:
    """Those of the trajectories that are there, newest first."""
    rows = connection.execute(_SOME, {"group": group_id, "ids": list(ids)}).mappings()
    return [TrajectoryState.model_validate(dict(row)) for row in rows]


_T = TrajectoryRow
_SHOWN = select(*columns(TrajectoryState, _T, id=_T.trajectory_id, outcome=_T.completion))
_ONE = _SHOWN.where(_T.group_id == bindparam("group"), _T.trajectory_id == bindparam("id"))
_AMONG = _T.trajectory_id == any_(bindparam("ids", type_=ARRAY(Uuid)))
_SOME = _SHOWN.where(_T.group_id == bindparam("group"), _AMONG).order_by(_T.trajectory_id.desc())
_STEPS = text("""
    SELECT event_id, step_index, step_type, tool, input_summary, output_summary, ok, tokens, duration_ms, occurred_at, trajectory_id
    FROM trajectory_events WHERE group_id = :group AND session_key = :key ORDER BY step_index, occurred_at, event_id LIMIT :limit
""")
