"""Pain points: found in new turns, merged with similar ones; what helped against one is an experience."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import aliased
from uuid6 import uuid7

from engine.conversations.memories import StoredExperience, pattern_hash
from engine.growth.pains import FoundPain, Offer, ProposedSolution, most_similar
from jiyi.protocol import limits
from jiyi.protocol.base import BY_ID
from jiyi.protocol.conversations import uri_of
from jiyi.protocol.growth import ListPains, PainEvidence, PainPoint, Severity, confidence_of, graver
from jiyi.protocol.proposals import ListProposals, SolutionProposal
from models.conversations import experiences, extractions
from models.conversations.extractions import Session, StoredTurn
from models.db.rows import columns, equal_if_given, fetch, fetch_one
from models.growth import proposals, tables, work
from models.growth.proposals import Decision, follows
from models.growth.work import AGGREGATE
from models.memory import agents
from models.memory.agents import AgentName, bind_name
from models.queue import pending_work

#: What each distinct turn that reports a pain point adds to its confidence.
CONFIDENCE_STEP = 0.25
#: Pain points of an agent, those felt last, that a new one is compared with.
MAX_KNOWN = 200
#: From this confidence on a solution of a pain point is proposed.
PROPOSE_CONFIDENCE = 0.7


class PainReport(PainEvidence):
    """The turn, or report, that is evidence of a pain point."""

    #: Whom it hurts, if somebody was named.
    user_id: str | None = None


def merge_pain(connection: Connection, name: AgentName, pain: FoundPain, report: PainReport) -> PainPoint:
    """Add the report to a similar known pain point, or to a new one; returns that. A turn counts once.

    A solved one is open again, and counts only later evidence; a dismissed one stays dismissed. Call it under
    the agent's lock.
    """
    latest = latest_pains(connection, name, MAX_KNOWN)
    known_pains = [other for other in latest if other.user_id == report.user_id]
    place = most_similar(pain.summary, [other.summary for other in known_pains])
    if place is None:
        pain_id: UUID = uuid7()
        own = {"pain_id": pain_id, "group_id": name[0], "agent_id": name[1], "user_id": report.user_id}
        says = pain.model_dump(include={"summary", "category", "severity"})
        dates = {"first_seen": report.said_at, "last_seen": report.said_at}
        connection.execute(insert(_P).values(**own, **says, **dates))
        work.note(connection, name, "pain", grown=1)
        severity = pain.severity
    else:
        pain_id, severity = known_pains[place].pain_id, graver(known_pains[place].severity, pain.severity)
    evidence = report.model_dump(exclude={"user_id"})
    table = tables.PainEvidenceRow
    insert_once = insert(table).values(group_id=name[0], pain_id=pain_id, **evidence).on_conflict_do_nothing()
    if connection.execute(insert_once.returning(table.pain_id)).one_or_none() is not None:
        _count(connection, name, pain_id, severity)
    changed = find_pain(connection, name[0], pain_id)
    assert changed is not None  # it is locked by its agent
    return changed


def recount(connection: Connection, name: AgentName, pain_id: UUID) -> None:
    """Count its evidence again, after some of that was deleted."""
    pain = find_pain(connection, name[0], pain_id)
    if pain is not None:
        _count(connection, name, pain_id, pain.severity)


def _count(connection: Connection, name: AgentName, pain_id: UUID, severity: Severity) -> None:
    turns = connection.execute(_TURNS, bind_name(name) | {"pain": pain_id}).scalar_one()
    confidence = confidence_of(turns, CONFIDENCE_STEP)
    counted = {"pain": pain_id, "turns": turns, "confidence": confidence, "severity": severity}
    connection.execute(_COUNT, bind_name(name) | counted)


def set_status(connection: Connection, name: AgentName, pain_id: UUID, status: str) -> None:
    """Change the status; once it is ``solved``, only later evidence counts."""
    connection.execute(_STATUS, bind_name(name) | {"pain": pain_id, "status": status})


def find_pain(connection: Connection, group_id: str, pain_id: UUID) -> PainPoint | None:
    return fetch_one(connection, PainPoint, _ONE, group=group_id, pain=pain_id)


def latest_pains(connection: Connection, name: AgentName, limit: int) -> list[PainPoint]:
    """The agent's pain points, those felt last first."""
    return fetch(connection, PainPoint, _LATEST, **bind_name(name), limit=limit)


def quotes(connection: Connection, group_id: str, pain_id: UUID, limit: int) -> list[PainReport]:
    """Its evidence, the newest first."""
    return fetch(connection, PainReport, _QUOTES, group=group_id, pain=pain_id, limit=limit)


