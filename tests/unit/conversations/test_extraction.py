"""Extraction by rules: what a conversation tells, of whom, and what that changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.conversations.attributes import attribute_of
from engine.conversations.extract import extract
from engine.heads import judgements
from engine.heads.judgements import Heads
from engine.providers.questions import Extraction, KnownFact
from jiyi.protocol.conversations import CombinedExtraction, Message
from jiyi.text.words import Language

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def told(
    *texts: str, known: list[KnownFact] | None = None, language: Language = "en", judges: Heads | None = None
) -> CombinedExtraction:
    """What the user's messages tell; those that begin with ``> `` are the assistant's. Without ``judges`` by
    rules alone.
    """
    messages = []
    for number, text in enumerate(texts):
        role, at = ("assistant" if text.startswith("> ") else "user"), NOON + timedelta(minutes=number)
        messages.append(Message(role=role, text=text.removeprefix("> "), at=at))
    return extract(Extraction(agent_id="a", language=language, messages=messages, known=known or []), judges)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("I have to hand in the kiln report by Friday at the pottery school", "task"),
        ("我要在周五前交窑炉报告给学校", "task"),
        ("I learned the hard way that thick glaze cracks in my kiln", "agent_lesson"),
        ("上次釉太厚裂了，下次要先试烧一块小样", "agent_lesson"),
        ("I usually glaze my pots early in the morning before breakfast", "agent_pattern"),
        ("我通常早上先给陶罐上釉再吃早饭", "agent_pattern"),
        ("I bought three bags of porcelain clay in Jingdezhen", "user_fact"),
    ],
)
def test_zc_19_tasks_lessons_and_habits_have_their_categories(text: str, category: str) -> None:
    assert category in [memory.category for memory in told(text).memories]


@pytest.mark.parametrize(
    ("text", "name", "subject", "single"),
    [
        ("My name is Anna", "name", "user", True),
        ("我叫王芳", "name", "user", True),
        ("Call me Bob from now on", "called", "user", True),
        ("I live in Berlin", "home", "user", True),
        ("上周刚搬到无锡了", "home", "user", True),
        ("My sister Nora moved to Bergen", "home", "sister", True),
        ("我妈妈住在成都", "home", "妈妈", True),
        ("My friend lives in Oslo", "home", "user", False),
        ("我在苏州一家医院当护士", "job", "user", True),
        ("I'm allergic to peanuts", "allergy", "user", False),
        ("I've been vegetarian since 2019", "diet", "user", True),
        ("I've decided to go vegan", "diet", "user", True),
        ("I don't eat spicy food anymore", "likes:spici", "user", True),
        ("其实我不吃辣了", "likes:辣", "user", True),
        ("My favorite colour is teal", "favourite:colour", "user", True),
        ("My dentist appointment is on Tuesday", "time:dentist", "user", True),
        ("组会改到周四下午", "time:组会", "user", True),
        ("We adopted a dog called Bruno", "pet", "user", False),
        ("我打算五月去云南", "plan", "user", False),
    ],
)
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


def test_one_message_several_facts() -> None:
    found = told("I'm Priya, I live in Lisbon, I work as a data analyst.").memories
    assert [one.attribute for one in found] == ["home", "job"]
    assert "Priya" in found[0].content


def test_content_stands_alone() -> None:
    [memory] = told("> What's your dog called?", "Bruno.").memories
    assert memory.content == 'User: (asked "What\'s your dog called?") Bruno.'
    [dated] = told("昨天我家的猫豆包生病了", language="zh").memories
    assert dated.content == "用户：昨天 (2026-03-03)我家的猫豆包生病了"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I'm learning Korean, my exam is on December 5.", "My exam got postponed to December 19."),
        ("I've been vegetarian since 2019.", "Actually I started eating fish again."),
        ("我住在成都武侯区。", "过完年我就搬到天府新区去了。"),
    ],
)
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
    [moved] = told("I moved to Munich last week.", known=known, judges=judges).memories
    assert moved.supersedes == [0]
    [gone] = told("No more piano lessons with Osk.", known=known, judges=judges).memories
    assert gone.supersedes == [1]
    [other] = told("My sister lives in Munich.", known=known, judges=judges).memories
    assert other.supersedes == []


def test_a_head_alone_takes_nothing_back(judges: Heads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgements, "chances", lambda heads, pairs: [0.99] * len(pairs))
    known = [
        KnownFact(content=f"User: {text}", subject="user")
        for text in ("I like jazz", "I keep bees", "I play chess")
    ]
    [memory] = told("I have been a nurse in Leeds since 2019.", known=known, judges=judges).memories
    assert memory.supersedes == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I'm hoping to visit the Highlands in May.", "I've signed up for a pottery class now, from Monday."),
        ("我答应小满，周末带她去动物园。", "小满的钢琴停了，她想学打鼓。"),
        ("My sister sold her car.", "I sold the old table."),
        ("I love road trips with friends.", "I love road cycling, too."),
        ("我妈妈是做销售的。", "我妈妈在深圳上班。"),
    ],
)
def test_what_changes_nothing(before: str, after: str) -> None:
    known = [
        KnownFact(**one.model_dump(include={"content", "subject", "attribute", "single_valued"}))
        for one in told(before).memories
    ]
    assert [one.supersedes for one in told(after, known=known).memories] == [[]]
    old, new = told(before, after).memories
    assert not (new.single_valued and (old.subject, old.attribute) == (new.subject, new.attribute))


def test_a_problem_is_kept_with_what_solved_it() -> None:
    found = told(
        "My app keeps crashing with a KeyError on startup.",
        "> 1. Check the config\n2. Add a default value",
        "Adding a default value to the config fixed it, thanks!",
    )
    [experience] = found.experiences
    assert experience.outcome == "success"
    assert experience.turns == [0, 2]
    assert experience.solution_steps == ["Adding a default value to the config fixed it, thanks!"]
    assert found.memories == []


@pytest.mark.parametrize(
    ("texts", "outcomes"),
    [
        (["每次跑脚本都报错，提示内存不足。", "改成每次读一千行以后就好了。"], ["success"]),
        (["The build keeps failing on CI.", "Pinning numpy helped a bit, it mostly works now."], ["partial"]),
        (["打印机一直连不上。", "重装驱动也没用，放弃了。"], ["failed"]),
        (["The server crashes at night.", "What could it be?"], []),
    ],
)
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


@pytest.mark.parametrize(
    "texts",
    [
        ("> Why did you switch?", "Privacy mostly."),
        ("> 新家怎么样？", "比原来大一点"),
        ("上完夜班真的好困啊",),
        ("I'm so tired today",),
    ],
)
def test_feelings_of_the_moment_and_short_opinions_are_not_kept(texts: tuple[str, ...]) -> None:
    assert told(*texts).memories == []


@pytest.mark.parametrize(
    ("acting", "kept"),
    [("假设你是我的健身教练", True), ("你演店员，我演顾客", False), ("Act as my lawyer.", True)],
)
def test_only_who_plays_a_part_is_acting(acting: str, kept: bool) -> None:
    found = told(acting, "> Fine.", "我每周三和周五晚上打羽毛球", language="zh")
    assert bool(found.memories) is kept


def test_ordinary_utterances() -> None:
    """Long sentences, typos, two languages, what others say, suppose, deny and ask: nothing but what is so of
    the user is kept.
    """
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


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("I live in Ghent and work as a baker.", ["User: I live in Ghent", "User: I work as a baker."]),
        ("我住在根特，在面包店上班", ["用户：我住在根特", "用户：我在面包店上班"]),
        ("My name is Rui and I live in Porto.", ["User: My name is Rui", "User: I live in Porto."]),
        ("我叫小林，而且我住在杭州。", ["用户：我叫小林", "用户：我住在杭州。"]),
        ("I like tea and coffee", ["User: I like tea and coffee"]),
        ("I have two dogs and a cat", ["User: I have two dogs and a cat"]),
        ("I went to Rome and lived there for years", ["User: I went to Rome and lived there for years"]),
    ],
)
def test_what_is_said_without_its_pronoun_is_a_memory_of_its_own(text: str, contents: list[str]) -> None:
    """Else who moves would lose their job with their home."""
    assert [memory.content for memory in told(text).memories] == contents


@pytest.mark.parametrize(
    ("texts", "step"),
    [
        (
            [
                "The kiln shows error E4.",
                "I cleaned the contact.",
                "I wanted to cry.",
                "That fixed it, it works.",
            ],
            "I cleaned the contact.",
        ),
        (["洗衣机一直报错，不排水", "我把过滤网拆下来冲了一下", "好了，能用了"], "我把过滤网拆下来冲了一下"),
    ],
)
def test_whatever_was_done_is_a_step_and_an_error_code_is_no_tool(texts: list[str], step: str) -> None:
    (lived,) = told(*texts).experiences
    assert (lived.solution_steps, lived.tools_used) == ([step], [])
