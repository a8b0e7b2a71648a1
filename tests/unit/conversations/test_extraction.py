"""Extraction by rules: what a conversation tells, of whom, and what that changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

from engine.conversations.attributes import attribute_of
from engine.conversations.extract import extract
from engine.heads.judgements import RETIRING, Heads, Judged
from engine.providers.questions import Extraction, KnownFact
from jiyi.protocol.conversations import CombinedExtraction, Message
from jiyi.text.words import Language, language_of
from tests.unit.conversations.said import messages_of
from tests.unit.text.labelled import labelled

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def told(
    *texts: str, known: list[KnownFact] | None = None, language: Language = "en", judges: Heads | None = None
) -> CombinedExtraction:
    """What the user's messages tell (see :func:`messages_of`). Without ``judges`` by rules alone."""
    messages = messages_of(texts, NOON)
    return extract(Extraction(agent_id="a", language=language, messages=messages, known=known or []), judges)


@labelled
def test_zc_19_tasks_lessons_and_habits_have_their_categories(text: str, category: str) -> None:
    assert category in [memory.category for memory in told(text).memories]


@labelled
def test_attributes(text: str, name: str, subject: str, single: bool) -> None:
    found = attribute_of(text)
    assert found is not None
    assert (found.name, found.subject, found.single_valued) == (name, subject, single)


def test_a_pronoun_is_of_whom_was_spoken_last_or_of_nobody() -> None:
    assert attribute_of("She moved to Antwerp") is None
    said = "My sister Nora lives in Ghent.", "> Lovely.", "She just moved to Antwerp, actually."
    found = told(*said).memories
    assert [(one.subject, one.attribute) for one in found] == [("sister", "home")] * 2
    assert found[1].content == "User: She (sister) just moved to Antwerp, actually."


def test_of_one_message_each_fact_is_one_and_stands_alone() -> None:
    found = told("I'm Priya, I live in Lisbon, I work as a data analyst.").memories
    assert [one.attribute for one in found] == ["home", "job"]
    assert "Priya" in found[0].content
    [memory] = told("> What's your dog called?", "Bruno.").memories
    assert memory.content == 'User: (asked "What\'s your dog called?") Bruno.'
    [dated] = told("昨天我家的猫豆包生病了", language="zh").memories
    assert dated.content == "用户：昨天 (2026-03-03)我家的猫豆包生病了"


@labelled
def test_a_change_has_the_attribute_of_what_it_changes(before: str, after: str, judges: Heads) -> None:
    old, new = told(before, after, judges=judges).memories
    assert (old.subject, old.attribute) == (new.subject, new.attribute)
    assert new.attribute is not None
    assert new.single_valued


def test_a_change_of_a_known_fact_names_it(judges: Heads) -> None:
    known = [
        KnownFact(content="User: I live in Berlin", subject="user", attribute="home", single_valued=True),
        KnownFact(content="User: I take piano lessons with Osk.", subject="user", attribute="hobby"),
    ]
    for said, ended in (
        ("I moved to Munich last week.", [0]),
        ("No more piano lessons with Osk.", [1]),
        ("My sister lives in Munich.", []),
    ):
        [memory] = told(said, known=known, judges=judges).memories
        assert memory.supersedes == ended, said


def test_a_head_alone_takes_nothing_back(judges: Heads) -> None:
    sure = Mock(wraps=judges, change_precision=judges.change_precision)
    sure.changes.side_effect = lambda pairs: [
        Judged("replaces", 0.99, dict.fromkeys(RETIRING, 0.0) | {"replaces": 0.99}) for _ in pairs
    ]
    known = [
        KnownFact(content=f"User: {text}", subject="user")
        for text in ("I like jazz", "I keep bees", "I play chess")
    ]
    [memory] = told("I have been a nurse in Leeds since 2019.", known=known, judges=sure).memories
    assert memory.supersedes == []
    assert len(sure.changes.call_args.args[0]) == len(known)


