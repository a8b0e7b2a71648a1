"""From turns to memories: when they are looked through, what is stored, what supersedes what, and what a
failure leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from engine.rules.provider import Rules
from models.conversations.extraction_schedule import EXTRACT
from models.conversations.extractions import KNOWN_FACTS, known_facts
from models.db.connection import unit_of_work
from tests.integration.conversations.talk import (
    SMALL_TALK,
    START,
    Away,
    Meanwhile,
    end_session,
    facts,
    hurry,
    nodes,
    owed,
    run,
    save,
    say,
    talked,
    turn,
    window,
)
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: More things than facts are known anyway.
LIKED = """apples pears plums figs dates grapes melons cherries olives onions leeks carrots beets turnips radishes peas beans lentils
    rice oats barley rye honey jam butter cheese yoghurt milk tea cocoa bread cake pies soup stew tofu noodles
    dumplings kimchi pickles
    pepper mustard vinegar crackers waffles pancakes muffins biscuits truffles"""


UseLLM = Callable[[Any], Any]


def test_a_turn_is_a_memory_of_kind_session_about_its_speaker(group: str) -> None:
    said = [*say(group, "I live in Porto."), *say(group, "我在杭州工作", name="小林", session_id="s2")]
    one, two = nodes(group)
    assert [one["node_id"], two["node_id"]] == said
    assert (one["kind"], one["subject"], one["description"]) == ("session", "user", "I live in Porto.")
    assert (two["subject"], two["description"]) == ("小林", "小林: 我在杭州工作")
    assert two["uri"] == "agent://helper/session/s2"
    event = turn(group, "It rains.")
    assert [save([event]).repeated, save([event]).repeated] == [0, 1]
    assert len(nodes(group)) == 3


def test_turns_tell_memories_that_name_them(group: str) -> None:
    def kinds() -> set[str]:
        work = text("SELECT kind FROM pending_work WHERE group_id = :group")
        with unit_of_work() as connection:
            return set(connection.execute(work, {"group": group}).scalars())

    said = say(group, *SMALL_TALK, "I am allergic to peanuts.")
    assert kinds() == {"embed", EXTRACT}
    assert run() == 1
    assert "accumulate" in kinds(), "what turns tell brings a reflection nearer, they themselves do not"
    [found] = nodes(group, "knowledge", "preference")
    assert found["filling"] == [str(said[3])]
    assert "peanuts" in found["description"]
    assert found["uri"] == "agent://helper/knowledge/allergy"
    assert found["created_at"] == START + timedelta(minutes=3)
    assert found["provenance"]["prompt"] == "extraction@4"


def test_few_messages_wait_for_more_or_for_the_end_of_the_session(group: str) -> None:
    say(group, "I live in Porto.")
    assert run() == 0
    [waiting] = owed()
    assert timedelta(minutes=9) < waiting["due_at"] - datetime.now(UTC) <= timedelta(minutes=10)
    end_session(group)
    assert run() == 1
    assert facts(group) == ["User: I live in Porto."]


def test_a_session_that_ends_while_turns_are_looked_through_is_looked_through_next(
    group: str, use_llm: UseLLM
) -> None:
    def meanwhile() -> None:
        say(group, "I am allergic to peanuts.", session_id="s2")
        end_session(group, "s2")

    say(group, "I live in Porto.")
    end_session(group)
    use_llm(Meanwhile(meanwhile))
    assert run() == 2
    assert len(facts(group)) == 2


def test_what_follows_within_the_window_is_looked_through_together_and_nothing_twice(group: str) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    assert run() == 1
    for number in range(27):
        say(group, f"I like number{number} very much.", start=START + timedelta(hours=1, minutes=number))
        assert run() == 0
    [waiting] = owed()
    assert waiting["due_at"] - datetime.now(UTC) <= timedelta(seconds=window())
    hurry()
    assert run() == 1
    assert owed() == []
    turns = [turn_id for row in nodes(group, "preference", "knowledge") for turn_id in row["filling"]]
    assert len(turns) == len(set(turns)) == 28


def test_the_newer_of_a_single_valued_attribute_supersedes_the_older_with_both_dates(group: str) -> None:
    first = talked(group, *SMALL_TALK, "I live in Porto.")
    later = {"start": START + timedelta(days=30), "session_id": "s2"}
    second = talked(group, *SMALL_TALK, "I moved to Lisbon.", **later)
    old, new = nodes(group, "knowledge")
    assert (old["superseded_by"], old["superseded_at"]) == (new["node_id"], new["created_at"])
    assert new["superseded_by"] is None
    turns = {row["node_id"]: row for row in nodes(group, "session")}
    ended = [turns[turn]["provenance"].get("marks") for turn in (first[3], second[3])]
    [mark] = ended[0]
    assert (mark["why"], mark["start"], mark["end"]) == ("ended", 0, len("I live in Porto"))
    assert ended[1] is None
    assert {row["superseded_by"] for row in turns.values()} == {None}, "a turn was said, whatever has ended"


def test_what_says_something_else_of_the_same_attribute_takes_nothing_back(group: str) -> None:
    """Looked through together: the first has a value of its attribute, the second another side of it."""
    talked(group, *SMALL_TALK, "我妈妈在深圳上班。", "今天天气不错啊。", "我妈妈是做销售代表的。")
    assert sorted(facts(group)) == ["用户：我妈妈在深圳上班。", "用户：我妈妈是做销售代表的。"]


@pytest.mark.parametrize(
    ("first", "start", "second", "holds"),
    [
        (["Lisbon"], START + timedelta(days=30), ["Porto"], "Lisbon"),
        (["Porto"], datetime.now(UTC) + timedelta(days=400), ["Lisbon"], "Lisbon"),
        (["Porto", "Lisbon", "Porto"], START, [], "Porto"),
    ],
    ids=["whatever comes later", "unless it is dated ahead", "a value that comes back within one run"],
)
def test_what_was_said_later_holds(
    group: str, first: list[str], start: datetime, second: list[str], holds: str
) -> None:
    talked(group, *(f"I live in {home}." for home in first), *SMALL_TALK, start=start, session_id="s2")
    if second:
        talked(group, *SMALL_TALK, *(f"I live in {home}." for home in second))
    assert facts(group) == [f"User: I live in {holds}."]


def test_bug_h2_the_same_content_at_the_same_address_is_stored_once_and_lists_grow(group: str) -> None:
    for session in ("s1", "s2"):
        talked(group, *SMALL_TALK, "I am allergic to peanuts.", "I am allergic to milk.", session_id=session)
    assert len(nodes(group, "knowledge")) == len(facts(group)) == 2


def test_work_waits_for_an_llm_that_is_away_and_moves_nothing(group: str, use_llm: UseLLM) -> None:
    use_llm(Away())
    say(group, *SMALL_TALK, "I live in Porto.")
    run()
    [waiting] = owed()
    assert waiting["attempts"] == 0
    assert "nobody there" in waiting["last_error"]
    use_llm(Rules())
    hurry()
    run()
    assert len(facts(group)) == 1


def test_rules_stand_in_for_an_llm_that_is_away_if_told_to(group: str, use_llm: UseLLM) -> None:
    use_llm(Away())
    with environment(extract_fallback="rules"):
        talked(group, *SMALL_TALK, "I live in Porto.")
    [found] = nodes(group, "knowledge")
    assert (found["provenance"]["llm"], found["provenance"]["fallback"]) == (Rules.model, True)


def test_of_two_runs_over_the_same_turns_one_counts(group: str, use_llm: UseLLM) -> None:
    def another_run() -> None:
        hurry()  # the lease has run out
        run()

    use_llm(Meanwhile(another_run))
    say(group, *SMALL_TALK, "I live in Porto.")
    run()
    assert len(nodes(group, "knowledge")) == 1


def test_extraction_of_an_agent_that_was_erased_is_no_longer_owed(group: str) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE agents SET agent_key = gen_random_uuid() WHERE group_id = :group"), {"group": group}
        )
    assert run() == 1
    assert owed() == []


def test_an_old_fact_is_known_again_when_a_turn_is_about_it(group: str) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    assert run() == 1
    [old] = nodes(group, "knowledge", "preference")
    say(group, *(f"I like {thing} very much." for thing in LIKED.split()), start=START + timedelta(hours=1))
    hurry()
    run()
    assert len(facts(group)) > KNOWN_FACTS + 1
    [turn_id] = say(group, "Porto is over, I moved.", start=START + timedelta(days=2))
    name = (group, "helper")
    with unit_of_work() as connection:
        known = known_facts(connection, name, [turn_id])
        assert old["node_id"] not in [one.node_id for one in known], "the turn has no vector yet"
        embedded = text(
            "UPDATE memory_nodes SET embedding = '[1,0]', embedding_model = 'm' WHERE node_id = ANY(:ids)"
        )
        connection.execute(embedded, {"ids": [old["node_id"], turn_id]})
        known = known_facts(connection, name, [turn_id])
    assert len(known) == KNOWN_FACTS + 1
    assert known[-1].node_id == old["node_id"]
    assert known[-1].fact.attribute == "home"
