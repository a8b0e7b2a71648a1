"""Pain points as they are stored: found, merged with those alike, solved, dismissed."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, bindparam, select, text
from uuid6 import uuid7

from engine.growth.pains.merging import most_alike
from jiyi.protocol.growth.pain_types import FoundPain, Severity, confidence_of, graver
from jiyi.protocol.growth.pains import PainPoint
from models.db.rows import columns, fetch, fetch_one
from models.growth.pains import tables
from models.growth.tracking import tallies
from models.memory.agents.agents import AgentName, bind_name

#: What each distinct turn that tells of a pain point adds to its confidence.
CONFIDENCE_STEP = 0.25
#: Pain points of an agent, those felt last, that a new one is compared with.
MAX_KNOWN = 200


class Told(BaseModel):
    """By which turn, or report, a pain was told."""

    source_id: UUID
    quote: str
    said_at: datetime
    session_id: str | None = None
    #: Whom it hurts; the agent's user, unless named.
    user_id: str | None = None


def merge(connection: Connection, name: AgentName, found: FoundPain, told: Told) -> PainPoint:
    """The pain point with what was told now: a known one that is alike, or a new one. A turn counts once.

    One that was solved is open again, and counts anew; one that was dismissed stays so. Call it under the agent's lock.
    """
    user = told.user_id or name[1]
    known = [pain for pain in latest(connection, name, MAX_KNOWN) if pain.user_id == user]
    place = most_alike(found.summary, [pain.summary for pain in known])
    if place is None:
        pain_id: UUID = uuid7()
        fields = {"id": pain_id, "user": user, "at": told.said_at, **found.model_dump(include={"summary", "category", "severity"})}
        connection.execute(_NEW, bind_name(name) | fields)
        tallies.note(connection, name, "pain", grown=1)
        severity = found.severity
    else:
        pain_id, severity = known[place].pain_id, graver(known[place].severity, found.severity)
    evidence = {"pain": pain_id, "source": told.source_id, "session": told.session_id, "quote": told.quote, "at": told.said_at}
    if connection.execute(_EVIDENCE, bind_name(name) | evidence).rowcount:
        _count(connection, name, pain_id, severity)
    changed = find(connection, name[0], pain_id)
    assert changed is not None  # it is locked by its agent
    return changed


def recount(connection: Connection, name: AgentName, pain_id: UUID) -> None:
    """Count anew what tells of it, after some of that has gone."""
    pain = find(connection, name[0], pain_id)
    if pain is not None:
        _count(connection, name, pain_id, pain.severity)


def _count(connection: Connection, name: AgentName, pain_id: UUID, severity: Severity) -> None:
    turns = connection.execute(_TURNS, bind_name(name) | {"pain": pain_id}).scalar_one()
    confidence = confidence_of(turns, CONFIDENCE_STEP)
    connection.execute(_COUNT, bind_name(name) | {"pain": pain_id, "turns": turns, "confidence": confidence, "severity": severity})


def set_status(connection: Connection, name: AgentName, pain_id: UUID, status: str) -> None:
    """Change the status; from the moment it is ``solved`` its evidence counts anew."""
    connection.execute(_STATUS, bind_name(name) | {"pain": pain_id, "status": status})


def find(connection: Connection, group_id: str, pain_id: UUID) -> PainPoint | None:
    return fetch_one(connection, PainPoint, _ONE, group=group_id, pain=pain_id)


def latest(connection: Connection, name: AgentName, limit: int) -> list[PainPoint]:
    """The agent's pain points, those felt last first."""
    return fetch(connection, PainPoint, _LATEST, **bind_name(name), limit=limit)


def quotes(connection: Connection, group_id: str, pain_id: UUID, limit: int) -> list[Told]:
    """What was told of it, the newest first."""
    return fetch(connection, Told, _QUOTES, group=group_id, pain=pain_id, limit=limit)


_P = tables.PainPoint
_SHOWN = select(*columns(PainPoint, _P))
_ONE = _SHOWN.where(_P.group_id == bindparam("group"), _P.pain_id == bindparam("pain"))
_OF_AGENT = _SHOWN.where(_P.group_id == bindparam("group"), _P.agent_id == bindparam("agent"))
_LATEST = _OF_AGENT.order_by(_P.last_seen.desc(), _P.pain_id.desc()).limit(bindparam("limit"))
_QUOTES = text("""
    SELECT e.source_id, e.quote, e.said_at, e.session_id, p.user_id FROM pain_evidence e JOIN pain_points p USING (group_id, pain_id)
    WHERE e.group_id = :group AND e.pain_id = :pain ORDER BY e.said_at DESC, e.source_id DESC LIMIT :limit
""")
_NEW = text("""
    INSERT INTO pain_points (pain_id, group_id, agent_id, user_id, summary, category, severity, first_seen, last_seen)
    VALUES (:id, :group, :agent, :user, :summary, :category, :severity, :at, :at)
""")
_EVIDENCE = text("""
    INSERT INTO pain_evidence (group_id, pain_id, source_id, session_id, quote, said_at)
    VALUES (:group, :pain, :source, :session, :quote, :at) ON CONFLICT DO NOTHING
""")
_TURNS = text("""
    SELECT count(*) FROM pain_evidence e JOIN pain_points p USING (group_id, pain_id)
    WHERE e.group_id = :group AND e.pain_id = :pain AND (p.solved_at IS NULL OR e.said_at > p.solved_at)
""")
# Times are those of the turns, which may come in any order.
_COUNT = text("""
    UPDATE pain_points p SET occurrence_count = :turns, confidence = :confidence, severity = :severity,
        first_seen = coalesce(e.first, p.first_seen), last_seen = coalesce(e.last, p.last_seen),
        status = CASE WHEN p.status = 'solved' AND :turns > 0 THEN 'open' ELSE p.status END
    FROM (SELECT min(said_at) AS first, max(said_at) AS last FROM pain_evidence WHERE group_id = :group AND pain_id = :pain) AS e
    WHERE p.group_id = :group AND p.agent_id = :agent AND p.pain_id = :pain
""")
# Turns carry the time of the agent's world: what was told up to the last of them is what was solved.
_STATUS = text("""
    UPDATE pain_points SET status = :status, solved_at = CASE WHEN :status = 'solved' THEN last_seen ELSE solved_at END
    WHERE group_id = :group AND agent_id = :agent AND pain_id = :pain
""")
