"""What grew, and what of it was used, per agent and day."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from pydantic import ValidationError

from jiyi.errors import NotFound
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.identity import TallyQuery
from models.db.connection import unit_of_work
from models.growth import pain_actions, work
from models.growth.artifacts import list_tallies
from models.growth.proposal_actions import decide_proposal
from tasks.conversations import injection
from tests.integration.growth.growing import artifacts, experienced, feedback, save
from tests.integration.growth.growing import run as aggregate
from tests.integration.growth.living import AGENT, SMALL_TALK, TROUBLE, act, actor, pain, rows, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def counted(group: str, days: int = 30) -> dict[str, tuple[int, int]]:
    found = act(group, list_tallies, days=days)
    return {one.what: (one.grown, one.used) for one in found.rows}


def test_memories_and_how_often_they_were_injected(group: str) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    assert counted(group)["memory"] == (1, 0)
    injection.build(actor(group), ContextRequest(agent_id=AGENT, query="Where do I live?"))
    assert counted(group)["memory"][1] >= 1
    other = f"other-{uuid4().hex[:8]}"
    say(other, *SMALL_TALK, "Well.")
    assert counted(other).get("memory", (0, 0)) == (0, 0), "another group's counts are not seen"


def test_pains_proposals_and_experiences(group: str) -> None:
    say(group, *SMALL_TALK, TROUBLE[0])
    pain_id = pain(group).pain_id
    act(group, pain_actions.propose_solution, id=pain_id, steps=["清空导出缓存"])
    act(group, pain_actions.resolve_pain, id=pain_id, resolution="confirmed")
    found = counted(group)
    assert (found["pain"], found["proposal"], found["experience"]) == ((1, 0), (1, 1), (1, 0))


def test_skills_that_were_accepted_and_used(group: str) -> None:
    experienced(group)
    aggregate()
    [skill] = artifacts(group)
    assert "skill" not in counted(group)
    act(group, decide_proposal, decision="approve", id=skill.id)
    save([feedback(group, skill.id, signal="usage_count"), feedback(group, skill.id, signal="explicit")])
    aggregate()
    assert counted(group)["skill"] == (1, 1)


def test_the_newest_day_first_and_only_the_days_asked_for(group: str) -> None:
    begun = datetime.now(UTC).date()
    say(group, *SMALL_TALK, "I live in Porto.")
    with unit_of_work() as connection:
        work.note(connection, (group, AGENT), "toy", grown=2)
    rows("UPDATE growth_tallies SET day = day - 10 WHERE group_id = :g AND what = 'toy' RETURNING 1", g=group)
    found = act(group, list_tallies).rows
    assert [one.what for one in found][-1] == "toy"
    assert begun <= found[0].day <= datetime.now(UTC).date()
    assert "toy" not in counted(group, days=10)
    assert counted(group, days=11)["toy"] == (2, 0)
    for days in (0, 367):
        with pytest.raises(ValidationError):
            TallyQuery(agent_id=AGENT, days=days)


def test_nothing_is_counted_of_an_agent_that_is_not_there(group: str) -> None:
    with unit_of_work() as connection:
        work.note(connection, (group, "nobody"), "skill", grown=1)
    assert rows("SELECT 1 FROM growth_tallies WHERE group_id = :g", g=group) == []
    with pytest.raises(NotFound):
        act(group, list_tallies, agent_id="nobody")
