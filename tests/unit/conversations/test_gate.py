"""engine.conversations.gate and .notes: what of an LLM's answer is used, and what becomes a memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.conversations import notes
from engine.conversations.gate import lacks, usable
from engine.conversations.notes import (
    Experiences,
    Lived,
    LivedThrough,
    Noted,
    Notes,
    accept_answers,
    nearest_facts,
    reports_problem,
)
from engine.growth.pains import FoundPain, FoundPains, Improvement, SelfReflected
from engine.growth.questions import PainQuestion, SelfReflectionQuestion
from engine.providers import questions as ask
from engine.providers.llm_prompts import prompt
from engine.providers.questions import KnownFact, Question
from jiyi.errors import BadReply
from jiyi.protocol.conversations import ExtractedMemory, Message
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import language_of
from tests.unit.providers.test_llms_prompts import LANGUAGES, QUESTIONS

DAY = datetime(2026, 5, 1, tzinfo=UTC)
KNOWN = [
    KnownFact(content="User: I am allergic to peanuts.", subject="user", attribute="allergy"),
    KnownFact(
        content="User: My sister lives in Oslo.", subject="sister", attribute="home", single_valued=True
    ),
    KnownFact(content="User: I live in Turku.", subject="user", attribute="home", single_valued=True),
    KnownFact(content="User: I have a cat.", subject="user", attribute="pet"),
]


def noted(said: list[str | tuple[str, str]], *notes: dict[str, Any]) -> tuple[list[ExtractedMemory], int]:
    """What becomes of an LLM's notes, and how many are dropped. Without heads: by rules alone."""
    pairs = [("user", one) if isinstance(one, str) else one for one in said]
    messages = [Message(role=role, text=text, at=DAY) for role, text in pairs]  # type: ignore[arg-type]
    question = Notes(agent_id="a", language=language_of(pairs[0][1]), messages=messages, known=KNOWN)
    given = Noted.model_validate({"memories": [{"lines": ["L0"], **note} for note in notes]})
    answer = usable(question, given)
    extraction, dropped = accept_answers(answer, LivedThrough(), question, None)
    return extraction.memories, dropped


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (["I live in Lisbon now."], "The user lives in Lisbon."),
        (["我刚搬到杭州，在医院当护士。"], "用户住在杭州。"),
        ([("assistant", "Which fruit do you hate?"), "Durian."], "The user hates durian."),
        ([("assistant", "Any allergies?"), "Shrimp."], "The user is allergic to shrimp."),
        (["我对花生过敏"], "用户对花生过敏。"),
    ],
)
def test_what_somebody_said_is_kept(said: list[str | tuple[str, str]], content: str) -> None:
    [memory], dropped = noted(said, {"content": content, "lines": [f"L{len(said) - 1}"]})
    assert (memory.content, memory.turns, dropped) == (content, [len(said) - 1], 0)


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (["What is the weather like?"], "The user enjoys sunny weather."),
        (["Thanks, that helps!"], "The user has a sister in Oslo."),
        (["I live in Porto."], "The user lives in Lisbon."),
        (["My friend hates peanuts."], "The user is allergic to peanuts."),
        (["我讨厌花生"], "用户对花生过敏。"),
        (["If I lived in Lisbon, I would surf."], "The user lives in Lisbon."),
        ([("assistant", "You live in Lisbon.")], "The user lives in Lisbon."),
        (["I wonder."], "Note what the new lines of a conversation say about people"),
    ],
)
def test_what_nobody_said_is_not(said: list[str | tuple[str, str]], content: str) -> None:
    try:
        memories, dropped = noted(said, {"content": content})
    except BadReply:  # nothing of the answer is usable
        return
    assert (memories, dropped) == ([], 1)


def test_of_an_answer_what_is_good_is_kept_and_the_rest_counted() -> None:
    good = {"content": "The user lives in Lisbon.", "importance": "8"}
    wrong: list[dict[str, Any]] = [{"content": ""}, {"content": "x", "lines": ["L9"]}]
    wrong += [{"content": "y", "lines": []}, {"content": "z", "importance": 11}]
    memories, dropped = noted(["I live in Lisbon."], good, *wrong)
    assert ([memory.content for memory in memories], dropped) == (["The user lives in Lisbon."], 4)
    with pytest.raises(ValueError, match="content"):
        noted(["I live in Lisbon."], {"content": ""})


def test_attribute_subject_and_the_one_value_are_read_from_the_user_s_words() -> None:
    said = ["I moved to Lisbon, and my sister moved to Rome."]
    sister = {"content": "The user's sister moved to Rome.", "about": "sister"}
    memories, _ = noted(said, {"content": "The user moved to Lisbon."}, sister)
    read = [(one.subject, one.attribute, one.single_valued, one.supersedes) for one in memories]
    assert read == [("user", "home", True, [2]), ("sister", "home", True, [1])]


