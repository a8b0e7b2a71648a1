"""Cases of the actions on pain points, identity and looks at itself."""

from __future__ import annotations

from models.db.connection import unit_of_work
from models.growth import identity, pain_actions, self_review
from models.growth.proposal_actions import decide_proposal
from models.memory.agents import lock_agents
from tests.integration.actions.cases import MADE, case, do

AGENT = "小伴"
OF = {"agent_id": AGENT}
PAIN, CHANGE = {**OF, "summary": "导出报表总是失败"}, {"file": "SOUL", "suggested": "你很耐心。"}
STEPS = ["把报表拆成每月一份", "再逐份导出"]


def agent(group: str) -> None:
    with unit_of_work() as connection:
        lock_agents(connection, [(group, AGENT)])


def pain(group: str) -> str:
    """The id of a pain point."""
    agent(group)
    return str(do(group, pain_actions.report_pain, **PAIN).pain.pain_id)


def proposed(group: str) -> str:
    """The id of a pain point that something is proposed against."""
    pain_id = pain(group)
    do(group, pain_actions.propose_solution, id=pain_id, steps=STEPS)
    return pain_id


def solution(group: str) -> str:
    """The id of what is proposed against a pain point."""
    return str(do(group, pain_actions.propose_solution, id=pain(group), steps=STEPS).proposal.id)


def change(group: str) -> str:
    """The id of a proposal to change a file."""
    agent(group)
    return str(do(group, identity.propose, **OF, **CHANGE, reason="agreed").id)


def changed(group: str) -> None:
    """A file with a version."""
    do(group, decide_proposal, id=change(group), decision="approve")


CASES = (
    case(pain_actions.report_pain, agent, PAIN),
    case(pain_actions.resolve_pain, proposed, {"id": MADE, "resolution": "confirmed"}),
    case(pain_actions.propose_solution, pain, {"id": MADE, "steps": STEPS}),
    case(identity.propose, agent, {**OF, **CHANGE, "reason": "agreed"}),
    case(decide_proposal, change, {"id": MADE, "decision": "approve", "reason": "yes"}),
    case(decide_proposal, solution, {"id": MADE, "decision": "reject", "reason": "no"}),
    case(identity.update_user, agent, {**OF, "notes": "叫他小林。"}),
    case(identity.snapshot, changed, {**OF, "name": "before"}),
    case(identity.rollback, changed, {**OF, "file": "SOUL", "version": 0}),
    case(self_review.configure, agent, {**OF, "conversations": 3}),
    case(self_review.run, agent, OF),
)