_P = tables.PainPointRow
_SHOWN = select(*columns(PainPoint, _P, evidence=None, proposals=None))
_ONE = _SHOWN.where(_P.group_id == bindparam("group"), _P.pain_id == bindparam("pain"))
_OF_AGENT = _SHOWN.where(_P.group_id == bindparam("group"), _P.agent_id == bindparam("agent"))
_LATEST = _OF_AGENT.order_by(_P.last_seen.desc(), _P.pain_id.desc()).limit(bindparam("limit"))
_QUOTES = text("""
    SELECT e.source_id, e.quote, e.said_at, e.session_id, p.user_id FROM pain_evidence e
    JOIN pain_points p USING (group_id, pain_id)
    WHERE e.group_id = :group AND e.pain_id = :pain ORDER BY e.said_at DESC, e.source_id DESC LIMIT :limit
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
    FROM (SELECT min(said_at) AS first, max(said_at) AS last FROM pain_evidence WHERE group_id = :group
    AND pain_id = :pain) AS e
    WHERE p.group_id = :group AND p.agent_id = :agent AND p.pain_id = :pain
""")
# Turns carry the time of the agent's world: what is solved is the evidence up to the last of them.
_STATUS = text("""
    UPDATE pain_points SET status = :status, solved_at = CASE WHEN :status = 'solved' THEN last_seen ELSE
    solved_at END
    WHERE group_id = :group AND agent_id = :agent AND pain_id = :pain
""")


def pain_page(connection: Connection, group_id: str, request: ListPains) -> list[PainPoint]:
    """One more than asked for, if there are more: those felt last first."""
    query = _SHOWN.where(
        _P.group_id == group_id, *equal_if_given((_P.agent_id, request.agent_id), (_P.status, request.status))
    )
    if (before := request.place(BY_ID)) is not None:
        last = aliased(_P)
        place = select(last.last_seen, last.pain_id).where(last.group_id == group_id, last.pain_id == before)
        query = query.where(tuple_(_P.last_seen, _P.pain_id) < place.scalar_subquery())
    return fetch(
        connection, PainPoint, query.order_by(_P.last_seen.desc(), _P.pain_id.desc()).limit(request.limit + 1)
    )


#: Proposals of an agent that are looked at to see which of them helped, the latest.
MAX_OFFERS = 50
#: How sure an experience is that somebody confirmed.
CONFIRMED = 0.9
#: A rejected proposal comes back when the number of turns that report the pain has grown by this factor.
AGAIN_FROM = 2
#: Kept with the experience as what it comes from.
BY_CONFIRMATION = "proposal"


def wants_proposal(connection: Connection, group_id: str, pain: PainPoint) -> bool:
    """Whether to propose something: the agent is sure of the pain, and nobody said no to as much."""
    if pain.status != "open" or pain.confidence < PROPOSE_CONFIDENCE:
        return False
    before = connection.execute(_TURNS_BEFORE, {"group": group_id, "pain": pain.pain_id}).scalar_one()
    return before is None or pain.occurrence_count >= AGAIN_FROM * before


def add_proposal(
    connection: Connection, name: AgentName, pain: PainPoint, solution: ProposedSolution, by: str
) -> SolutionProposal | None:
    """Store it, to be decided on; None if one waits already. Call it under the agent's lock."""
    of_pain = {"pain_id": pain.pain_id, "user_id": pain.user_id, "evidence_count": pain.occurrence_count}
    proposal = proposals.add(connection, name, "solution", solution.model_dump(), by, **of_pain)
    if not isinstance(proposal, SolutionProposal):
        return None
    set_status(connection, name, pain.pain_id, "proposed")
    work.note(connection, name, "proposal", grown=1)
    return proposal


def proposals_of(connection: Connection, group_id: str, pain_id: UUID) -> list[SolutionProposal]:
    """All of them, the latest first."""
    rows = proposals.find(connection, group_id, ListProposals(limit=limits.MAX_PAGE), pain_id=pain_id)
    return [proposal for proposal in rows if isinstance(proposal, SolutionProposal)]


def open_offers(connection: Connection, name: AgentName) -> list[Offer]:
    """The agent's proposals that wait, the latest first."""
    rows = connection.execute(_OFFERS, {"group": name[0], "agent": name[1], "limit": MAX_OFFERS})
    return [Offer(row.proposal_id, row.summary, row.steps) for row in rows]


