"""Erasure and what conversations, growth and stores keep: what was said goes with all that was made of it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from jiyi.protocol.base import OfAgent
from jiyi.protocol.conversation_commands import IndustryWords
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.growth import ProposeSolution, ReportPain
from jiyi.protocol.identity import ProposeChange, UpdateUser
from jiyi.protocol.recall import PromptLine
from jiyi.protocol.stores import LogOperation, Snapshot, SnapshotBlock, UpdateStore
from models.conversations import actions as conversations
from models.conversations import injections
from models.db.connection import unit_of_work
from models.growth import identity, pain_actions, self_review
from models.reflection.reflections import REFLECT
from models.stores import actions as stores
from tasks.framework.work import run_until_idle
from tasks.reflection import reflect
from tests.integration.conversations import talk
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.growth import growing
from tests.integration.growth.living import AGENT, SMALL_TALK, TROUBLE, actor, hurry, pain, pains, rows, say
from tests.integration.stores.kept import SIMPLE, Kept, embed

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")

CONVERSATIONS = {"extraction_cursors", "injections", "user_profiles", "experiences"}
GROWTH = {"trajectory_events", "trajectories", "patterns", "proposals", "feedback", "trust"}
LIVING = {
    *("pain_cursors", "pain_points", "pain_evidence", "proposals", "identity_versions"),
    *("identity_snapshots", "self_reflections", "growth_tallies"),
}
STORES = {"stores", "store_items", "store_files", "attachments", "store_nodes", "store_operations"}


def noted(group: str, query: str, *node_ids: Any) -> None:
    request = ContextRequest(agent_id=AGENT, query=query, session_id="s1")
    line = {"kind": "knowledge", "score": 1.0, "tokens": 9, "why": "place 1"}
    lines = [PromptLine.model_construct(node_id=node_id, **line) for node_id in node_ids]
    with unit_of_work() as connection:
        injections.note(connection, (group, AGENT), request, "general", 9, lines)


def profile(group: str, **signals: Any) -> None:
    with unit_of_work() as connection:
        injections.update_profile(connection, (group, AGENT), ProfileSignals(**signals), datetime.now(UTC))


def grown(group: str, request: str = "find the invoice", comment: str = "") -> None:
    """A skill and a pipeline of three sessions, and what somebody thinks of them."""
    for session in ("g1", "g2", "g3"):
        steps = growing.chain(group, session, "search", "mail", request=request)
        growing.save([*steps, growing.end(group, session)])
    growing.run()
    growing.save([growing.feedback(group, growing.artifacts(group)[0].id, comment=comment)])
    growing.run()


def left(group: str, table: str, where: str = "true") -> int:
    return len(rows(f"SELECT 1 FROM {table} WHERE group_id = :g AND {where}", g=group))


def test_a_person_goes_from_conversations_growth_and_stores(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    # What was said, and what is known of who says it
    say(group, *SMALL_TALK, f"I work at {name} and sons.", session_id="work")
    say(group, *SMALL_TALK, f"{name}'s report export keeps failing.", session_id="trouble")
    noted(group, f"where is {name}?")
    profile(group, preferred_tools=[f"{name}'s kiln"])
    words = IndustryWords(industry="pottery", keywords={"master": [name]})
    conversations.load_industry_keywords.perform(actor(group), words)
    # What an agent grew of it
    growing.experienced(group, pain=f"{name} cannot print on the second tray")
    growing.save([growing.step(group, 50, "generation", "s9", output=f"said to {name}")])
    grown(group, f"find the invoice of {name}", f"{name} liked it")
    coffee = ReportPain(agent_id=AGENT, summary="the coffee machine is broken again")
    reported = pain_actions.report_pain.perform(actor(group), coffee).pain.pain_id
    solution = ProposeSolution(id=reported, steps=[f"Ask {name}."])
    pain_actions.propose_solution.perform(actor(group), solution)
    user = UpdateUser(agent_id=AGENT, notes=f"Works with {name}.")
    identity.update_user.perform(actor(group), user)
    change = ProposeChange(
        agent_id=AGENT, file="SOUL", suggested=f"You like {name}.", reason=f"{name} said so"
    )
    identity.propose.perform(actor(group), change)
    # What workflows wrote down
    kept, cups = Kept(group), "The cups are blue, and there are nine of them."
    kept.apply(SIMPLE)
    block = {"data": base64.b64encode(b"x" * 99).decode(), "mime_type": "image/png"}
    output = Snapshot(text=f"The cups are for {name}.", blocks=[SnapshotBlock(role="user", block=block)])
    kept.perform(stores.update, UpdateStore(name="notes", role="writer", output_snapshot=output))
    kept.say(cups)
    embed()
    assert len(kept.ask("cups").hits) == 2
    done = LogOperation(graph="team", node_id=f"ask {name}", operation_type="RETRIEVE", stage="gen")
    kept.perform(stores.log, done)

    report = erase(group, person=name)

    tables = CONVERSATIONS | GROWTH | LIVING | STORES | {"industry_keywords"}
    assert tables <= set(report["looked_through"]["tables"])
    assert places(name, group=group) == []
    assert [hit.item.content_summary for hit in kept.ask("cups").hits] == [f"Input: \nOutput: {cups}"]
    assert kept.state().attachments == 0


def test_what_a_turn_says_goes_with_all_that_was_made_of_it_and_an_agent_with_all_that_it_has(
    group: str,
) -> None:
    peanuts = say(group, *SMALL_TALK, "I am allergic to peanuts.", session_id="peanuts")[3]
    facts = [row["node_id"] for row in talk.nodes(group, "knowledge", "preference")]
    noted(group, "what may I eat?", *facts)
    nurse = say(group, *SMALL_TALK, "I work as a nurse at the hospital.", session_id="nurse")[3]
    assert left(group, "identity_versions")
    trouble = [say(group, *SMALL_TALK, said, session_id=said)[3] for said in TROUBLE[:2]]
    solution = ProposeSolution(id=pain(group).pain_id, steps=["清空缓存"])
    pain_actions.propose_solution.perform(actor(group), solution)
    assert pain(group).occurrence_count == 2
    brief = say(group, *SMALL_TALK, "以后回答请简洁一点。", session_id="brief")[3]
    self_review.run.perform(actor(group), OfAgent(agent_id=AGENT))
    hurry()
    run_until_idle(REFLECT, reflect)
    assert left(group, "proposals", "kind = 'identity'") == 1
    growing.experienced(group)
    grown(group)
    [skill] = growing.artifacts(group)
    assert [table for table in (*GROWTH, *CONVERSATIONS) if not left(group, table)] == []
    erase(group, node_ids=[peanuts, nurse, trouble[1], brief, skill.evidence[0]])
    assert not any("peanuts" in row["description"] for row in talk.nodes(group))
    assert growing.artifacts(group) == []
    assert len(growing.artifacts(group, "pipeline")) == 1
    for table, where in (
        ("injections", "true"),
        ("user_profiles", "true"),
        ("identity_versions", "true"),
        ("proposals", "kind = 'identity'"),
        ("reflections", "findings::text LIKE '%简洁%'"),
    ):
        assert left(group, table, where) == 0, table
    assert (pain(group).occurrence_count, pain(group).confidence) == (1, 0.25)  # of what is left
    erase(group, node_ids=[trouble[0]])  # in whose words the pain was told
    assert pains(group) == []
    assert (left(group, "pain_evidence"), left(group, "proposals", "kind = 'solution'")) == (0, 0)
    noted(group, "where do I live?")
    profile(group, industry="pottery")
    erase(group, agent_id=AGENT)
    for table in {*CONVERSATIONS, *GROWTH, *LIVING, "memory_nodes"}:
        assert left(group, table) == 0, table


def test_what_was_superseded_stays_so_when_the_newer_is_erased(group: str) -> None:
    talk.say(group, *SMALL_TALK, "I live in Porto.")
    talk.run()
    newer = talk.say(group, *SMALL_TALK, "I live in Lisbon.", session_id="s2")
    talk.hurry()
    talk.run()
    erase(group, node_ids=[newer[3]])
    [old] = talk.nodes(group, "knowledge")
    assert old["superseded_by"] is None
    assert old["superseded_at"] is not None


def test_what_an_erased_agent_said_goes_from_stores(group: str) -> None:
    kept = Kept(group)
    kept.apply(SIMPLE)
    kept.say("The potter said that the kiln is hot.", role="potter")
    kept.say("The painter said that the blue is dry.", role="painter")
    erase(group, agent_id="potter")
    assert [one.metadata["agent_role"] for one in kept.items().rows] == ["painter"]
