"""What memories rest on, reflections on request and by schedule: with tasks called as functions."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jiyi.errors import NotFound
from jiyi.protocol import reflection as ask
from jiyi.protocol.base import ById, OfAgent
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.work import ACCUMULATE
from models.reflection import actions
from models.reflection.reflections import REFLECT, due_by_schedule, next_scheduled
from tasks.framework import work as tasks
from tasks.framework.jobs import JOBS, Run
from tasks.memory import accumulate
from tasks.reflection import reflect_by_schedule
from tests.integration.memory.test_inbox import configured, execute, observed, owed, rows, save

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture(autouse=True)
def _nothing_added_up_for_others(database: object) -> None:
    execute("UPDATE agents SET importance_ele_n = 0")


def thought(group: str, *evidence: UUID, **fields: object) -> UUID:
    event = observed(
        group, f"so {len(evidence)}", node_type="thought", evidence=[str(one) for one in evidence], **fields
    )
    save(event)
    return event.event_id


def event(group: str, description: str = "Klaus reads") -> UUID:
    made = observed(group, description, poignancy=3)
    save(made)
    return made.event_id


def asked_why(group: str, node_id: UUID, **bounds: int) -> ask.Reasons:
    return actions.why.perform(Actor(group), ask.WhyQuery(id=node_id, **bounds))


def test_a_thought_is_explained_down_to_the_events(group: str) -> None:
    one, two, three = event(group), event(group), event(group)
    lower = thought(group, one, two)
    upper = thought(group, lower, three, one)
    found = asked_why(group, upper)
    assert list(found.nodes) == [upper, lower, three, one, two]
    assert found.nodes[upper].evidence == [lower, three, one]
    assert (found.nodes[upper].depth, found.nodes[one].evidence) == (2, [])
    assert (found.missing, found.beyond) == ([], [])


def test_depth_and_number_are_bounded_and_say_what_is_beyond(group: str) -> None:
    bottom = event(group)
    chain = [bottom]
    for _ in range(8):
        chain.append(thought(group, chain[-1]))
    found = asked_why(group, chain[-1], depth=3)
    assert list(found.nodes) == chain[:-5:-1]
    assert found.beyond == [chain[-5]]
    wide = thought(group, *[event(group) for _ in range(12)])
    found = asked_why(group, wide, limit=5)
    assert (len(found.nodes), len(found.beyond)) == (5, 8)
    assert list(asked_why(group, wide, depth=0).nodes) == [wide]


def test_memories_that_rest_on_each_other_or_on_themselves_end_and_what_was_said_is_no_evidence(
    group: str,
) -> None:
    one, two, selfish = uuid4(), uuid4(), uuid4()
    for rests, on in ((one, two), (two, one), (selfish, selfish)):
        thought(group, on, event_id=rests)
    assert set(asked_why(group, one, depth=20).nodes) == {one, two}
    assert asked_why(group, selfish).nodes[selfish].evidence == [selfish]
    chat = observed(group, "they talk", node_type="chat", utterances=[["Klaus", str(uuid4())]])
    save(chat)
    assert asked_why(group, chat.event_id).nodes[chat.event_id].evidence == []


def test_memories_of_others_are_not_seen(group: str) -> None:
    theirs, never = event(f"{group}-2", "a secret"), uuid4()
    mine = thought(group, theirs, never)
    found = asked_why(group, mine)
    assert found.missing == [theirs, never]
    assert "secret" not in found.model_dump_json()
    with pytest.raises(NotFound):
        asked_why(group, theirs)


def test_a_request_owes_one_reflection_however_often_it_comes(group: str) -> None:
    event(group)
    klaus = OfAgent(agent_id="klaus")
    first = actions.request_reflection.perform(Actor(group), klaus)
    assert actions.request_reflection.perform(Actor(group), klaus) == first
    assert [kind for kind, _ in owed(group)].count(REFLECT) == 1
    query = ById(id=first.id)
    state = actions.get.perform(Actor(group), query)
    assert (state.state, state.trigger, state.thoughts) == ("owed", "request", [])
    for whose, wanted in ((group, OfAgent(agent_id="nobody")), ("other", klaus)):
        with pytest.raises(NotFound):
            actions.request_reflection.perform(Actor(whose), wanted)
    with pytest.raises(NotFound):
        actions.get.perform(Actor("other"), query)


def test_agents_with_news_reflect_once_a_night_by_their_own_clock(group: str) -> None:
    for agent, count in (("klaus", 4), ("maria", 3), ("sam", 2)):
        save(*[observed(group, f"{agent} does {n}", agent, poignancy=2) for n in range(count)])
    save(observed(group, "a thought", "idler", node_type="thought"))
    tasks.run_until_idle(ACCUMULATE, accumulate)
    save(configured(group, "maria", tz="Asia/Shanghai"))
    with unit_of_work() as connection:
        noon = text("UPDATE memory_nodes SET stored_at = '2026-03-01 12:00Z' WHERE group_id = :g")
        connection.execute(noon, {"g": group})
    assert JOBS["reflect"].schedule(get_settings()).every == 3_600
    assert due(group, "2026-03-01 18:59Z") == []
    assert due(group, "2026-03-01 19:00Z") == ["maria"]  # three in the morning in Shanghai
    assert due(group, "2026-03-02 02:59Z") == ["maria"]
    assert due(group, "2026-03-02 03:00Z") == ["klaus", "maria"]  # sam's two events are too few
    with unit_of_work() as connection:
        for agent, news, now, expected in (
            ("maria", 3, "2026-03-01 18:59Z", moment("2026-03-01 19:00Z")),
            ("klaus", 4, "2026-03-02 03:00Z", moment("2026-03-03 03:00Z")),
            ("sam", 2, "2026-03-02 03:00Z", None),
        ):
            assert next_scheduled(connection, (group, agent), news, moment(now)) == expected
    assert REFLECT not in {kind for kind, _ in owed(group)}
    run_job(group, "2026-03-02 03:00Z")
    assert {subject for kind, subject in owed(group) if kind == REFLECT} == {
        agent_key(group, "klaus"),
        agent_key(group, "maria"),
    }
    run_job(group, "2026-03-02 04:00Z")
    found = rows("SELECT * FROM reflections WHERE group_id = :g", g=group)
    assert [(row["trigger"], row["state"]) for row in found] == [("schedule", "owed")] * 2
    with unit_of_work() as connection:  # given up, with all that is new still new
        connection.execute(text("DELETE FROM pending_work WHERE group_id = :g"), {"g": group})
        connection.execute(
            text("UPDATE reflections SET created_at = '2026-03-02 03:00Z' WHERE group_id = :g"), {"g": group}
        )
    assert due(group, "2026-03-02 05:00Z") == []
    assert due(group, "2026-03-03 05:00Z") == ["klaus", "maria"]


def agent_key(group: str, agent: str) -> UUID:
    (row,) = rows("SELECT agent_key FROM agents WHERE group_id = :g AND agent_id = :a", g=group, a=agent)
    return UUID(str(row["agent_key"]))


def moment(told: str) -> datetime:
    return datetime.fromisoformat(told)


def due(group: str, now: str) -> list[str]:
    with unit_of_work() as connection:
        return sorted(agent for _, _, agent in due_by_schedule(connection, group, moment(now), 100))


def run_job(group: str, now: str) -> None:
    reflect_by_schedule(Run("reflect", moment(now), group_id=group))