@pytest.mark.parametrize(
    ("said", "content", "ended"),
    [
        ("I moved to Lisbon.", "The user moved to Lisbon.", [2]),
        ("My cat has run away.", "The user's cat has run away.", [3]),
        ("My neighbour has a cat.", "The user's neighbour has a cat.", []),
        ("I had a good day in Turku.", "The user had a good day in Turku.", []),
    ],
)
def test_an_llm_ends_what_is_of_the_same_subject_and_attribute_and_no_health(
    said: str, content: str, ended: list[int]
) -> None:
    [memory], _ = noted([said], {"content": content, "ends": ["S0", "S1", "S2", "S3", "S99"]})
    assert memory.supersedes == ended


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (["I moved to Lisbon."], [1, 2]),  # by the attribute
        (["The cat and the peanuts!"], [0, 3]),
        (["我刚搬到杭州。"], [1, 2]),
        (["What is 17 times 23?", ("assistant", "My sister has a cat.")], [0, 1]),
    ],
)
def test_an_llm_is_shown_what_new_messages_may_touch(
    monkeypatch: pytest.MonkeyPatch, said: list[str | tuple[str, str]], shown: list[int]
) -> None:
    monkeypatch.setattr(notes, "MOST_SHOWN", 2)
    pairs = [("user", one) if isinstance(one, str) else one for one in said]
    assert nearest_facts(KNOWN, [Message(role=role, text=text) for role, text in pairs], None) == shown  # type: ignore[arg-type]


def test_an_llm_is_shown_what_means_nearly_the_same_in_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alike:
        def similarities(self, text: str, others: Sequence[str]) -> list[float]:
            return [float("cat" in other) for other in others]

    monkeypatch.setattr(notes, "MOST_SHOWN", 2)
    said = [Message(role="user", text="She purred until the end. I am in tears in Turku.")]
    assert nearest_facts(KNOWN, said, Alike()) == [2, 3]  # type: ignore[arg-type]


def asked(said: str, known: list[KnownFact]) -> Notes:
    return Notes(agent_id="a", messages=[Message(role="user", text=said, at=DAY)], known=known)


def test_what_an_llm_ends_is_one_of_those_that_it_was_shown() -> None:
    question = asked("My cat has run away.", KNOWN)
    for ends, ended in (("S1", [3]), ("S0", []), ("S3", [])):
        note = {"content": "The user's cat has run away.", "lines": ["L0"], "ends": [ends]}
        answer = Noted.model_validate({"memories": [note]})
        [memory] = accept_answers(answer, LivedThrough(), question, None, [2, 3])[0].memories
        assert memory.supersedes == ended


@pytest.mark.parametrize(
    ("said", "ends", "ended"),
    [
        ("My pressure is fine again, the doc says no more labetalol.", ["S0"], [[0]]),
        ("My pressure is fine again, the doc says no more labetalol.", [], []),
        ("My pressure is fine again, the doc says no more pills.", ["S0"], []),  # which ones, it does not say
        ("Ines slept in, and my pressure is fine again.", ["S1"], []),  # a name is no medicine
    ],
)
def test_the_end_of_a_medicine_that_the_user_names_is_kept(
    said: str, ends: list[str], ended: list[list[int]]
) -> None:
    known = [KnownFact(content="User: I take labetalol 100 mg.", subject="user")]
    known.append(KnownFact(content="User: Ines takes labetalol 5 mg.", subject="Ines"))
    of = "Ines" if ends == ["S1"] else "The user"
    content = f"{of} no longer takes labetalol, as the blood pressure is fine."
    note = {"content": content, "about": of, "lines": ["L0"], "ends": ends}
    answer = Noted.model_validate({"memories": [note]})
    extraction, _ = accept_answers(answer, LivedThrough(), asked(said, known), None)
    assert [memory.may_end for memory in extraction.memories] == ended


def test_an_answer_ends_three_statements_at_most() -> None:
    home = KnownFact(content="User: I live in Turku.", subject="user", attribute="home", single_valued=True)
    question = asked("I moved to Lisbon.", [home] * 6)
    form = {"lines": ["L0"], "ends": [f"S{number}" for number in range(6)]}
    notes = [{"content": text, **form} for text in ("The user moved to Lisbon.", "The user moved.")]
    answer = Noted.model_validate({"memories": notes})
    ended = [
        memory.supersedes for memory in accept_answers(answer, LivedThrough(), question, None)[0].memories
    ]
    assert sum(map(len, ended)) == 3


def test_experiences_are_asked_for_where_a_problem_has_ended() -> None:
    messages = [
        Message(role="user", text="The kiln fails again and again."),
        Message(role="user", text="A slower ramp fixed the kiln."),
    ]
    assert reports_problem(messages, 1)
    assert not reports_problem(messages, 2)
    assert not reports_problem([Message(role="user", text="I like tea.")], 0)
    question = Notes(agent_id="a", messages=messages)
    form = {"steps": ["Use a slower ramp."], "outcome": "success", "lines": ["L0", 1]}
    problems = ("The kiln fails.", "The dog barks.")
    lived = [Lived.model_validate({"problem": problem, **form}) for problem in problems]
    extraction, dropped = accept_answers(Noted(), LivedThrough(experiences=lived), question, None)
    [experience] = extraction.experiences
    assert (experience.pain_pattern, experience.turns, dropped) == ("The kiln fails.", [0, 1], 1)
    assert Experiences(agent_id="a", messages=messages, since=1).about == "new are the lines from L1 on"