@follows("solution")
def keep_what_helped(decision: Decision) -> None:
    """What helped becomes an experience, and the pain point is solved; else it is open again."""
    connection, name, proposal = decision.connection, decision.name, decision.proposal
    pain = find_pain(connection, name[0], proposal.pain_id)
    assert pain is not None  # its proposals go with it
    if decision.choice.outcome == "rejected":
        set_status(connection, name, pain.pain_id, "open")
        return
    reports = quotes(connection, name[0], pain.pain_id, 1)
    evidence = list(decision.turns) or [report.source_id for report in reports] or [proposal.id]
    experience = StoredExperience(
        pain_pattern=pain.summary, solution_steps=proposal.steps, outcome="success", confidence=CONFIRMED
    )
    session = reports[0].session_id or "" if reports else ""
    provenance = {"session": session, "llm": proposal.made_by, "prompt": BY_CONFIRMATION}
    user_id = connection.execute(_SOURCE_USER, {"group": name[0], "ids": evidence}).scalar_one_or_none()
    when: dict[str, Any] = {"at": decision.at, "now": decision.at}
    about: dict[str, Any] = {"evidence": evidence, "provenance": provenance, "user_id": user_id}
    experiences.keep(connection, name, experience, **when, **about)
    if (agent_key := agents.key_of(connection, *name)) is not None:
        pending_work.enqueue(connection, AGGREGATE, [(agent_key, name[0])])
    set_status(connection, name, pain.pain_id, "solved")
    work.note(connection, name, "proposal", used=1)
    work.note(connection, name, "experience", grown=1)
    decision.became["experience"] = uri_of(name[1], "experience", pattern_hash(pain.summary, user_id).hex())


_OFFERS = text("""
    SELECT o.proposal_id, p.summary, o.content -> 'steps' AS steps FROM proposals o
    JOIN pain_points p USING (group_id, pain_id)
    WHERE o.group_id = :group AND o.agent_id = :agent AND o.status = 'pending'
    ORDER BY o.proposal_id DESC LIMIT :limit
""")
_SOURCE_USER = text("SELECT min(user_id) FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)")
_TURNS_BEFORE = text(
    "SELECT max(evidence_count) FROM proposals WHERE group_id = :group AND pain_id = :pain AND status ="
    " 'rejected'"
)


#: Answers that are searched for advice, the latest.
MAX_ANSWERS = 10


@dataclass(frozen=True, slots=True)
class NewTurns:
    """What one run looks at: the cursor as it was seen, and turns with those before them by session."""

    cursor: int
    turns: list[StoredTurn]
    context: dict[Session, list[StoredTurn]]


def new_turns(connection: Connection, name: AgentName, limit: int) -> NewTurns:
    """The next turns, each session's with what was said right before."""
    cursor = pain_cursor(connection, name)
    end = extractions.cursor(connection, name)
    turns = [
        turn for turn in extractions.new_turns(connection, name, cursor, limit) if turn.node_count <= end
    ]
    context = {
        session: extractions.context_of(connection, name, session, of_session[0].node_count)
        for session, of_session in extractions.sessions_of(turns).items()
    }
    return NewTurns(cursor, turns, context)


def pain_cursor(connection: Connection, name: AgentName) -> int:
    """``node_count`` of the last turn that was processed for pain points."""
    return int(connection.execute(_CURSOR, bind_name(name)).scalar_one_or_none() or 0)


def move_cursor(connection: Connection, name: AgentName, previous: int, to: int) -> bool:
    """Move it from where it was seen; False if another run has moved it."""
    return connection.execute(_MOVE, bind_name(name) | {"seen": previous, "to": to}).rowcount == 1


def is_behind(connection: Connection, name: AgentName) -> bool:
    """Whether extraction has come further; call it under the agent's lock."""
    return pain_cursor(connection, name) < extractions.cursor(connection, name)


def answers_after(connection: Connection, name: AgentName, pain_id: UUID) -> list[str]:
    """The assistants' answers right after the turns that report a pain point, the newest first."""
    parameters = {"group": name[0], "agent": name[1], "pain": pain_id, "limit": MAX_ANSWERS}
    return list(connection.execute(_ANSWERS, parameters).scalars())


_CURSOR = text("SELECT looked_to FROM pain_cursors WHERE group_id = :group AND agent_id = :agent")
_MOVE = text("""
    INSERT INTO pain_cursors AS c (group_id, agent_id, looked_to) VALUES (:group, :agent, :to)
    ON CONFLICT (group_id, agent_id) DO UPDATE SET looked_to = :to WHERE c.looked_to = :seen
""")
_ANSWERS = text("""
    SELECT a.description FROM pain_evidence e
    JOIN memory_nodes n ON n.group_id = e.group_id AND n.node_id = e.source_id AND n.agent_id = :agent
    CROSS JOIN LATERAL (
        SELECT m.description, m.provenance ->> 'role' AS role FROM memory_nodes m
        WHERE m.group_id = n.group_id AND m.agent_id = n.agent_id AND m.kind = 'session'
        AND m.session_id = n.session_id
          AND m.user_id IS NOT DISTINCT FROM n.user_id AND m.node_count > n.node_count
          ORDER BY m.node_count LIMIT 1
    ) AS a
    WHERE e.group_id = :group AND e.pain_id = :pain AND a.role = 'assistant' ORDER BY e.said_at DESC
    LIMIT :limit
""")
