"""Votes, and the trust that they come to; counted anew each time, so that order and repetition make no difference."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.events import Vote
from jiyi.protocol.growth.artifact_types import EvolutionEvent, Trust
from models.growth.artifacts import evolution
from models.memory.agents.agents import AgentName

#: Owed by an event that brought a vote.
WEIGH = "weigh"


def owner_of(connection: Connection, group_id: str, vote: Vote) -> AgentName | None:
    """The agent whose artifact it is, locked until the transaction ends; None if it is not there (any more)."""
    parameters = {"group": group_id, "id": vote.artifact_id, "artifact": vote.artifact}
    agent_id = connection.execute(_OWNER, parameters).scalar_one_or_none()
    return None if agent_id is None else (group_id, agent_id)


def give(connection: Connection, name: AgentName, feedback_id: UUID, vote: Vote, by: str, now: datetime) -> Trust:
    """Store a vote, once, and what all votes on its artifact come to. Call it after :func:`owner_of`."""
    parameters = {"group": name[0], "agent": name[1], "id": vote.artifact_id, "feedback": feedback_id, "by": by, "now": now}
    new = connection.execute(_GIVE, parameters | vote.model_dump(include={"signal", "sentiment", "comment"})).rowcount == 1
    made = Trust.model_validate(dict(connection.execute(_COUNT, parameters).mappings().one()))
    before = connection.execute(_BEFORE, parameters).scalar_one_or_none()
    found = {"positive": made.positive, "negative": made.negative, "neutral": made.neutral}
    connection.execute(_SAVE, parameters | found | {"score": made.score, "recommendation": made.recommendation})
    told: dict[str, Any] = {"agent_id": name[1], "artifact": vote.artifact, "artifact_id": vote.artifact_id, "trust_score": made.score}
    if new:
        evolution.record(connection, name[0], by, EvolutionEvent(kind="feedback_given", **told))
    if made.recommendation is not None and made.recommendation != before:
        evolution.record(connection, name[0], by, EvolutionEvent(kind="recommended", recommendation=made.recommendation, **told))
    return made


def ignore(connection: Connection, name: AgentName, vote: Vote, by: str) -> None:
    """Note that a vote is on something that is not there."""
    event = EvolutionEvent(kind="feedback_ignored", agent_id=name[1], artifact=vote.artifact, artifact_id=vote.artifact_id)
    evolution.record(connection, name[0], by, event)


def of_event(connection: Connection, event_id: UUID) -> tuple[AgentName, Vote, datetime] | None:
    """Who published a vote, and what it says; None if it was erased."""
    row = connection.execute(_EVENT, {"id": event_id}).one_or_none()
    return None if row is None else ((row.group_id, row.agent_id), Vote.model_validate(row.payload), row.occurred_at)


_OWNER = text("""
    SELECT agent_id FROM artifacts
    WHERE group_id = :group AND artifact_id = :id AND artifact = :artifact AND status NOT IN ('deleted', 'refused') FOR NO KEY UPDATE
""")
_GIVE = text("""
    INSERT INTO feedback (group_id, feedback_id, agent_id, artifact_id, signal, sentiment, comment, given_by, given_at)
    VALUES (:group, :feedback, :agent, :id, :signal, :sentiment, :comment, :by, :now) ON CONFLICT DO NOTHING
""")
_COUNT = text("""
    SELECT count(*) FILTER (WHERE sentiment = 'positive') AS positive, count(*) FILTER (WHERE sentiment = 'negative') AS negative,
        count(*) FILTER (WHERE sentiment = 'neutral') AS neutral FROM feedback WHERE group_id = :group AND artifact_id = :id
""")
_BEFORE = text("SELECT recommendation FROM trust WHERE group_id = :group AND artifact_id = :id")
_SAVE = text("""
    INSERT INTO trust (artifact_id, group_id, agent_id, positive, negative, neutral, score, recommendation, updated_at)
    VALUES (:id, :group, :agent, :positive, :negative, :neutral, :score, :recommendation, :now)
    ON CONFLICT (artifact_id) DO UPDATE SET positive = excluded.positive, negative = excluded.negative, neutral = excluded.neutral,
        score = excluded.score, recommendation = excluded.recommendation, updated_at = excluded.updated_at
""")
_EVENT = text("""
    SELECT group_id, agent_id, payload, occurred_at FROM events
    WHERE event_id = :id AND type = 'feedback.given' AND outcome <> 'erased'
""")
