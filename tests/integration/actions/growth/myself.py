"""Cases of the actions on pain points, identity and looks at itself."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jiyi.protocol.growth import ProposeSolution, ReportPain
from jiyi.protocol.identity import ProposeChange
from jiyi.protocol.proposals import Deciding
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth import identity, pain_actions, self_review
from models.growth.proposal_actions import decide_proposal
from models.memory.agents import lock_agents
from tests.integration.actions.cases import Case

AGENT, PAIN, SOUL = "小伴", "导出报表总是失败", "你很耐心。"
STEPS = ["把报表拆成每月一份", "再逐份导出"]


def agent(group: str) -> None:
    with unit_of_work() as connection:
        lock_agents(connection, [(group, AGENT)])


def pain(group: str) -> str:
    """The id of a pain point."""
    agent(group)
    return str(
        pain_actions.report_pain.perform(
            Actor(group, "test"), ReportPain(agent_id=AGENT, summary=PAIN)
        ).pain.pain_id
    )


def proposed(group: str) -> str:
    """The id of a pain point that something is proposed against."""
    pain_id = pain(group)
    pain_actions.propose_solution.perform(Actor(group, "test"), ProposeSolution(id=pain_id, steps=STEPS))
    return pain_id


def change(group: str) -> str:
    """The id of a proposal to change a file."""
    agent(group)
    request = ProposeChange(agent_id=AGENT, file="SOUL", suggested=SOUL, reason="agreed")
    return str(identity.propose.perform(Actor(group, "test"), request).id)


def solution(group: str) -> str:
    """The id of what is proposed against a pain point."""
    request = ProposeSolution(id=UUID(pain(group)), steps=STEPS)
    proposal = pain_actions.propose_solution.perform(Actor(group, "test"), request).proposal
    assert proposal is not None
    return str(proposal.id)


def changed(group: str) -> None:
    """A file with a version."""
    decide_proposal.perform(Actor(group, "test"), Deciding(id=UUID(change(group)), decision="approve"))


_CHANGE = {"agent_id": AGENT, "file": "SOUL", "suggested": SOUL, "reason": "agreed"}

_OF_AGENT = {"agent_id": AGENT}


def _case(action: Any, prepare: Any, fields: dict[str, Any], id_field: str = "") -> Case:
    """``id_field``: the field that names what was prepared."""
    return Case(
        action=action,
        prepare=prepare,
        request=lambda made: action.request.model_validate(fields | ({id_field: made} if id_field else {})),
    )


CASES = (
    _case(pain_actions.report_pain, agent, {**_OF_AGENT, "summary": PAIN}),
    _case(pain_actions.resolve_pain, proposed, {"resolution": "confirmed"}, "id"),
    _case(pain_actions.propose_solution, pain, {"steps": STEPS}, "id"),
    _case(identity.propose, agent, _CHANGE),
    _case(decide_proposal, change, {"decision": "approve", "reason": "yes"}, "id"),
    _case(decide_proposal, solution, {"decision": "reject", "reason": "no"}, "id"),
    _case(identity.update_user, agent, {**_OF_AGENT, "notes": "叫他小林。"}),
    _case(identity.snapshot, changed, {**_OF_AGENT, "name": "before"}),
    _case(identity.rollback, changed, {**_OF_AGENT, "file": "SOUL", "version": 0}),
    _case(self_review.configure, agent, {**_OF_AGENT, "conversations": 3}),
    _case(self_review.run, agent, _OF_AGENT),
)
