"""What can be done with pain points: list, get, report, resolve, propose."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from engine.growth.pains import words
from jiyi.chat.secrets import masked
from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol.growth.overrides import override_in
from jiyi.protocol.growth.pain_types import FoundPain, ProposedSolution
from jiyi.protocol.growth.pains import (
    ListPains,
    PainChanged,
    PainDetail,
    PainEvidence,
    PainId,
    PainPage,
    PainPoint,
    ProposalAsked,
    ProposeSolution,
    ReportPain,
    ResolvePain,
    SolutionProposal,
)
from models.conversations.commands import finish
from models.db.actions import Context, action
from models.growth.owing import SOLVE_PAIN
from models.growth.pains import pains, proposals, reads
from models.growth.pains.pains import Told
from models.memory.agents.agents import key_of, lock_agents, no_agent

#: Evidence that one answer shows, the newest.
EVIDENCE_SHOWN = 100


@action("pain_list", scope="read", mutates=False)
def list_pains(context: Context, request: ListPains) -> PainPage:
    """List pain points.

    What hurts users, those felt last first: how often it was told, how sure that makes it, and whether something is proposed.
    """
    found = reads.page(context.connection, context.group_id, request)
    more = len(found) > request.limit
    return PainPage(pains=found[: request.limit], next=found[request.limit - 1].pain_id if more else None)


@action("pain_get", scope="read", mutates=False)
def get_pain(context: Context, request: PainId) -> PainDetail:
    """Get a pain point.

    With the turns that told of it and what was proposed against it.
    """
    pain = _known(context, request.pain_id)
    told = pains.quotes(context.connection, context.group_id, pain.pain_id, EVIDENCE_SHOWN)
    return PainDetail(
        **dict(pain),
        evidence=[PainEvidence(**one.model_dump(exclude={"user_id"})) for one in told],
        proposals=proposals.of_pain(context.connection, context.group_id, pain.pain_id),
    )


@action("pain_report", scope="publish")
def report_pain(context: Context, request: ReportPain) -> PainChanged:
    """Report a pain point.

    Something hurts a user, and was not said in a conversation. One that is alike is made surer by it; a report that is sent
    again with the same id counts once.
    """
    _agent_there(context, request.agent_id)
    summary = masked(request.summary)
    found = FoundPain(
        summary=summary,
        category=request.category or words.category_of(summary),
        severity=request.severity or words.severity_of(summary),
        turn=0,
    )
    told = Told(source_id=request.report_id or uuid4(), quote=summary, said_at=datetime.now(UTC), user_id=request.user_id)
    name = (context.group_id, request.agent_id)
    lock_agents(context.connection, [name])
    pain = pains.merge(context.connection, name, found, told)
    _owe_proposal(context, pain)
    context.audit(str(pain.pain_id), agent=request.agent_id, occurrences=pain.occurrence_count)
    return PainChanged(pain=pain)


@action("pain_resolve", scope="publish")
def resolve_pain(context: Context, request: ResolvePain) -> PainChanged:
    """Resolve a pain point.

    `confirmed`: its proposal helped, and becomes an experience. `rejected`: it did not, and another one comes when twice as many turns
    tell of it. `dismissed`: nothing more is proposed. `reopened`: it is open again. Who is late learns that it was decided already.
    """
    pain = _locked(context, request.pain_id)
    name = (context.group_id, pain.agent_id)
    uri = None
    if request.resolution in ("confirmed", "rejected"):
        uri = _decide(context, pain, request)
    else:
        _withdraw(context, pain)
        pains.set_status(context.connection, name, pain.pain_id, "dismissed" if request.resolution == "dismissed" else "open")
    context.audit(str(pain.pain_id), agent=pain.agent_id, resolution=request.resolution, experience=uri)
    return PainChanged(pain=_known(context, pain.pain_id), experience=uri)


@action("pain_propose", scope="publish")
def propose_solution(context: Context, request: ProposeSolution) -> ProposalAsked:
    """Propose what to do about a pain point.

    With `steps`, these; without, a worker thinks of some, from what helped before and what was advised. Nothing comes of a
    proposal before somebody confirms it.
    """
    pain = _locked(context, request.pain_id)
    if pain.status in ("solved", "dismissed"):
        raise Conflict(f"pain_id: the pain point is {pain.status}; reopen it first (pain_resolve)")
    made = None
    if request.steps:
        for number, step in enumerate(request.steps):
            if (said := override_in(step)) is not None:
                raise InvalidRequest([f"steps.{number}: reads like an attempt to override instructions ({said!r}); say it in other words"])
        solution = ProposedSolution(title=request.title or pain.summary, steps=request.steps)
        made = proposals.add(context.connection, (context.group_id, pain.agent_id), pain, solution, context.actor.name)
        if made is None:
            raise Conflict("pain_id: another proposal waits for somebody to decide on it; see pain_get")
    elif pain.status == "proposed":
        raise Conflict("pain_id: a proposal waits for somebody to decide on it; see pain_get")
    else:
        context.enqueue(SOLVE_PAIN, [(pain.pain_id, context.group_id)])
    context.audit(str(pain.pain_id), agent=pain.agent_id, steps=len(request.steps))
    return ProposalAsked(pain=_known(context, pain.pain_id), proposal=made)


def _decide(context: Context, pain: PainPoint, request: ResolvePain) -> str | None:
    """The address of the experience, where it was confirmed."""
    name, proposal = (context.group_id, pain.agent_id), _pending(context, pain, request.proposal_id)
    if request.resolution == "confirmed":
        done = proposals.confirm(context.connection, name, pain, proposal, context.actor.name, datetime.now(UTC))
        assert done is not None  # it is pending, under the agent's lock
        stored, uri = done
        finish(context, stored)
        return uri
    proposals.decide(context.connection, context.group_id, proposal.proposal_id, "rejected", context.actor.name)
    pains.set_status(context.connection, name, pain.pain_id, "open")
    return None


def _pending(context: Context, pain: PainPoint, wanted: UUID | None) -> SolutionProposal:
    found = proposals.of_pain(context.connection, context.group_id, pain.pain_id)
    named = next((one for one in found if one.proposal_id == wanted), None)
    if wanted is not None and named is None:
        raise NotFound(f"proposal_id: the pain point has no proposal {wanted}")
    if named is not None and named.status != "pending":
        raise Conflict(f"proposal_id: it was {named.status} by {named.decided_by} already")
    pending = named or next((one for one in found if one.status == "pending"), None)
    if pending is None:
        raise Conflict("pain_id: nothing is proposed that could be decided on; see pain_propose")
    return pending


def _withdraw(context: Context, pain: PainPoint) -> None:
    """No proposal waits any more."""
    for one in proposals.of_pain(context.connection, context.group_id, pain.pain_id):
        if one.status == "pending":
            proposals.decide(context.connection, context.group_id, one.proposal_id, "rejected", context.actor.name)


def _owe_proposal(context: Context, pain: PainPoint) -> None:
    if proposals.wanted(context.connection, context.group_id, pain):
        context.enqueue(SOLVE_PAIN, [(pain.pain_id, context.group_id)])


def _agent_there(context: Context, agent_id: str) -> None:
    if key_of(context.connection, context.group_id, agent_id) is None:
        raise no_agent(context.group_id, agent_id)


def _known(context: Context, pain_id: UUID) -> PainPoint:
    found = pains.find(context.connection, context.group_id, pain_id)
    if found is None:
        raise NotFound(f"pain_id: no pain point {pain_id} in the group {context.group_id!r}; see pain_list")
    return found


def _locked(context: Context, pain_id: UUID) -> PainPoint:
    """As it is once nobody else changes it."""
    lock_agents(context.connection, [(context.group_id, _known(context, pain_id).agent_id)])
    return _known(context, pain_id)
