"""Erasure and what an agent grew by itself: what a turn told of pain goes with it, names too."""

from __future__ import annotations

from uuid import uuid4

import pytest

from jiyi.protocol.base import OfAgent
from jiyi.protocol.growth import ProposeSolution, ReportPain
from jiyi.protocol.identity import ProposeChange, UpdateUser
from models.growth import identity, pain_actions, self_review
from models.reflection.reflections import REFLECT
from tasks.framework.work import run_until_idle
from tasks.reflection import reflect
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.growth.living import AGENT, SMALL_TALK, TROUBLE, actor, hurry, pain, pains, rows, say

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")

TABLES = {
    *("pain_cursors", "pain_points", "pain_evidence", "proposals", "identity_versions"),
    *("identity_snapshots", "self_reflections", "growth_tallies"),
}


def test_what_a_turn_told_of_pain_goes_with_it_the_rest_is_counted_anew_and_an_agent_goes_with_all_of_it(
    group: str,
) -> None:
    say(group, *SMALL_TALK, TROUBLE[0])
    second = say(group, *SMALL_TALK, TROUBLE[1])
    assert pain(group).occurrence_count == 2
    erase(group, node_ids=[second[3]])
    assert (pain(group).occurrence_count, pain(group).confidence) == (1, 0.25)
    erase(group, agent_id=AGENT)
    for table in TABLES:
        assert rows(f"SELECT 1 FROM {table} WHERE group_id = :g", g=group) == [], table


def test_a_pain_point_in_the_words_of_an_erased_turn_goes_with_its_proposals(group: str) -> None:
    first = say(group, *SMALL_TALK, TROUBLE[0])
    say(group, *SMALL_TALK, TROUBLE[1])
    pain_actions.propose_solution.perform(
        actor(group), ProposeSolution(id=pain(group).pain_id, steps=["清空缓存"])
    )
    erase(group, node_ids=[first[3]])
    assert pains(group) == []
    for table in ("pain_evidence", "proposals"):
        assert rows(f"SELECT 1 FROM {table} WHERE group_id = :g", g=group) == [], table


def test_the_users_file_goes_with_the_profile(group: str) -> None:
    said = say(group, *SMALL_TALK, "I work as a nurse at the hospital.")
    assert rows("SELECT 1 FROM identity_versions WHERE group_id = :g", g=group) != []
    erase(group, node_ids=[said[3]])
    assert rows("SELECT 1 FROM identity_versions WHERE group_id = :g", g=group) == []


def test_what_a_look_at_itself_found_in_a_turn_goes_with_it(group: str) -> None:
    said = say(group, *SMALL_TALK, "以后回答请简洁一点。")
    self_review.run.perform(actor(group), OfAgent(agent_id=AGENT))
    hurry()
    run_until_idle(REFLECT, reflect)
    assert len(rows("SELECT 1 FROM proposals WHERE group_id = :g AND kind = 'identity'", g=group)) == 1
    erase(group, node_ids=[said[3]])
    assert rows("SELECT 1 FROM proposals WHERE group_id = :g AND kind = 'identity'", g=group) == []
    assert (
        rows("SELECT 1 FROM reflections WHERE group_id = :g AND findings::text LIKE '%简洁%'", g=group) == []
    )


def test_a_person_goes_from_all_of_it(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    say(group, *SMALL_TALK, f"{name}'s report export keeps failing.")
    reported = pain_actions.report_pain.perform(
        actor(group), ReportPain(agent_id=AGENT, summary="the coffee machine is broken again")
    )
    solution = ProposeSolution(id=reported.pain.pain_id, steps=[f"Ask {name}."])
    pain_actions.propose_solution.perform(actor(group), solution)
    identity.update_user.perform(actor(group), UpdateUser(agent_id=AGENT, notes=f"Works with {name}."))
    change = ProposeChange(
        agent_id=AGENT, file="SOUL", suggested=f"You like {name}.", reason=f"{name} said so"
    )
    identity.propose.perform(actor(group), change)
    report = erase(group, person=name)
    assert set(report["looked_through"]["tables"]) >= TABLES
    assert places(name, group=group) == []
