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
    reports_problem,
)
from engine.growth.pains import FoundPain, FoundPains, Improvement, SelfReflected
from engine.growth.questions import PainQuestion, SelfReflectionQuestion
from engine.providers import questions as ask
from engine.providers.llm_prompts import prompt
from engine.providers.questions import KnownFact, Question
from jiyi.errors import BadReply
from jiyi.protocol.conversations import ExtractedMemory
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import language_of
from tests.unit.conversations.said import messages_of
from tests.unit.providers.test_llms_prompts import LANGUAGES, QUESTIONS
from tests.unit.text.labelled import labelled

DAY = datetime(2026, 5, 1, tzinfo=UTC)
KNOWN = [
    KnownFact(content="User: I am allergic to peanuts.", subject="user", attribute="allergy"),
    KnownFact(
        content="User: My sister lives in Oslo.", subject="sister", attribute="home", single_valued=True
    ),
    KnownFact(content="User: I live in Turku.", subject="user", attribute="home", single_valued=True),
    KnownFact(content="User: I have a cat.", subject="user", attribute="pet"),
]


def noted(said: Sequence[str], *notes: dict[str, Any]) -> tuple[list[ExtractedMemory], int]:
    """What becomes of an LLM's notes, and how many are dropped. Without heads: by rules alone."""
    question = Notes(
        agent_id="a", language=language_of(said[0]), messages=messages_of(said, DAY), known=KNOWN
    )
    given = Noted.model_validate({"memories": [{"lines": ["L0"], **note} for note in notes]})
    extraction, dropped = accept_answers(usable(question, given), LivedThrough(), question, None)
    return extraction.memories, dropped


@labelled
def test_what_somebody_said_is_kept_and_what_nobody_said_is_not(
    said: list[str], content: str, *, kept: bool
) -> None:
    try:
        memories, dropped = noted(said, {"content": content, "lines": [f"L{len(said) - 1}"]})
    except BadReply:  # nothing of the answer is usable
        memories, dropped = [], 1
    assert [(one.content, one.turns) for one in memories] == [(content, [len(said) - 1])] * kept
    assert dropped == (not kept)


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


@labelled
def test_an_llm_ends_what_is_of_the_same_subject_and_attribute_and_no_health(
    said: str, content: str, ended: list[int]
) -> None:
    [memory], _ = noted([said], {"content": content, "ends": ["S0", "S1", "S2", "S3", "S99"]})
    assert memory.supersedes == ended


#: As many as are shown, and nobody speaks of them.
OTHERS = [
    KnownFact(content=f"User: I own lamp {number}.", subject="user") for number in range(notes.MOST_SHOWN)
]


def shown_of(said: Sequence[str], heads: Any = None) -> list[int]:
    """Which of the known facts are shown, though others come before them."""
    found = notes.nearest_facts([*OTHERS, *KNOWN], messages_of(said), heads)
    return [number - len(OTHERS) for number in found if number >= len(OTHERS)]


@labelled
def test_an_llm_is_shown_what_new_messages_may_touch(said: list[str], shown: list[int]) -> None:
    assert shown_of(said) == shown


def test_an_llm_is_shown_what_means_nearly_the_same_in_other_words() -> None:
    class Alike:
        def similarities(self, text: str, others: Sequence[str]) -> list[float]:
            return [float("cat" in other) for other in others]

    assert shown_of(["She purred until the end. I am in tears in Turku."], Alike()) == [2, 3]


def taken(note: dict[str, Any], said: str, known: list[KnownFact], shown: list[int] | None = None) -> Any:
    """The memory that becomes of the note of a message, or none."""
    question = Notes(agent_id="a", messages=messages_of([said], DAY), known=known)
    answer = Noted.model_validate({"memories": [{"lines": ["L0"], **note}]})
    memories = accept_answers(answer, LivedThrough(), question, None, *([shown] if shown else []))[0].memories
    return memories[0] if memories else None