MAP = "Mia found a map."
MEMO = ask.Memo(agent_id="a", utterances=[("Mia", "I found a map.")])
SOURCE = "\n".join(
    f"Mia sent invoice {1000 + number} to Klaus on 2026-05-0{1 + number % 9}." for number in range(40)
)


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        ("OneSentence", "fewer than"),
        ("People wrote to each other, and some of them answered soon. " * 6, "no word"),
        ("Klaus got invoices. " * 12, "keeps fewer"),
        ("Klaus got invoices 1000, 1001, 1002, 1003 and 7777 from Mia, from 2026-05-01 on. " * 3, "7777"),
        ("Klaus got invoices 1000, 1001, 1002, 1003 and 1004 from Mia, from 2026-05-01 on. " * 3, ""),
    ],
)
def test_a_summary_has_length_words_and_figures_of_what_it_is_of(summary: str, wrong: str) -> None:
    found = lacks(summary, SOURCE)
    assert (wrong in found) if wrong else found == ""


def test_what_repeats_a_prompt_is_no_answer() -> None:
    for language in LANGUAGES:
        for cls in (ask.Memo, ask.Planning):
            own = prompt(cls.prompt, language).body.splitlines()[2]
            question: Question[Any] = cls(
                agent_id="a", language=language, utterances=[("Mia", own), ("Klaus", "hm")]
            )
            with pytest.raises(BadReply, match="repeats the prompt"):
                usable(question, ask.OneSentence(sentence=own))


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (MEMO, ask.OneSentence(sentence="OneSentence"), None),
        (MEMO, ask.OneSentence(sentence="Mia found a map."), "same"),
        (ask.Keywords(agent_id="a", text=MAP), ask.KeywordList(keywords=["maxLength", "items"]), None),
        (
            ask.Keywords(agent_id="a", text="米娅找到了一张地图"),
            ask.KeywordList(keywords=["地图", "pattern"]),
            ask.KeywordList(keywords=["地图"]),
        ),
        (ask.Triple(agent_id="a", text=MAP), ask.Facts(subject="x", predicate="is", object="y"), None),
        (ask.Triple(agent_id="a", text=MAP), ask.Facts(subject="a", predicate="found", object="map"), "same"),
        (
            ask.Insights(agent_id="a", focal_point="What of maps?", statements=[MAP], count=1),
            ask.InsightList(insights=[ask.Insight(text="Dogs bark.", evidence=[0])]),
            None,
        ),
        (ask.Poignancy(agent_id="a", text="x"), ask.Poignant(poignancy=3), "same"),
    ],
)
def test_an_answer_is_of_what_was_asked(question: Question[Any], answer: Any, expected: Any) -> None:
    if expected is None:
        with pytest.raises(BadReply, match=f"an answer to {question.prompt} cannot be used"):
            usable(question, answer)
    else:
        assert usable(question, answer) == (answer if expected == "same" else expected)


def test_of_pains_and_findings_those_are_kept_that_rest_on_lines() -> None:
    said = [
        Message(role="assistant", text="The export fails."),
        Message(role="user", text="The export takes an hour."),
    ]
    question = PainQuestion(agent_id="a", messages=said)
    there = FoundPain(summary="The export takes an hour.", turn=1)
    nowhere = FoundPain(summary="The export fails.", turn=0)
    found = usable(question, FoundPains(pains=[nowhere, there], helped=[0, 1, 7]))
    assert found == FoundPains(pains=[there], helped=[1])
    with pytest.raises(BadReply, match="no new line"):
        usable(question, FoundPains(pains=[nowhere]))
    look = SelfReflectionQuestion(agent_id="a", utterances=[("user", "Shorter, please.")])
    good, bad = Improvement(text="Use fewer words.", evidence=[0]), Improvement(text="Sing.", evidence=[4])
    assert usable(look, SelfReflected(improvements=[bad, good])) == SelfReflected(improvements=[good])
    with pytest.raises(BadReply, match="no line"):
        usable(look, SelfReflected(improvements=[bad]))


def test_numbers_are_read_with_and_without_their_letter() -> None:
    for turn in ("L3", 3):
        assert FoundPain.model_validate({"summary": "x", "turn": turn}).turn == 3
    insight = ask.Insight.model_validate({"text": "x", "evidence": ["S0", "s2", 4, " S5 "]})
    assert insight.evidence == [0, 2, 4, 5]
    with pytest.raises(ValueError, match="turn"):
        FoundPain.model_validate({"summary": "x", "turn": "the third"})


def test_instructions_are_short() -> None:
    """Most tokens of a task; estimates are rather too high, for Chinese above all."""
    for cls in QUESTIONS:
        for language in LANGUAGES:
            assert estimate_tokens(prompt(cls.prompt, language).body) <= 400, (cls.prompt, language)
