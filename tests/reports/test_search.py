"""What people find: everything they may see, through every door alike; what filters leave out; and the same
after the same question.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.recall import RecallRequest, UpdateMemory
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.db.actions import Actor
from models.db.scope import for_groups
from models.memory.archive import update_memory
from models.memory.work import EMBED
from tasks.conversations import injection
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tasks.retrieval import context
from tasks.retrieval import retrieve as retrieval
from tests.integration.conversations.talk import START, say
from tests.integration.memory.test_inbox import observed, save
from tests.reports.talks import LATER, a_group_each, extracted

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def embedded() -> None:
    run_until_idle(EMBED, embed)


def asked(group: str, question: str, **options: Any) -> Answer:
    fields = {"group_id": group, "agent_id": "helper", "queries": [question], "touch": False, "now": LATER}
    with for_groups(group, user=options.get("user_id")):
        answer = retrieval.retrieve(RetrievalRequest.model_validate(fields | options))
    assert isinstance(answer, Answer)
    return answer


def prompt(group: str, question: str, **options: Any) -> str:
    """What a chat's prompt has for a question."""
    fields = {"agent_id": "helper", "query": question, "session_id": "new", "now": LATER, "note": False}
    return injection.build(Actor(group, "test"), ContextRequest.model_validate(fields | options)).context


def recalled(group: str, question: str, **options: Any) -> str:
    fields = {"agent_id": "helper", "query": question, "now": LATER, "touch": False, **options}
    return context.build(Actor(group, "test"), RecallRequest.model_validate(fields)).text


def observes(group: str, *descriptions: str, occurred_at: datetime = START, **fields: Any) -> None:
    """What a program tells, with its vectors."""
    save(
        *(observed(group, one, agent_id="helper", occurred_at=occurred_at, **fields) for one in descriptions)
    )
    embedded()


def test_what_a_program_observed_reaches_a_chats_prompt(group: str) -> None:
    observes(group, "The party is on Friday at Anna's.")
    observes(group, "Zoe is allergic to nuts.", user_id="zoe")
    observes(group, "The parcel stands in the hall.", session_id="new")
    assert "Anna's" in prompt(group, "When is the party?", user_id="zoe")
    assert "nuts" in prompt(group, "What is Zoe allergic to?", user_id="zoe")
    assert "nuts" not in prompt(group, "What is Zoe allergic to?", user_id="ben")
    assert "hall" in prompt(group, "Where is the parcel?"), "though observed in the session that goes on"


def test_an_agent_that_was_only_asked_something_answers(group: str) -> None:
    """A question counts for nothing that is measured of all memories: then there is nothing to measure by."""
    for one, question in a_group_each(group, ("What must I not eat?", "我不能吃什么？")):
        say(one, question, session_id="s0")
        embedded()
        assert asked(one, question).status in ("ok", "below_threshold", "no_candidates")


#: What is so, a question, and what the assistant says to it.
SAID = [
    ("I am allergic to nuts.", "Can I have the cake?", "Let me check that for you right away."),
    ("我对坚果过敏。", "我可以吃这块蛋糕吗？", "我来看看这块蛋糕的配料。"),
]


def test_to_ask_the_same_again_changes_nothing(group: str) -> None:
    for one, (fact, question, reply) in a_group_each(group, SAID):
        say(one, fact, "The weather was nice by the lake.", "My sister plays the cello.", session_id="s0")
        extracted()
        embedded()

        def found(one: str = one, question: str = question) -> list[tuple[UUID, float, float]]:
            nodes = asked(one, question).retrieved_nodes
            return [(node.node_id, round(node.score, 9), round(node.probability or 0, 9)) for node in nodes]

        before, text = found(), prompt(one, question)
        for number in range(3):
            again = question, ("assistant", reply)
            say(one, *again, start=START + timedelta(days=number + 1), session_id=f"r{number}")
            embedded()
            assert found() == before, f"asked {number + 1} times before"
            assert set(text.splitlines()) <= set(prompt(one, question).splitlines())


def test_an_empty_answer_says_what_belongs_to_users(group: str) -> None:
    observes(group, *(f"Cup {number} is Mia's." for number in range(3)), user_id="mia")
    answer = asked(group, "Whose cup is it?")
    assert (answer.status, answer.debug.left_out) == ("no_candidates", {"user_id": 3})
    assert "3 that belong to users (give user_id)" in answer.message
    found = context.build(Actor(group, "test"), RecallRequest(agent_id="helper", query="Whose cup is it?"))
    assert (found.memories, found.message) == ([], answer.message)
    assert asked(group, "Whose cup is it?", user_id="mia").message == ""
    other = asked(group, "Whose cup is it?", user_id="ben")
    assert other.status == "no_candidates", "what others said in private is not counted for him"


def test_what_is_superseded_is_counted_where_it_is_hidden_and_shown_by_one_switch(group: str) -> None:
    old = observed(group, "Mia lives in Porto.", agent_id="helper", occurred_at=START)
    save(old, observed(group, "Mia keeps bees.", agent_id="helper", occurred_at=START))
    update_memory.perform(
        Actor(group, "test"),
        UpdateMemory(id=old.event_id, description="Mia lives in Lisbon.", occurred_at=LATER),
    )
    embedded()
    answer = asked(group, "Where does Mia live?")
    assert "Porto" not in " ".join(node.description for node in answer.retrieved_nodes)
    assert (answer.debug.left_out, answer.message) == (
        {"superseded": 1},
        "left out: 1 superseded (superseded)",
    )
    shown = asked(group, "Where does Mia live?", filters={"superseded": True})
    assert "Porto" in " ".join(node.description for node in shown.retrieved_nodes)
    assert shown.message == ""
    assert "Porto" in recalled(group, "Where does Mia live?", superseded=True)
    assert "Porto" not in recalled(group, "Where does Mia live?")


def test_a_prompt_has_what_happened_in_the_month_that_is_asked_about(group: str) -> None:
    days = [datetime(2025, month, day, 9, tzinfo=UTC) for month in (7, 8, 9) for day in (3, 17)]
    things = [
        "The roof was mended.",
        "We bought a kiln.",
        "The logo became green.",
        "Tom left the team.",
        "A hive swarmed.",
        "The van broke.",
    ]
    for thing, day in zip(things, days, strict=True):
        save(observed(group, thing, agent_id="helper", occurred_at=day))
    embedded()
    for question in ("What happened in August 2025?", "2025年8月发生了什么？"):
        for text in (recalled(group, question), prompt(group, question)):
            assert "logo" in text and "Tom" in text, question
