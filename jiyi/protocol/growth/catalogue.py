"""Every command on growth by its name: what it takes, what it gives, and which queue of the broker answers it."""

from __future__ import annotations

from pydantic import BaseModel

from jiyi.protocol.growth import identity, pains, reflections, times, tracking
from jiyi.protocol.growth.artifacts import (
    ArtifactId,
    ArtifactRows,
    ArtifactsQuery,
    ArtifactState,
    Deciding,
    EvolutionQuery,
    EvolutionRows,
    GiveFeedback,
    GivenFeedback,
    Hint,
    HintQuery,
    PatternRows,
    PatternsQuery,
    TrustQuery,
    TrustRows,
    VoteRows,
    VotesQuery,
)
from jiyi.protocol.growth.trajectories import StepRows, StepsQuery, TrajectoriesQuery, TrajectoryId, TrajectoryRows, TrajectoryState
from jiyi.protocol.queries import CHANGES, QUEUE

#: Name → request, result, queue. ``models.growth`` has what each does.
COMMANDS: dict[str, tuple[type[BaseModel], type[BaseModel], str]] = {
    "skill_list": (ArtifactsQuery, ArtifactRows, QUEUE),
    "skill_get": (ArtifactId, ArtifactState, QUEUE),
    "skill_accept": (Deciding, ArtifactState, CHANGES),
    "skill_decline": (Deciding, ArtifactState, CHANGES),
    "skill_enable": (ArtifactId, ArtifactState, CHANGES),
    "skill_disable": (ArtifactId, ArtifactState, CHANGES),
    "skill_archive": (Deciding, ArtifactState, CHANGES),
    "skill_delete": (ArtifactId, ArtifactState, CHANGES),
    "workflow_list": (ArtifactsQuery, ArtifactRows, QUEUE),
    "workflow_get": (ArtifactId, ArtifactState, QUEUE),
    "workflow_accept": (Deciding, ArtifactState, CHANGES),
    "workflow_decline": (Deciding, ArtifactState, CHANGES),
    "workflow_enable": (ArtifactId, ArtifactState, CHANGES),
    "workflow_disable": (ArtifactId, ArtifactState, CHANGES),
    "workflow_archive": (Deciding, ArtifactState, CHANGES),
    "workflow_delete": (ArtifactId, ArtifactState, CHANGES),
    "feedback_give": (GiveFeedback, GivenFeedback, CHANGES),
    "feedback_list": (VotesQuery, VoteRows, QUEUE),
    "feedback_trust": (TrustQuery, TrustRows, QUEUE),
    "evolution_patterns": (PatternsQuery, PatternRows, QUEUE),
    "evolution_events": (EvolutionQuery, EvolutionRows, QUEUE),
    "evolution_hint": (HintQuery, Hint, QUEUE),
    "trajectory_list": (TrajectoriesQuery, TrajectoryRows, QUEUE),
    "trajectory_get": (TrajectoryId, TrajectoryState, QUEUE),
    "trajectory_steps": (StepsQuery, StepRows, QUEUE),
    **pains.COMMANDS,
    **identity.COMMANDS,
    **reflections.COMMANDS,
    **tracking.COMMANDS,
    **times.COMMANDS,
}
