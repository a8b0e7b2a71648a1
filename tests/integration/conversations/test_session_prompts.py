"""A session's prompts: what stays the same, when it is made anew, what is recalled once, and never more than
the budget.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.recall import InjectedContext
from jiyi.text.budget import estimate_tokens
from models.conversations import injections
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tasks.conversations import injection
from tests.integration.conversations.talk import START, end_session, run, say
from tests.integration.conversations.test_commands import add, rows_of
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase
from tests.integration.threads import Threads

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")

TEA, SHRIMP = "The user likes green tea. 喜欢绿茶。", "The user fishes for shrimp."


def ask(group: str, query: str, turn: int | None = None, **fields: Any) -> InjectedContext:
    asked = {"agent_id": "helper", "query": query, "base_prompt": "Be kind.", "split": True, "turn": turn}
    return injection.build(Actor(group, "test"), ContextRequest(**asked | {"session_id": "s9"} | fields))


def prefer(group: str, what: str, category: str) -> None:
    add(group, what, f"agent://helper/preference/{category}")


def kept(group: str) -> list[Any]:
    return rows_of("session_prompts", group)


def test_a_session_s_prompt_begins_with_the_same_bytes_until_something_in_it_is_withdrawn(group: str) -> None:
    prefer(group, TEA, "tea")
    add(group, SHRIMP)
    signals = ProfileSignals(role="potter", recent_topics=["rain"])
    with unit_of_work() as connection:
        injections.update_profile(connection, (group, "helper"), signals, START)
    first = ask(group, "Do I fish for shrimp?", 1)
    assert first.prompt == f"{first.stable}\n\n{first.recalled}"
    assert first.stable.startswith("Be kind.\n\n")
    assert [word in first.stable for word in ("potter", "green tea", "rain")] == [True, True, False]
    assert ("shrimp" in first.recalled, "green tea" in first.recalled) == (True, False)
    prefer(group, "The user likes oat milk.", "milk")
    again, second = ask(group, "Do I fish for shrimp?", 1), ask(group, "Shrimp, you said? 虾？", 2)
    assert (again.stable, again.recalled, again.earlier) == (first.stable, first.recalled, [])
    assert second.stable == first.stable
    assert [(block.turn, block.text) for block in second.earlier] == [(1, first.recalled)]
    assert "fishes for shrimp" not in second.recalled
    assert "oat milk" in ask(group, "And now?", 3, renew=True).stable
    assert "oat milk" in ask(group, "And now?", 1, session_id="unknown").stable
    ended = text("UPDATE memory_nodes SET superseded_at = now() WHERE group_id = :g AND description = :tea")
    with unit_of_work() as connection:
        connection.execute(ended, {"g": group, "tea": TEA})
    renewed = ask(group, "And what do I drink?", 4)
    assert ("green tea" in renewed.stable, "oat milk" in renewed.stable, renewed.earlier) == (False, True, [])


def test_nothing_is_split_unless_asked_for(group: str) -> None:
    prefer(group, TEA, "tea")
    plain = ask(group, "Do I like tea?", split=False, session_id=None)
    assert (plain.prompt, plain.stable) == (f"Be kind.\n\n{plain.context}", "Be kind.")
    assert kept(group) == []


def test_stable_and_recalled_together_keep_to_the_budget_however_long_the_session(group: str) -> None:
    for place in range(12):
        prefer(group, f"The user likes tea number {place}, and 第{place}种茶。", f"tea{place}")
        kiln = f"The user keeps kiln number {place} at {place} degrees."
        add(group, kiln, f"agent://helper/knowledge/kiln{place}")
    for budget in (1, 30, 120, 400, 2_000):
        of = {"max_tokens": budget, "session_id": f"s{budget}"}
        stable = set()
        for turn in range(1, 9):
            got = ask(group, f"How hot is kiln number {turn}?", turn, **of)
            assert estimate_tokens(got.context) <= got.tokens <= budget
            assert got.tokens + sum(estimate_tokens(block.text) for block in got.earlier) <= 3 * budget
            stable.add(got.stable)
        assert stable == {ask(group, " ", 9, **of).stable}


@pytest.mark.parametrize(
    ("hello", "told", "asked"),
    [("Hi!", "I was in town.", "How hot is the kiln?"), ("你好！", "我进城了。", "窑温多少？")],
)
def test_a_session_begins_with_what_matters_most_and_goes_on_with_what_is_asked_for(
    group: str, hello: str, told: str, asked: str
) -> None:
    add(group, SHRIMP)
    first = ask(group, hello, 1)
    assert "shrimp" in first.recalled
    add(group, "The user keeps the kiln at 980 degrees. 窑温980度。", "agent://helper/knowledge/kiln")
    assert ask(group, told, 2).recalled == ""
    assert "980" in ask(group, asked, 3).recalled


def test_processes_that_ask_at_once_get_the_same_bytes_and_sessions_of_one_user_their_own(group: str) -> None:
    prefer(group, TEA, "tea")
    add(group, SHRIMP)
    with Threads(4) as pool:
        answers = list(pool.map(lambda _: ask(group, "Do I fish for shrimp?", 1), range(4)))
    assert len({(answer.stable, answer.recalled) for answer in answers}) == 1
    assert ask(group, "Do I fish for shrimp?", 1, session_id="s10").recalled != ""
    assert {row["session_id"] for row in kept(group)} == {"s9", "s10"}


def test_an_erasure_takes_what_was_kept_of_sessions(group: str) -> None:
    said = say(group, "I am allergic to peanuts.")
    end_session(group)
    run()
    ask(group, "What am I allergic to?", 1)
    assert "peanuts" in str(kept(group))
    erase(group, node_ids=[said[0]])
    assert kept(group) == []
