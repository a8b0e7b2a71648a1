"""From turns to memories: when they are looked through, what is stored, what supersedes what, and what a
failure leaves.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from engine.providers import llms
from engine.rules.provider import Rules
from jiyi.errors import LLMUnavailable
from jiyi.settings import get_settings
from models.conversations.extraction_schedule import EXTRACT
from models.conversations.extractions import KNOWN_FACTS, known_facts
from models.db.connection import unit_of_work
from tasks.conversations import extraction
from tasks.framework import work
from tests.integration.conversations.talk import (
    START,
    end_session,
    facts,
    hurry,
    nodes,
    owed,
    run,
    save,
    say,
    turn,
    window,
)

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

#: More things than facts are known anyway.
LIKED = """apples pears plums figs dates grapes melons cherries olives onions leeks carrots beets turnips radishes peas beans lentils
    rice oats barley rye honey jam butter cheese yoghurt milk tea cocoa bread cake pies soup stew tofu noodles
    dumplings kimchi pickles
    pepper mustard vinegar crackers waffles pancakes muffins biscuits truffles"""
SMALL_TALK = ["Hello there.", "Nice weather.", "Well then."]


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
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = extraction.extract_session

    def meanwhile(*about: Any) -> object:
        monkeypatch.setattr(extraction, "extract_session", asked)
        say(group, "I am allergic to peanuts.", session_id="s2")
        end_session(group, "s2")
        return asked(*about)

    say(group, "I live in Porto.")
    end_session(group)
    monkeypatch.setattr(extraction, "extract_session", meanwhile)
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
    first = say(group, *SMALL_TALK, "I live in Porto.")
    run()
    second = say(group, *SMALL_TALK, "I moved to Lisbon.", start=START + timedelta(days=30), session_id="s2")
    hurry()
    run()
    old, new = nodes(group, "knowledge")
    assert (old["superseded_by"], old["superseded_at"]) == (new["node_id"], new["created_at"])
    assert new["superseded_by"] is None
    turns = {row["node_id"]: row for row in nodes(group, "session")}
    ended = [turns[turn]["provenance"].get("marks") for turn in (first[3], second[3])]
    [mark] = ended[0]
    assert (mark["why"], mark["start"], mark["end"]) == ("ended", 0, len("I live in Porto"))
    assert ended[1] is None
    # A turn was said, whatever has ended of it.
    assert all(row["superseded_by"] is None for row in turns.values())


def test_what_says_something_else_of_the_same_attribute_takes_nothing_back(group: str) -> None:
    """Looked through together: the first has a value of its attribute, the second another side of it."""
    say(group, *SMALL_TALK, "我妈妈在深圳上班。", "今天天气不错啊。", "我妈妈是做销售代表的。")
    hurry()
    run()
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
    say(group, *(f"I live in {home}." for home in first), *SMALL_TALK, start=start, session_id="s2")
    run()
    if second:
        say(group, *SMALL_TALK, *(f"I live in {home}." for home in second))
        hurry()
        run()
    assert facts(group) == [f"User: I live in {holds}."]


def test_bug_h2_the_same_content_at_the_same_address_is_stored_once_and_lists_grow(group: str) -> None:
    for session in ("s1", "s2"):
        say(group, *SMALL_TALK, "I am allergic to peanuts.", "I am allergic to milk.", session_id=session)
        hurry()
        run()
    assert len(nodes(group, "knowledge")) == len(facts(group)) == 2


def test_work_waits_for_an_llm_that_is_away_and_moves_nothing(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llms, "llm", _away)
    say(group, *SMALL_TALK, "I live in Porto.")
    run()
    [waiting] = owed()
    assert waiting["attempts"] == 0
    assert "nobody there" in waiting["last_error"]
    monkeypatch.undo()
    hurry()
    run()
    assert len(facts(group)) == 1


def test_rules_stand_in_for_an_llm_that_is_away_if_told_to(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = get_settings().model_copy(update={"extract_fallback": "rules"})
    monkeypatch.setattr(work, "get_settings", lambda: settings)
    monkeypatch.setattr(llms, "llm", _away)
    say(group, *SMALL_TALK, "I live in Porto.")
    run()
    [found] = nodes(group, "knowledge")
    assert (found["provenance"]["llm"], found["provenance"]["fallback"]) == (Rules.model, True)


def test_of_two_runs_over_the_same_turns_one_counts(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    asked = extraction.extract_session

    def slowly(*about: Any) -> object:
        monkeypatch.setattr(extraction, "extract_session", asked)
        hurry()  # the lease has run out
        run()
        return asked(*about)

    monkeypatch.setattr(extraction, "extract_session", slowly)
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


class _away:
    model = "away"

    def ask(self, _question: Any) -> Any:
        raise LLMUnavailable("nobody there")


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
