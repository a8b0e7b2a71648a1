"""Proposals against pain points, with their steps; the confirmed one becomes an experience."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, and_, bindparam, func, literal, select, text
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from uuid6 import uuid7

from engine.conversations.stored.experiences import pattern_hash
from engine.conversations.stored.memories import Source
from engine.growth.pains.confirming import Offer
from jiyi.protocol.conversations.types import ExtractedExperience, Message
from jiyi.protocol.conversations.uris import uri_of
from jiyi.protocol.growth.pain_types import ProposedSolution
from jiyi.protocol.growth.pains import PainPoint, SolutionProposal
from models.conversations import experiences
from models.db.base import EMPTY_LIST
from models.db.rows import columns, fetch, fetch_one
from models.growth.artifacts.growing import AGGREGATE
from models.growth.pains import pains, tables
from models.growth.tracking import tallies
from models.memory.agents import agents
from models.memory.agents.agents import AgentName
from models.memory.ingestion.inbox import Stored
from models.queue import pending_work

#: From this confidence on a solution of a pain point is proposed.
PROPOSE_CONFIDENCE = 0.7

#: Proposals of an agent that are looked at to see which of them helped, the latest.
MAX_OFFERS = 50
#: How sure an experience is that somebody confirmed.
CONFIRMED = 0.9
#: A rejected proposal comes back when so many times the turns tell of the pain.
AGAIN_FROM = 2
#: Kept with the experience as what it comes from.
BY_CONFIRMATION = "proposal"


def wanted(connection: Connection, group_id: str, pain: PainPoint) -> bool:
    """Whether the agent is to propose something: it is sure of the pain, and nobody has been asked or said no to as much."""
    if pain.status != "open" or pain.confidence < PROPOSE_CONFIDENCE:
        return False
    before = connection.execute(_TURNS_BEFORE, {"group": group_id, "pain": pain.pain_id}).scalar_one()
    return before is None or pain.occurrence_count >= AGAIN_FROM * before


def add(connection: Connection, name: AgentName, pain: PainPoint, made: ProposedSolution, by: str) -> SolutionProposal | None:
    """Store it, to be decided on; None if one waits already. Call it under the agent's lock."""
    fields = {"id": uuid7(), "group": name[0], "pain": pain.pain_id, "title": made.title, "by": by, "turns": pain.occurrence_count}
    if connection.execute(_ADD, fields).rowcount == 0:
        return None
    steps = [{"group": name[0], "id": fields["id"], "number": number, "step": step} for number, step in enumerate(made.steps, 1)]
    connection.execute(_ADD_STEP, steps)
    pains.set_status(connection, name, pain.pain_id, "proposed")
    tallies.note(connection, name, "proposal", grown=1)
    return find(connection, name[0], fields["id"])


def find(connection: Connection, group_id: str, proposal_id: object) -> SolutionProposal | None:
    return fetch_one(connection, SolutionProposal, _ONE, group=group_id, id=proposal_id)


def of_pain(connection: Connection, group_id: str, pain_id: UUID) -> list[SolutionProposal]:
    """All of them, the latest first."""
    return fetch(connection, SolutionProposal, _OF_PAIN, group=group_id, pain=pain_id)


def offers(connection: Connection, name: AgentName) -> list[Offer]:
    """The agent's proposals that wait, the latest first."""
    rows = connection.execute(_OFFERS, {"group": name[0], "agent": name[1], "limit": MAX_OFFERS})
    return [Offer(row.proposal_id, row.summary, row.steps) for row in rows]


def decide(connection: Connection, group_id: str, proposal_id: UUID, status: str, by: str) -> bool:
    """False if it was decided on meanwhile."""
    return connection.execute(_DECIDE, {"group": group_id, "id": proposal_id, "status": status, "by": by}).rowcount == 1


def confirm(
    connection: Connection, name: AgentName, pain: PainPoint, proposal: SolutionProposal, by: str, now: datetime, turns: Sequence[UUID] = ()
) -> tuple[Stored, str] | None:
    """It helped: it becomes an experience, whose address comes back, and the pain point is solved. None if it was decided on.

    ``turns`` are those that say so. Call it under the agent's lock.
    """
    if not decide(connection, name[0], proposal.proposal_id, "confirmed", by):
        return None
    told = pains.quotes(connection, name[0], pain.pain_id, 1)
    evidence = list(turns) or [one.source_id for one in told] or [proposal.proposal_id]
    experience = ExtractedExperience(
        pain_pattern=pain.summary, solution_steps=proposal.steps, outcome="success", confidence=CONFIRMED, turns=list(range(len(evidence)))
    )
    source = Source(
        group_id=name[0],
        agent_id=name[1],
        session_id=told[0].session_id or "" if told else "",
        messages=[Message(role="user", text=pain.summary, at=now)] * len(evidence),
        turn_ids=evidence,
        llm=proposal.made_by,
        prompt=BY_CONFIRMATION,
    )
    stored = experiences.keep(connection, name, experience, source, now)
    pending_work.enqueue(connection, AGGREGATE, [(key, name[0]) for key in [agents.key_of(connection, *name)] if key is not None])
    stored.owed[AGGREGATE] += 1
    pains.set_status(connection, name, pain.pain_id, "solved")
    tallies.note(connection, name, "proposal", used=1)
    tallies.note(connection, name, "experience", grown=1)
    return stored, uri_of(name[1], "experience", pattern_hash(pain.summary).hex())


_P, _Q, _STEP = tables.Proposal, tables.PainPoint, tables.ProposalStep
_IN_ORDER = func.jsonb_agg(aggregate_order_by(_STEP.step, _STEP.number), type_=JSONB)
_AGGREGATED = select(_IN_ORDER).where(_STEP.group_id == _P.group_id, _STEP.proposal_id == _P.proposal_id)
_STEPS = func.coalesce(_AGGREGATED.scalar_subquery(), EMPTY_LIST, type_=JSONB).label("steps")
_SHOWN = select(*columns(SolutionProposal, _P, steps=_STEPS))
_ONE = _SHOWN.where(_P.group_id == bindparam("group"), _P.proposal_id == bindparam("id"))
_OF_PAIN = _SHOWN.where(_P.group_id == bindparam("group"), _P.pain_id == bindparam("pain")).order_by(
    _P.created_at.desc(), _P.proposal_id.desc()
)
_OFFERS = (
    select(_P.proposal_id, _Q.summary, _STEPS)
    .join(_Q, and_(_Q.group_id == _P.group_id, _Q.pain_id == _P.pain_id))
    .where(_P.group_id == bindparam("group"), _Q.agent_id == bindparam("agent"), _P.status == literal("pending", literal_execute=True))
    .order_by(_P.created_at.desc())
    .limit(bindparam("limit"))
)
_ADD = text("""
    INSERT INTO proposals (proposal_id, group_id, pain_id, title, made_by, turns) VALUES (:id, :group, :pain, :title, :by, :turns)
    ON CONFLICT (group_id, pain_id) WHERE status = 'pending' DO NOTHING
""")
_ADD_STEP = text("INSERT INTO proposal_steps (group_id, proposal_id, number, step) VALUES (:group, :id, :number, :step)")
_DECIDE = text("""
    UPDATE proposals SET status = :status, decided_by = :by, decided_at = clock_timestamp()
    WHERE group_id = :group AND proposal_id = :id AND status = 'pending'
""")
_TURNS_BEFORE = text("SELECT max(turns) FROM proposals WHERE group_id = :group AND pain_id = :pain AND status = 'rejected'")
