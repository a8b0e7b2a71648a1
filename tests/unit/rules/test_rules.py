"""The rules: what they answer, in Chinese and in English, and that they always answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.growth import questions as questions_of_growth
from engine.providers import questions as ask
from engine.rules.insights import readings
from engine.rules.provider import RULES, Rules
from engine.rules.triples import WordList, read, weigh
from tests.unit.text.labelled import file_of, labelled, tables

RULE = Rules()
#: Texts that weigh little or much.
STATEMENTS = [
    text
    for text, *_ in tables(file_of(__file__))["a_statement_weighs_as_much_as_it_would_hurt_to_forget_it"][1]
]


def poignancy(text: str, kind: Any = "event") -> int:
    return RULE.ask(ask.Poignancy(agent_id="Mira", text=text, kind=kind)).poignancy


def triple(text: str, agent: str = "Mira") -> tuple[str, str, str]:
    facts = RULE.ask(ask.Triple(agent_id=agent, text=text))
    return facts.subject, facts.predicate, facts.object


@labelled
def test_a_statement_weighs_as_much_as_it_would_hurt_to_forget_it(text: str, least: int, most: int) -> None:
    assert least <= poignancy(text) <= most, weigh(ask.Poignancy(agent_id="", text=text))


@labelled
def test_what_denies_weakens_and_what_stresses_strengthens(weaker: str, stronger: str) -> None:
    assert poignancy(weaker) < poignancy(stronger)


def test_a_denial_reaches_no_further_than_its_clause_and_a_thought_weighs_more() -> None:
    assert poignancy("No, the house burned down") == poignancy("The house burned down")
    assert poignancy("不，房子着火") == poignancy("房子着火")
    assert poignancy("Moss grows slowly", "thought") == poignancy("Moss grows slowly") + 1


@labelled
def test_figures_in_chinese_numerals(text: str, values: list[str]) -> None:
    assert sorted({one.value for one in readings(0, text)}) == values


def test_a_reading_says_what_made_it() -> None:
    reading = weigh(ask.Poignancy(agent_id="Mira", text="Her father died! Mira cried at the hospital"))
    assert reading.poignancy == 10
    assert reading.reasons[0] == "die: 9"
    assert "emphasis: +1" in reading.reasons


@given(st.lists(st.sampled_from(STATEMENTS), max_size=4))
def test_more_that_is_said_never_weighs_less_than_its_heaviest_part_unless_it_is_routine(
    parts: list[str],
) -> None:
    heavy = [poignancy(part) for part in parts if poignancy(part) >= 5]
    assert poignancy(". ".join(parts)) >= max(heavy, default=1)


@labelled
def test_triples(text: str, expected: tuple[str, str, str]) -> None:
    assert triple(text) == expected


def test_parts_of_a_triple_are_on_one_line_and_short() -> None:
    parts = triple("Pavel wrote " + "a very long letter\n" * 50)
    assert all(len(part) <= 80 and part.isprintable() for part in parts)


HARBOUR = """Mira repairs the harbour crane with Pavel | Mira eats lunch on the pier | The harbour crane is rusting at the joint
    | Pavel says the harbour crane needs a new cable | Mira sleeps | Ines Duarte invites Mira to the regatta
    | Ines Duarte rows every morning | Mira buys apples""".replace("\n    ", " ").split(" | ")
TEA = """阿梅给茶园的主人写信 | 老周说茶园今年的茶叶少 | 阿梅起床 | 小兰带来茶园的新茶叶
    | 阿梅和老周聊象棋 | 老周输了象棋比赛 | 阿梅买菜""".replace("\n    ", " ").split(" | ")


def focal(statements: list[str], count: int, language: Any = "en", agent: str = "Mira") -> list[str]:
    question = ask.FocalPoints(agent_id=agent, language=language, statements=statements, count=count)
    return RULE.ask(question).questions


def test_focal_points_ask_about_what_comes_up_most_in_the_language_of_the_question() -> None:
    assert focal(HARBOUR, 2) == ["What is known about harbour crane?", "What is known about Ines Duarte?"]
    assert focal(TEA, 2, "zh", "阿梅") == ["关于茶园，有什么值得注意的？", "关于老周，有什么值得注意的？"]
    # What has figures in several statements comes first.
    figures = [*TEA, "外婆量血压，高压162", "外婆的血压降到138了"]
    assert focal(figures, 1, "zh", "阿梅") == ["关于外婆的血压，有什么值得注意的？"]


def test_the_agent_itself_is_no_topic_nor_is_its_surname() -> None:
    doings = ("reads maps", "draws maps", "folds a kite", "flies a kite", "sings")
    statements = [f"Klaus Berg {doing}" for doing in doings]
    asked = focal(statements, 5, agent="Klaus")
    assert not any("Klaus" in question or "Berg" in question for question in asked)
    assert any("maps" in question for question in asked)


@pytest.mark.parametrize("word", ["ok", "name", "I'm", "I've 2", "有", "的", "really"])
def test_function_words_and_small_talk_are_no_topics(word: str) -> None:
    asked = focal([f"{word} the crane", f"{word} the crane again", f"{word}"], 3)
    assert asked == ["What is known about crane?"]
    # Statements without words still give a question.
    assert focal(["?! …"], 3) == ["What is known about ?! …?"]
    assert focal(["  "], 3) == ["What is known about Mira?"]


BEGIN = datetime(2026, 3, 3, 9, tzinfo=UTC)  # a Tuesday


def insights(
    told: Sequence[tuple[float, str]], focal_point: str = "?", count: int = 5, thoughts: Sequence[int] = ()
) -> list[Any]:
    """Of statements with the days on which they were made."""
    question = ask.Insights(
        agent_id="Mira",
        focal_point=focal_point,
        statements=[text for _, text in told],
        times=[BEGIN + timedelta(days=day) for day, _ in told],
        thoughts=list(thoughts),
        count=count,
    )
    return RULE.ask(question).insights


PRESSURE = [
    (0, "妈妈今天量血压，高压162"),
    (20, "妈妈的血压降到138，医生说继续观察"),
    (50, "妈妈昨天量的，高压134，她得意得不行"),
]


@labelled
def test_a_course_of_figures(days: tuple[int, ...], said: list[str], course: str) -> None:
    (only,) = insights(list(zip(days, said, strict=True)))
    assert only.text == course
    assert only.evidence == [0, 1, 2]


@pytest.mark.parametrize(
    "told",
    [
        PRESSURE[:2],  # two readings are no course
        [(0, "血压162"), (0.1, "血压138"), (0.2, "血压134")],  # nor are those of one day
        [(0, "血压138"), (9, "血压138，还行"), (20, "这次血压138")],  # nor is what stays the same
        [(0, "妈妈的血压162"), (9, "爸爸的血压138"), (20, "外婆的血压134")],  # three people
        [(0, "200 kg of clay, clay 200 kg"), (9, "clay at 5 yuan"), (20, "clay: 300 kg")],  # other units
        # Long texts.
        [(n, "clay " + " ".join(f"word{i}" for i in range(40)) + f" {n + 9}") for n in range(4)],
        [(0, "the flight is on June 12"), (9, "the flight leaves June 19"), (20, "flight: 21 June")],  # days
        [(0, "order INV-2093 is late"), (9, "the order is 2093-A"), (20, "order 10.2.3.4")],  # identifiers
        [(2 * n, "haha ok" if n == 2 else "ok ok") for n in range(3)],  # small talk
        [(2 * n, "Good morning!") for n in range(3)],  # greetings
        [(n, text) for n, text in enumerate(HARBOUR)],  # a word in common says nothing
        [(0, "Pavel mends the net")] * 60,  # nor does a day's repetition
    ],
)
def test_what_the_rules_cannot_say_well_they_leave_unsaid(told: list[tuple[float, str]]) -> None:
    assert insights(told) == []
    without_times = ask.Insights(
        agent_id="Mira", focal_point="?", statements=[text for _, text in PRESSURE], count=5
    )
    assert RULE.ask(without_times).insights == []


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ([(7 * n, "Klaus goes to yoga.") for n in range(4)], "On Tuesdays: Klaus goes to yoga"),
        (
            [(7 * n, "晚上去游泳馆") for n in range(3)] + [(7 * n + 2, "晚上去游泳馆了") for n in range(2)],
            "每逢周二、周四：晚上去游泳馆",
        ),
        (
            [(n, "Klaus is having breakfast") for n in range(7)],
            "On at least 5 days, 3 to 9 March: Klaus is having breakfast",
        ),
        ([(2 * n, "阿梅给番茄浇水") for n in range(3)], "3月3日至7日至少有3天：阿梅给番茄浇水"),
    ],
)
def test_what_comes_again_and_again_with_its_days(told: list[tuple[float, str]], text: str) -> None:
    (only,) = insights(told)
    assert only.text == text
    assert only.evidence == list(range(len(told)))
    often_said = [(n, "Pavel mends the net") for n in range(60)]
    (often,) = insights([*often_said, (0, "Moss is green"), (1, "Moss is green")])
    assert often.text.startswith("On at least 50 days, ")
    assert often.evidence == list(range(48, 60)), "a bounded number of statements"


def test_thoughts_are_no_evidence_and_are_not_thought_again() -> None:
    (first,) = insights(PRESSURE)
    told = [*PRESSURE, (51, first.text), (52, "妈妈的血压：151，三月")]
    assert insights(told, thoughts=[3, 4]) == []
    (other,) = insights(told, thoughts=[4])
    assert 4 not in other.evidence
    assert "151" not in other.text


def test_each_is_in_the_language_of_its_evidence_and_the_focal_point_comes_first() -> None:
    told = [*PRESSURE, *((7 * n, "Klaus goes to yoga") for n in range(4))]
    texts = ["妈妈的血压：162 → 138 → 134，3月3日至4月22日", "On Tuesdays: Klaus goes to yoga"]
    assert [one.text for one in insights(told)] == texts
    assert [one.text for one in insights(told, "What is known about yoga?")] == texts[::-1]
    assert [one.text for one in insights(told, count=1)] == texts[:1]


def said_in(said: list[str]) -> list[tuple[str, str]]:
    return [(name, text) for name, _, text in (one.partition(": ") for one in said)]


@labelled
def test_of_a_conversation_a_plan_keeps_what_is_agreed(said: list[str], kept: int) -> None:
    utterances = said_in(said)
    sentence = RULE.ask(ask.Planning(agent_id="Mira", utterances=utterances)).sentence
    assert sentence == f'{utterances[kept][0]} said: "{utterances[kept][1]}"'


@labelled
def test_of_a_conversation_a_memo_keeps_what_says_most(said: list[str], kept: int) -> None:
    utterances = said_in(said)
    sentence = RULE.ask(ask.Memo(agent_id="Mira", language="zh", utterances=utterances)).sentence
    assert sentence == f"{utterances[kept][0]}说：“{utterances[kept][1]}”"
    nothing, long = (
        RULE.ask(ask.Memo(agent_id="Mira", utterances=[("Ines", text)])).sentence
        for text in (" \n", "moss " * 1_000)
    )
    assert nothing.startswith("Nothing was said")
    assert len(long) < 330
    assert long.endswith('…"')


any_text = st.text(max_size=120) | st.sampled_from(HARBOUR + TEA)
whose: dict[str, Any] = {"agent_id": any_text, "language": st.sampled_from(get_args(ask.Language))}
utterances = st.lists(st.tuples(any_text, any_text), min_size=1)
texts = st.lists(any_text, min_size=1, max_size=12)
kinds = st.sampled_from(["event", "thought", "chat"])
any_question = st.one_of(
    st.builds(ask.Poignancy, **whose, text=any_text, kind=kinds),
    st.builds(ask.Triple, **whose, text=any_text),
    st.builds(ask.Keywords, **whose, text=any_text),
    st.builds(ask.FocalPoints, **whose, statements=texts, count=st.integers(1, 6)),
    st.builds(ask.Insights, **whose, focal_point=any_text, statements=texts, count=st.integers(1, 6)),
    st.builds(ask.Planning, **whose, utterances=utterances),
    st.builds(ask.Memo, **whose, utterances=utterances),
)


@given(any_question)
def test_every_question_has_a_valid_answer_and_always_the_same_one(question: ask.Question[Any]) -> None:
    answer = RULE.ask(question)
    assert question.answer.model_validate(answer.model_dump()) == answer
    assert question.problems(answer) == []
    assert Rules().ask(question) == answer


@given(st.lists(any_text, min_size=1, max_size=12), st.integers(1, 6))
def test_insights_rest_on_distinct_statements_in_order_and_differ_from_each_other(
    statements: list[str], count: int
) -> None:
    asked = focal(statements, count)
    assert len(asked) == len(set(asked))
    found = insights(
        [(day, text) for day, text in enumerate(statements)], "What is known about harbour?", count
    )
    assert all(item.evidence == sorted(set(item.evidence)) for item in found)
    assert len({tuple(item.evidence) for item in found}) == len({item.text for item in found}) == len(found)


def test_there_is_a_rule_for_every_question() -> None:
    known = [*vars(ask).values(), *vars(questions_of_growth).values()]
    asked = {
        cls
        for cls in known
        if isinstance(cls, type) and issubclass(cls, ask.Question) and hasattr(cls, "prompt")
    }
    assert set(RULES) == asked
    for model, nothing in (
        (ask.Insights, {"focal_point": "?", "statements": [], "count": 1}),
        (ask.Memo, {"utterances": []}),
    ):
        with pytest.raises(ValidationError):  # nothing is asked about nothing
            model.model_validate({"agent_id": "a", **nothing})


@pytest.mark.parametrize("name", ["weights", "cues"])
def test_the_lists_say_of_no_phrase_two_things(name: str) -> None:
    levels: dict[str, set[str]] = {}
    for language in ("en", "zh"):
        for line in read(f"{name}.{language}.txt").splitlines():
            label, colon, phrases = line.partition(":")
            if colon and not line.startswith("#"):
                for phrase in phrases.split(","):
                    levels.setdefault(phrase.strip(), set()).add(label)
    twice = {phrase: labels for phrase, labels in levels.items() if len(labels) > 1}
    assert not twice or name == "cues"  # a word may be two cues, and the last one counts
    assert "" not in levels


def test_the_longest_phrase_at_a_place_counts_and_a_word_stands_for_its_forms() -> None:
    words = WordList("1: dead\n2: dead end\n3: 死\n4: 死角")
    assert [found.label for found in words.find("a dead end, dead; 死角和死")] == ["4", "3", "2", "1"]
    words = WordList("x: decide, give up")
    found = [one.phrase for one in words.find("she decides; decided to give up, giving up")]
    assert found == ["decid", "decid", "give up", "give up"]
