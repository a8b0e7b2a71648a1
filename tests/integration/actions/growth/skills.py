"""Cases of the actions on skills, workflows and votes."""

from __future__ import annotations

from collections.abc import Callable

from jiyi.protocol.proposals import Verb
from models.growth.artifacts import give_feedback
from models.growth.proposal_actions import decide_proposal
from tests.integration.actions.cases import MADE, Case, case, do
from tests.integration.growth.growing import chain, end, experienced, run, save
from tests.integration.memory.test_inbox import rows


def skill(group: str) -> str:
    """The id of a pending skill."""
    experienced(group)
    return grown(group)


def workflow(group: str) -> str:
    """The id of a pending workflow."""
    for session in ("s1", "s2", "s3"):
        save([*chain(group, session, "search", "mail"), end(group, session)])
    return grown(group)


def grown(group: str) -> str:
    run()
    [one] = rows("SELECT proposal_id FROM proposals WHERE group_id = :g", g=group)
    return str(one["proposal_id"])


def after(prepare: Callable[[str], str], *decisions: Verb) -> Callable[[str], str]:
    """What there is when these were taken."""

    def prepared(group: str) -> str:
        made = prepare(group)
        for taken in decisions:
            do(group, decide_proposal, id=made, decision=taken)
        return made

    return prepared


def _deciding(decision: Verb, prepare: Callable[[str], str], reason: str = "") -> Case:
    return case(decide_proposal, prepare, {"id": MADE, "decision": decision, "reason": reason})


CASES = (
    _deciding("approve", skill, "helps"),
    _deciding("reject", workflow, "too special"),
    _deciding("enable", after(workflow, "approve")),
    _deciding("disable", after(skill, "approve", "enable")),
    _deciding("archive", after(skill, "approve"), "old"),
    _deciding("delete", workflow),
    case(give_feedback, skill, {"artifact": "skill", "artifact_id": MADE, "sentiment": "positive"}),
)