@labelled
def test_what_changes_nothing(before: str, after: str) -> None:
    known = [
        KnownFact(**one.model_dump(include={"content", "subject", "attribute", "single_valued"}))
        for one in told(before).memories
    ]
    assert [one.supersedes for one in told(after, known=known).memories] == [[]]
    old, new = told(before, after).memories
    assert not (new.single_valued and (old.subject, old.attribute) == (new.subject, new.attribute))


def test_a_problem_is_kept_with_what_solved_it() -> None:
    said = (
        "My app keeps crashing with a KeyError on startup.",
        "> 1. Check the config\n2. Add a default value",
    )
    solved = "Adding a default value to the config fixed it, thanks!"
    found = told(*said, solved)
    [lived] = found.experiences
    assert (lived.outcome, lived.turns, lived.solution_steps) == ("success", [0, 2], [solved])
    assert found.memories == []


@labelled
def test_how_a_problem_ended(texts: list[str], outcomes: list[str]) -> None:
    assert [one.outcome for one in told(*texts).experiences] == outcomes


def test_signals_of_the_profile() -> None:
    said = (
        "I'm a senior nurse at a hospital in Leeds.",
        "Please keep it short.",
        "I use Obsidian for my notes.",
    )
    signals = told(*said).profile_signals
    assert (signals.industry, signals.role) == ("healthcare", "senior nurse")
    assert (signals.communication_style, signals.preferred_tools) == ("concise", ["Obsidian"])
    assert told("If I were a lawyer, I'd use Excel.").profile_signals.role is None


def test_long_and_odd_texts() -> None:
    for text in ("a", "我", "I said ", "1. ", "(", "\u202e\u200b", "…"):
        assert len(told(text * (20_000 // len(text))).memories) <= 1


def test_the_labelled_conversations_are_well_formed_and_found() -> None:
    lines = Path("bench/extraction.jsonl").read_text(encoding="utf-8").splitlines()
    conversations = [json.loads(line) for line in lines]
    turns = {(one["id"], fact["turn"]) for one in conversations for fact in one["facts"]}
    nothing = sum(len(one["nothing"]) for one in conversations)
    assert len(turns) + nothing >= 240
    assert nothing >= len(turns)
    found = 0
    for one in conversations:
        messages = [Message(**row) for row in one["messages"]]
        made = extract(Extraction(agent_id="a", language=one["language"], messages=messages))
        named = {turn for entry in (*made.memories, *made.experiences) for turn in entry.turns}
        found += sum(fact["turn"] in named for fact in one["facts"])
    assert found >= 0.9 * sum(len(one["facts"]) for one in conversations)


@labelled
def test_who_plays_a_part_says_nothing_nor_do_feelings_of_the_moment_and_short_opinions(
    texts: list[str], kept: bool
) -> None:
    assert bool(told(*texts, language=language_of(texts[-1])).memories) is kept


def test_ordinary_utterances() -> None:
    """Typos, two languages, what others say, suppose, deny and ask: only what is so of the user is kept."""
    found = facts = kept = right = junk = empty = 0
    lines = Path(__file__).with_name("utterances.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        asked = [f"> {row['asked']}"] if row["asked"] else []
        extraction = told(*asked, row["text"], language=row["language"])
        memories = [memory.content.lower() for memory in extraction.memories]
        meant = [must.lower().split("|") for must in row["must"]]
        facts += len(meant)
        found += sum(any(one in text for text in memories for one in must) for must in meant)
        kept += len(memories)
        right += sum(any(one in text for must in meant for one in must) for text in memories)
        empty += not meant
        junk += not meant and bool(memories)
    assert len(lines) >= 90
    assert found / facts >= 0.97, "recall"
    assert right / kept >= 0.97, "precision"
    assert junk / empty <= 0.03, "junk"


@labelled
def test_what_is_said_without_its_pronoun_is_a_memory_of_its_own(text: str, contents: list[str]) -> None:
    """Else who moves would lose their job with their home."""
    assert [memory.content for memory in told(text).memories] == contents


@labelled
def test_whatever_was_done_is_a_step_and_an_error_code_is_no_tool(texts: list[str], step: str) -> None:
    (lived,) = told(*texts).experiences
    assert (lived.solution_steps, lived.tools_used) == ([step], [])
