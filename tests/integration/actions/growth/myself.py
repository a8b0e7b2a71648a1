"""Cases of the actions on pain points, identity and looks at itself."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jiyi.protocol.growth.identity import DecideProposal, OfAgent, ProposeChange, Rollback, TakeSnapshot, UpdateUser
from jiyi.protocol.growth.pains import ProposeSolution, ReportPain, ResolvePain
from jiyi.protocol.growth.reflections import ConfigureSelf
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth.identity import actions as identity
from models.growth.pains import actions as pains
from models.growth.reflections import actions as reflections
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
    return str(pains.report_pain.perform(Actor(group, "test"), ReportPain(agent_id=AGENT, summary=PAIN)).pain.pain_id)


def proposed(group: str) -> str:
    """The id of a pain point that something is proposed against."""
    pain_id = pain(group)
    pains.propose_solution.perform(Actor(group, "test"), ProposeSolution(pain_id=pain_id, steps=STEPS))
    return pain_id


def change(group: str) -> str:
    """The id of a proposal to change a file."""
    agent(group)
    request = ProposeChange(agent_id=AGENT, file="SOUL", suggested=SOUL, reason="agreed")
    return str(identity.propose.perform(Actor(group, "test"), request).proposal_id)


def changed(group: str) -> None:
    """A file with a version."""
    identity.approve.perform(Actor(group, "test"), DecideProposal(proposal_id=change(group)))


def hurting(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return [[tuple(row) for row in connection.execute(statement, {"group": group})] for statement in _PAINS]


def files(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return [[tuple(row) for row in connection.execute(statement, {"group": group})] for statement in _FILES]


def looking(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return [[tuple(row) for row in connection.execute(statement, {"group": group})] for statement in _LOOKS]


_CHANGE = {"agent_id": AGENT, "file": "SOUL", "suggested": SOUL, "reason": "agreed"}

CASES = (
    Case(
        action=pains.report_pain,
        prepare=agent,
        request=lambda _made: ReportPain(agent_id=AGENT, summary=PAIN),
        effect=hurting,
        rest=lambda _made: ("POST", "/growth/pain_report", {"agent_id": AGENT, "summary": PAIN}),
    ),
    Case(
        action=pains.resolve_pain,
        prepare=proposed,
        request=lambda made: ResolvePain(pain_id=made, resolution="confirmed"),
        effect=hurting,
        rest=lambda made: ("POST", "/growth/pain_resolve", {"pain_id": made, "resolution": "confirmed"}),
        admin=lambda made: (f"/pains/{made}/resolve", {"resolution": "confirmed"}),
    ),
    Case(
        action=pains.propose_solution,
        prepare=pain,
        request=lambda made: ProposeSolution(pain_id=made, steps=STEPS),
        effect=hurting,
        rest=lambda made: ("POST", "/growth/pain_propose", {"pain_id": made, "steps": STEPS}),
        admin=lambda made: (f"/pains/{made}/propose", {"steps": "\r\n".join(STEPS)}),
    ),
    Case(
        action=identity.propose,
        prepare=agent,
        request=lambda _made: ProposeChange(**_CHANGE),
        effect=files,
        rest=lambda _made: ("POST", "/growth/identity_propose", _CHANGE),
        admin=lambda _made: (f"/identity/{{group}}/{AGENT}/propose", {"file": "SOUL", "suggested": SOUL, "reason": "agreed"}),
    ),
    Case(
        action=identity.approve,
        prepare=change,
        request=lambda made: DecideProposal(proposal_id=made, note="yes"),
        effect=files,
        rest=lambda made: ("POST", "/growth/identity_approve", {"proposal_id": made, "note": "yes"}),
        admin=lambda made: (f"/identity/proposals/{made}/approve", {"note": "yes"}),
    ),
    Case(
        action=identity.reject,
        prepare=change,
        request=lambda made: DecideProposal(proposal_id=made, note="no"),
        effect=files,
        rest=lambda made: ("POST", "/growth/identity_reject", {"proposal_id": made, "note": "no"}),
        admin=lambda made: (f"/identity/proposals/{made}/reject", {"note": "no"}),
    ),
    Case(
        action=identity.update_user,
        prepare=agent,
        request=lambda _made: UpdateUser(agent_id=AGENT, notes="叫他小林。"),
        effect=files,
        rest=lambda _made: ("POST", "/growth/identity_update_user", {"agent_id": AGENT, "notes": "叫他小林。"}),
    ),
    Case(
        action=identity.snapshot,
        prepare=changed,
        request=lambda _made: TakeSnapshot(agent_id=AGENT, name="before"),
        effect=files,
        rest=lambda _made: ("POST", "/growth/identity_snapshot", {"agent_id": AGENT, "name": "before"}),
        admin=lambda _made: (f"/identity/{{group}}/{AGENT}/snapshot", {"name": "before"}),
    ),
    Case(
        action=identity.rollback,
        prepare=changed,
        request=lambda _made: Rollback(agent_id=AGENT, file="SOUL", version=0),
        effect=files,
        rest=lambda _made: ("POST", "/growth/identity_rollback", {"agent_id": AGENT, "file": "SOUL", "version": 0}),
        admin=lambda _made: (f"/identity/{{group}}/{AGENT}/rollback", {"file": "SOUL", "version": "0"}),
    ),
    Case(
        action=reflections.configure,
        prepare=agent,
        request=lambda _made: ConfigureSelf(agent_id=AGENT, conversations=3),
        effect=looking,
        rest=lambda _made: ("POST", "/growth/reflection_configure", {"agent_id": AGENT, "conversations": 3}),
    ),
    Case(
        action=reflections.run,
        prepare=agent,
        request=lambda _made: OfAgent(agent_id=AGENT),
        effect=looking,
        rest=lambda _made: ("POST", "/growth/reflection_run", {"agent_id": AGENT}),
    ),
)

_PAINS = (
    text("SELECT agent_id, summary, category, severity, occurrence_count, confidence, status FROM pain_points WHERE group_id = :group"),
    text("SELECT quote FROM pain_evidence WHERE group_id = :group"),
    text("SELECT status FROM proposals WHERE group_id = :group"),
    text("SELECT number, step FROM proposal_steps WHERE group_id = :group ORDER BY number"),
    text("SELECT pain_pattern, outcome, confidence FROM experiences WHERE group_id = :group"),
)
_FILES = (
    text("SELECT file, version, content, reason FROM identity_versions WHERE group_id = :group ORDER BY file, version"),
    text("SELECT file, reason, current, suggested, status, note FROM identity_proposals WHERE group_id = :group"),
    text("SELECT name, versions FROM identity_snapshots WHERE group_id = :group"),
)
_LOOKS = (
    text("SELECT conversations, hours, require_approval, allow_soul_modification, asked FROM self_reflections WHERE group_id = :group"),
    text("SELECT trigger, state FROM reflections WHERE group_id = :group"),
    text("SELECT kind FROM pending_work WHERE group_id = :group ORDER BY kind"),
)
