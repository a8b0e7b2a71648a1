"""What can be done with proposals of all kinds: list, get, decide."""

from __future__ import annotations

from jiyi.protocol.base import ById, Rows
from jiyi.protocol.proposals import Deciding, ListProposals, Proposal
from models.db.actions import Context, action
from models.db.rows import page
from models.growth import proposals
from models.memory.agents import known_agent


@action("proposals.list")
def list_proposals(context: Context, request: ListProposals) -> Rows[Proposal]:
    """List proposals.

    Skills, workflows, changes of files and solutions, the latest first, page by page: from those that the
    gate refused, over those that wait, to those in use, with their trust.
    """
    return page(
        proposals.find(context.connection, context.group_id, request),
        request.limit,
        lambda proposal: proposal.id,
    )


@action("proposals.get")
def get_proposal(context: Context, request: ById) -> Proposal:
    """Get a proposal.

    What it says, what it rests on, what the gate found, who decided about it, and how far it is trusted.
    """
    return proposals.need(context.connection, context.group_id, request.id)


@action("proposals.decide")
def decide_proposal(context: Context, request: Deciding) -> Proposal:
    """Decide on a proposal.

    Approve or reject one that waits. An approved skill or workflow is registered and still disabled, an
    approved change of a file becomes its next version, an approved solution an experience; a rejected one
    comes back when its evidence has doubled. Skills and workflows can also be enabled or disabled once they
    are approved: agents' programs may use what is enabled; archived: out of use for good, and still to be
    read; deleted: texts, votes and trust go. Refused where its status does not allow it: of two people who
    decide, the second learns who came first.
    """
    connection, group_id = context.connection, context.group_id
    name = known_agent(
        connection, group_id, proposals.need(connection, group_id, request.id).agent_id, lock=True
    )
    proposal = proposals.need(connection, group_id, request.id)
    decision = proposals.decide(
        connection, proposal, name, request.decision, context.actor.name, request.reason
    )
    became = decision.became if request.decision == "approve" else {}
    outcome, reason = decision.choice.outcome, request.reason
    context.audit(
        str(request.id), agent_id=name[1], kind=proposal.kind, decision=outcome, reason=reason, **became
    )
    return proposals.need(connection, group_id, request.id, deleted=True)
