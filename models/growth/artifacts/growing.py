"""What aggregation and composition start from: an agent's experiences, and its latest trajectories."""

from __future__ import annotations

from sqlalchemy import Connection, text

from engine.conversations.stored.experiences import StoredExperience
from engine.growth.skills import LivedExperience
from engine.growth.trajectories import Trajectory
from engine.growth.workflows import TrajectoryRun
from models.memory.agents.agents import AgentName, bind_name

#: Kinds of work, owed by an agent: its experiences, or its trajectories, have changed.
AGGREGATE, COMPOSE = "aggregate", "compose"
#: Experiences, and trajectories, that one run looks at: the most used, the latest.
MAX_EXPERIENCES, MAX_TRAJECTORIES = 500, 1_000


def experiences(connection: Connection, name: AgentName) -> list[LivedExperience]:
    """The agent's experiences with the memories that say them."""
    rows = connection.execute(_EXPERIENCES, bind_name(name) | {"limit": MAX_EXPERIENCES})
    return [LivedExperience(row.node_id, row.created_at, StoredExperience.model_validate(row, from_attributes=True)) for row in rows]


def trajectories(connection: Connection, name: AgentName) -> list[TrajectoryRun]:
    """The agent's latest trajectories that used tools."""
    rows = connection.execute(_TRAJECTORIES, bind_name(name) | {"limit": MAX_TRAJECTORIES}).mappings()
    return [TrajectoryRun(row["trajectory_id"], row["session_id"], Trajectory.model_validate(dict(row))) for row in rows]


_EXPERIENCES = text("""
    SELECT * FROM experiences WHERE group_id = :group AND agent_id = :agent ORDER BY reuse_count DESC, updated_at DESC LIMIT :limit
""")
_TRAJECTORIES = text("""
    SELECT trajectory_id, session_id, request_type, request, tools_used, completion AS outcome, satisfaction, tokens, steps, duration_ms,
        execution_chain, started_at, ended_at FROM trajectories
    WHERE group_id = :group AND agent_id = :agent AND cardinality(tools_used) > 0 ORDER BY trajectory_id DESC LIMIT :limit
""")
