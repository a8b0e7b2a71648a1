"""What can be done with pain points: list, get, report, resolve, propose."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from engine.growth.pains import FoundPain, ProposedSolution, category_of, severity_of
from jiyi.chat.secrets import masked
from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol.base import ById, Rows
from jiyi.protocol.growth import (
    ListPains,
    PainChanged,
    PainEvidence,
    PainPoint,
    ProposeSolution,
    ReportPain,
    ResolvePain,
)
from jiyi.protocol.identity import override_in
from jiyi.protocol.proposals import SolutionProposal, Verb
from models.db.actions import Context, action
from models.db.rows import page
from models.growth import pains
from models.growth.pains import PainReport
from models.growth.proposals import decide
from models.growth.work import SOLVE_PAIN
from models.memory.agents import belonging, known_agent, lock_agents

#: Evidence that one answer shows, the newest.
EVIDENCE_SHOWN = 100


@action("pains.list")
def list_pains(context: Context, request: ListPains) -> Rows[PainPoint]:
    """List pain points.

    What hurts users, those felt last first: how often it was reported, how sure that makes it, and whether
    something is proposed.
    """
    rows = pains.pain_page(context.connection, context.group_id, request)
    return page(rows, request.limit, lambda last: last.pain_id)


@action("pains.get")
def get_pain(context: Context, request: ById) -> PainPoint:
    """Get a pain point.

    With the turns that report it and what was proposed against it.
    """
    pain = _known(context, request.id)
    reports = pains.quotes(context.connection, context.group_id, pain.pain_id, EVIDENCE_SHOWN)
    evidence = [PainEvidence(**report.model_dump(exclude={"user_id"})) for report in reports]
    proposals = pains.proposals_of(context.connection, context.group_id, pain.pain_id)
    return pain.model_copy(update={"evidence": evidence, "proposals": proposals})


@action("pains.report")
def report_pain(context: Context, request: ReportPain) -> PainChanged:
    """Report a pain point.

    For a problem that a user did not say in a conversation. It raises the confidence of a similar one; a
    report that is sent again with the same id counts once.
    """
    known_agent(context.connection, context.group_id, request.agent_id)
    summary = masked(request.summary)
    pain_found = FoundPain(
        summary=summary,
        category=request.category or category_of(summary),
        severity=request.severity or severity_of(summary),
        turn=0,
    )
    report = PainReport(
        source_id=request.report_id or uuid4(),
        quote=summary,
        said_at=datetime.now(UTC),
        user_id=request.user_id,
    )
    name = (context.group_id, request.agent_id)
    lock_agents(context.connection, [name])
    pain = pains.merge_pain(context.connection, name, pain_found, report)
    if pains.wants_proposal(context.connection, context.group_id, pain):
        context.enqueue(SOLVE_PAIN, [(pain.pain_id, context.group_id)])
    context.audit(str(pain.pain_id), agent=request.agent_id, occurrences=pain.occurrence_count)
    return PainChanged(pain=pain)


@action("pains.resolve")
def resolve_pain(context: Context, request: ResolvePain) -> PainChanged:
    """Resolve a pain point.

    `confirmed`: its proposal helped, and becomes an experience. `rejected`: it did not, and another one comes
    when twice as many turns report it. `dismissed`: nothing more is proposed. `reopened`: it is open again.
    A late decision is refused: the proposal was decided already.
    """
    pain = _locked(context, request.id)
    name = (context.group_id, pain.agent_id)
    uri = None
    by = context.actor.name
    if request.resolution in ("confirmed", "rejected"):
        proposal = _pending(context, pain, request.proposal_id)
        verb: Verb = "approve" if request.resolution == "confirmed" else "reject"
        uri = decide(context.connection, proposal, name, verb, by).became.get("experience")
    else:
        for proposal in pains.proposals_of(context.connection, context.group_id, pain.pain_id):
            if proposal.status == "pending":
                decide(context.connection, proposal, name, "reject", by)
        status = "dismissed" if request.resolution == "dismissed" else "open"
        pains.set_status(context.connection, name, pain.pain_id, status)
    context.audit(str(pain.pain_id), agent=pain.agent_id, resolution=request.resolution, experience=uri)
    return PainChanged(pain=_known(context, pain.pain_id), experience=uri)


@action("pains.propose")
def propose_solution(context: Context, request: ProposeSolution) -> PainChanged:
    """Propose what to do about a pain point.

    With `steps`, these; without, a worker thinks of some, from what helped before and what was advised.
    Nothing comes of a proposal before somebody confirms it.
    """
    pain = _locked(context, request.id)
    if pain.status in ("solved", "dismissed"):
        raise Conflict(f"id: the pain point is {pain.status}; reopen it first (pains.resolve)")
    proposal = None
    if request.steps:
        for number, step in enumerate(request.steps):
            if (override := override_in(step)) is not None:
                attempt = f"reads like an attempt to override instructions ({override!r})"
                raise InvalidRequest([f"steps.{number}: {attempt}; say it in other words"])
        solution = ProposedSolution(title=request.title or pain.summary, steps=request.steps)
        proposal = pains.add_proposal(
            context.connection, (context.group_id, pain.agent_id), pain, solution, context.actor.name
        )
        if proposal is None:
            raise Conflict("pain_id: another proposal waits for somebody to decide on it; see pains.get")
    elif pain.status == "proposed":
        raise Conflict("pain_id: a proposal waits for somebody to decide on it; see pains.get")
    else:
        context.enqueue(SOLVE_PAIN, [(pain.pain_id, context.group_id)])
    context.audit(str(pain.pain_id), agent=pain.agent_id, steps=len(request.steps))
    return PainChanged(pain=_known(context, pain.pain_id), proposal=proposal)


def _pending(context: Context, pain: PainPoint, proposal_id: UUID | None) -> SolutionProposal:
    proposals = pains.proposals_of(context.connection, context.group_id, pain.pain_id)
    match = next((proposal for proposal in proposals if proposal.id == proposal_id), None)
    if proposal_id is not None and match is None:
        raise NotFound(f"proposal_id: the pain point has no proposal {proposal_id}")
    pending = match or next((proposal for proposal in proposals if proposal.status == "pending"), None)
    if pending is None:
        raise Conflict("pain_id: there is no proposal to decide on; see pains.propose")
    return pending


def _known(context: Context, pain_id: UUID) -> PainPoint:
    pain = pains.find_pain(context.connection, context.group_id, pain_id)
    if pain is None:
        raise NotFound(f"id: no pain point {pain_id} in the group {context.group_id!r}; see pains.list")
    return pain


def _locked(context: Context, pain_id: UUID) -> PainPoint:
    """The pain point, read under its agent's lock."""
    lock_agents(context.connection, [(context.group_id, _known(context, pain_id).agent_id)])
    return _known(context, pain_id)


belonging("pains", "SELECT FROM pain_points WHERE group_id = :group AND agent_id = :agent")
