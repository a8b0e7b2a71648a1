"""Cases of the actions on skills, workflows and votes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from jiyi.protocol.artifacts import ArtifactId, Deciding, GiveFeedback
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth.artifacts import SKILL_ACTIONS, WORKFLOW_ACTIONS, give_feedback
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
        return str(connection.execute(text("SELECT artifact_id FROM artifacts WHERE group_id = :g"), {"g": group}).scalar_one())


def after(prepare: Callable[[str], str], action: Any, *then: Any) -> Callable[[str], str]:
    """What there is when these were done."""

    def prepared(group: str) -> str:
        made = prepare(group)
        for done in (action, *then):
            done.perform(Actor(group, "test"), done.request(id=made))
        return made

    return prepared


def _cases(actions: Any, prepare: Callable[[str], str]) -> list[Case]:
    accepted = after(prepare, actions["accept"])
    tried = (
        (actions["accept"], prepare, Deciding, {"reason": "helps"}),
        (actions["decline"], prepare, Deciding, {"reason": "too special"}),
        (actions["enable"], accepted, ArtifactId, {}),
        (actions["disable"], after(prepare, actions["accept"], actions["enable"]), ArtifactId, {}),
        (actions["archive"], accepted, Deciding, {"reason": "old"}),
        (actions["delete"], prepare, ArtifactId, {}),
    )
    return [_case(action, made, request, fields) for action, made, request, fields in tried]


def _case(action: Any, prepare: Callable[[str], str], request: Any, fields: dict[str, str]) -> Case:
    return Case(action=action, prepare=prepare, request=lambda made: request(id=made, **fields))


CASES = (
    *_cases(SKILL_ACTIONS, skill),
    *_cases(WORKFLOW_ACTIONS, workflow),
    Case(action=give_feedback, prepare=skill, request=lambda made: GiveFeedback(artifact="skill", artifact_id=made, sentiment="positive")),
)
