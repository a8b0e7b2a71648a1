"""Votes on skills and workflows, the trust that they come to, and evolution events in the audit log.

Trust is counted anew each time, so that order and repetition make no difference.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.artifacts import KINDS, PREFIX, EvolutionEvent, EvolutionRow, Trust, Vote
from jiyi.protocol.base import JsonObject
from jiyi.protocol.events import FeedbackGiven
from models.accounts import audit
from models.memory.agents import AgentName
from models.memory.event_types import EventType, register_event


def record_event(connection: Connection, group_id: str, actor: str, event: EvolutionEvent) -> None:
    """Write it, in the transaction of the change itself."""
    details = event.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
    audit.record(connection, group_id=group_id, actor=actor, action=f"{PREFIX}{event.kind}", target=str(event.artifact_id), **details)


def evolution_events(
    connection: Connection, group_id: str, *, agent_id: str | None, artifact_id: UUID | None, before: UUID | None, limit: int
) -> list[EvolutionRow]:
    """The group's evolution events, newest first."""
    parameters = {"group": group_id, "agent": agent_id, "before": before, "limit": limit}
    target = None if artifact_id is None else str(artifact_id)
    rows = connection.execute(_EVENTS, parameters | {"actions": [f"{PREFIX}{kind}" for kind in KINDS], "target": target})
    return [_event_of(row.audit_id, row.at, row.actor, row.action, row.details) for row in rows if row.details]


def _event_of(audit_id: UUID, at: datetime, actor: str, action: str, details: JsonObject) -> EvolutionRow:
    return EvolutionRow.model_validate({"id": audit_id, "at": at, "actor": actor, "kind": action.removeprefix(PREFIX), **details})


_EVENTS = text("""
    SELECT audit_id, at, actor, action, details FROM audit_log
    WHERE group_id = :group AND action = ANY(:actions)
      AND (CAST(:agent AS text) IS NULL OR details ->> 'agent_id' = :agent)
      AND (CAST(:target AS text) IS NULL OR target = :target)
      AND (CAST(:before AS uuid) IS NULL OR audit_id < :before)
    ORDER BY audit_id DESC LIMIT :limit
""")


#: Owed by an event that brought a vote.
WEIGH = "weigh"

register_event(FeedbackGiven, EventType(owes=WEIGH))


def lock_owner(connection: Connection, group_id: str, vote: Vote) -> AgentName | None:
    """The agent whose artifact it is, locked until the transaction ends; None if it is not there (any more)."""
    parameters = {"group": group_id, "id": vote.artifact_id, "artifact": vote.artifact}
    agent_id = connection.execute(_OWNER, parameters).scalar_one_or_none()
    return None if agent_id is None else (group_id, agent_id)


def count_vote(connection: Connection, name: AgentName, feedback_id: UUID, vote: Vote, by: str, now: datetime) -> Trust:
    """Store a vote, once, and what all votes on its artifact come to. Call it after :func:`owner_of`."""
    parameters = {"group": name[0], "agent": name[1], "id": vote.artifact_id, "feedback": feedback_id, "by": by, "now": now}
    new = connection.execute(_GIVE, parameters | vote.model_dump(include={"signal", "sentiment", "comment"})).rowcount == 1
    trust = Trust.model_validate(dict(connection.execute(_COUNT, parameters).mappings().one()))
    before = connection.execute(_BEFORE, parameters).scalar_one_or_none()
    counts = {"positive": trust.positive, "negative": trust.negative, "neutral": trust.neutral}
    connection.execute(_SAVE, parameters | counts | {"score": trust.score, "recommendation": trust.recommendation})
    details: dict[str, Any] = {"agent_id": name[1], "artifact": vote.artifact, "artifact_id": vote.artifact_id, "trust_score": trust.score}
    if new:
        record_event(connection, name[0], by, EvolutionEvent(kind="feedback_given", **details))
    if trust.recommendation is not None and trust.recommendation != before:
        record_event(connection, name[0], by, EvolutionEvent(kind="recommended", recommendation=trust.recommendation, **details))
    return trust


def note_ignored_vote(connection: Connection, name: AgentName, vote: Vote, by: str) -> None:
    """Note that a vote is on something that is not there."""
    event = EvolutionEvent(kind="feedback_ignored", agent_id=name[1], artifact=vote.artifact, artifact_id=vote.artifact_id)
    record_event(connection, name[0], by, event)


def vote_of_event(connection: Connection, event_id: UUID) -> tuple[AgentName, Vote, datetime] | None:
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
