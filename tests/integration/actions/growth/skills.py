"""Cases of the actions on skills, workflows and votes."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import text

from jiyi.protocol.artifacts import GiveFeedback
from jiyi.protocol.proposals import Deciding, Verb
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth.artifacts import give_feedback
from models.growth.proposal_actions import decide_proposal
from tests.integration.actions.cases import Case
from tests.integration.growth.growing import chain, end, experienced, run, save


def skill(group: str) -> str:
    """The id of a pending skill."""
    experienced(group)
    run()
    return one(group)


def workflow(group: str) -> str:
    """The id of a pending workflow."""
    for session in ("s1", "s2", "s3"):
        save([*chain(group, session, "search", "mail"), end(group, session)])
    run()
    return one(group)


def one(group: str) -> str:
    with unit_of_work() as connection:
        return str(
            connection.execute(
                text("SELECT proposal_id FROM proposals WHERE group_id = :g"), {"g": group}
            ).scalar_one()
        )


def after(prepare: Callable[[str], str], *decisions: Verb) -> Callable[[str], str]:
    """What there is when these were taken."""

    def prepared(group: str) -> str:
        made = prepare(group)
        for taken in decisions:
            decide_proposal.perform(Actor(group, "test"), Deciding(id=made, decision=taken))
        return made

    return prepared


def _deciding(decision: Verb, prepare: Callable[[str], str], reason: str = "") -> Case:
    return Case(
        action=decide_proposal,
        prepare=prepare,
        request=lambda made: Deciding(id=made, decision=decision, reason=reason),
    )


CASES = (
    _deciding("approve", skill, "helps"),
    _deciding("reject", workflow, "too special"),
    _deciding("enable", after(workflow, "approve")),
    _deciding("disable", after(skill, "approve", "enable")),
    _deciding("archive", after(skill, "approve"), "old"),
    _deciding("delete", workflow),
    Case(
        action=give_feedback,
        prepare=skill,
        request=lambda made: GiveFeedback(artifact="skill", artifact_id=made, sentiment="positive"),
    ),
)