def test_what_an_llm_ends_is_one_of_those_that_it_was_shown_and_three_at_most() -> None:
    for ends, ended in (("S1", [3]), ("S0", []), ("S3", [])):
        note = {"content": "The user's cat has run away.", "ends": [ends]}
        assert taken(note, "My cat has run away.", KNOWN, [2, 3]).supersedes == ended
    question = Notes(agent_id="a", messages=messages_of(["I moved to Lisbon."]), known=[KNOWN[2]] * 6)
    form = {"lines": ["L0"], "ends": [f"S{number}" for number in range(6)]}
    made = [{"content": text, **form} for text in ("The user moved to Lisbon.", "The user moved.")]
    extraction, _ = accept_answers(Noted.model_validate({"memories": made}), LivedThrough(), question, None)
    assert sum(len(memory.supersedes) for memory in extraction.memories) == 3


@labelled
def test_the_end_of_a_medicine_that_the_user_names_is_kept(
    said: str, ends: list[str], ended: list[int] | None
) -> None:
    known = [KnownFact(content="User: I take labetalol 100 mg.", subject="user")]
    known.append(KnownFact(content="User: Ines takes labetalol 5 mg.", subject="Ines"))
    of = "Ines" if ends == ["S1"] else "The user"
    content = f"{of} no longer takes labetalol, as the blood pressure is fine."
    memory = taken({"content": content, "about": of, "ends": ends}, said, known)
    assert (memory and memory.may_end) == ended


def test_experiences_are_asked_for_where_a_problem_has_ended() -> None:
    messages = messages_of(["The kiln fails again and again.", "A slower ramp fixed the kiln."])
    assert [reports_problem(messages, since) for since in (1, 2)] == [True, False]
    assert not reports_problem(messages_of(["I like tea."]), 0)
    question = Notes(agent_id="a", messages=messages)
    form = {"steps": ["Use a slower ramp."], "outcome": "success", "lines": ["L0", 1]}
    problems = ("The kiln fails.", "The dog barks.")
    lived = [Lived.model_validate({"problem": problem, **form}) for problem in problems]
    extraction, dropped = accept_answers(Noted(), LivedThrough(experiences=lived), question, None)
    [experience] = extraction.experiences
    assert (experience.pain_pattern, experience.turns, dropped) == ("The kiln fails.", [0, 1], 1)
    assert Experiences(agent_id="a", messages=messages, since=1).about == "new are the lines from L1 on"


MAP = "Mia found a map."
DOGS = ask.InsightList(insights=[ask.Insight(text="Dogs bark.", evidence=[0])])
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
            said = [("Mia", own), ("Klaus", "hm")]
            question: Question[Any] = cls(agent_id="a", language=language, utterances=said)
            with pytest.raises(BadReply, match="repeats the prompt"):
                usable(question, ask.OneSentence(sentence=own))


def words(*keywords: str) -> ask.KeywordList:
    return ask.KeywordList(keywords=[*keywords])


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (MEMO, ask.OneSentence(sentence="OneSentence"), None),
        (MEMO, ask.OneSentence(sentence="Mia found a map."), "same"),
        (ask.Keywords(agent_id="a", text=MAP), words("maxLength", "items"), None),
        (ask.Keywords(agent_id="a", text="米娅找到了一张地图"), words("地图", "pattern"), words("地图")),
        (ask.Triple(agent_id="a", text=MAP), ask.Facts(subject="x", predicate="is", object="y"), None),
        (ask.Triple(agent_id="a", text=MAP), ask.Facts(subject="a", predicate="found", object="map"), "same"),
        (ask.Insights(agent_id="a", focal_point="Maps?", statements=[MAP], count=1), DOGS, None),
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
    said = ["> The export fails.", "The export takes an hour."]
    question = PainQuestion(agent_id="a", messages=messages_of(said))
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
