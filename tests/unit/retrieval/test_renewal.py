"""engine.retrieval.ordering: of two statements about what is asked, the older is said anew, however differently they are worded."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from engine.retrieval.ordering import APART, ENOUGH, LEAST_SHARE, TOPIC_ALIKE, TOPIC_RELEVANT, Shown, in_order, renewed, said_so

DAY = 86_400.0


def by(question: str, *texts: str, alike: float = 0.25, relevance: tuple[float, ...] = (), apart: float = DAY) -> dict[int, int]:
    """What is said anew of texts told one after the other, all as alike and as relevant."""
    shown = [Shown(UUID(int=place + 1), f"Yue: {text}", place * apart, "Yue") for place, text in enumerate(texts)]
    size = len(texts)
    likeness = np.full((size, size), alike) + (1 - alike) * np.eye(size)
    return in_order(shown, renewed(question, shown, likeness, np.array(relevance or [0.6] * size)))[1]


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        ("Which phone do I use?", "My Galaxy is dying on me.", "Ben surprised me with an iPhone, so the old one is my mum's."),
        ("How much coffee do I drink?", "I'm on four espressos a day.", "I caved: one latte a day, no more."),
        ("我现在住哪里？", "我们租在滨江。", "上周末搬完家了，现在住良渚。"),
        ("What does my mum do?", "My mother works as a nurse.", "我妈退休了，在小区当保安。"),
        ("Where does Maria live?", "Maria lives in Leith.", "Maria moved to Hobart last month."),
        ("妈妈吃几片降压药？", "妈妈每天吃两片降压药。", "医生让妈妈改成每天一片降压药。"),
        ("Felix的工作室租金多少？", "Felix rents a workshop for 2,400 a month.", "Felix's workshop went up to 2,900 a month."),
        ("我什么时候飞东京？", "The flight to Tokyo is on May 3.", "航班改到五月九号了。"),
    ],
)
def test_statements_of_the_topic_asked_about_need_no_word_in_common(question: str, old: str, new: str) -> None:
    assert by(question, old, new) == {0: 1}
    assert by(question, new, old, apart=-DAY) == {1: 0}


@pytest.mark.parametrize(
    ("question", "answer", "later"),
    [
        pytest.param("Which phone do I use?", "My Galaxy is fine.", "妈妈的手机字体太小，我给她调大了。", id="of somebody else"),
        pytest.param("Which phone do I use?", "I've bought a Galaxy.", "Daniel's phone is new now.", id="a thing of somebody else's"),
        pytest.param("What rent do we pay per month?", "We pay 900 a month in rent.", "The rent stays as is, they said.", id="no amount"),
        pytest.param("我对什么过敏？", "我对青霉素过敏。", "体检查出来又对芒果过敏了。", id="a list grows"),
        pytest.param("行李箱的密码是什么？", "行李箱的密码是0209。", "大门密码又换了，现在是0952。", id="another thing's"),
        pytest.param("Where do I work?", "I work at the museum now.", "I've moved to Leith.", id="another topic"),
        pytest.param("保险柜密码多少？", "保险柜密码是519264。", "The wifi password is molarity22 now.", id="another thing's password"),
        pytest.param("When did I go to the gym?", "I went to the gym on Monday.", "I've changed my gym to Fit.", id="what has happened"),
        pytest.param("Which phone do I use?", "My Galaxy is dying on me.", "Any news of your new phone?", id="who asks states nothing"),
        pytest.param("Where do I live?", "I live in Leith.", "I used to live in Hobart, but my job is here now.", id="how it was before"),
    ],
)
def test_what_renews_nothing(question: str, answer: str, later: str) -> None:
    assert by(question, answer, later) == {}


def test_it_takes_some_likeness_some_relevance_and_some_time() -> None:
    asked = ("Which phone do I use?", "My Galaxy is dying on me.", "I've got an iPhone now.")
    assert by(*asked) == {0: 1}
    assert by(*asked, alike=TOPIC_ALIKE - 0.01) == {}
    assert by(*asked, relevance=(0.6, TOPIC_RELEVANT - 0.01)) == {}
    assert by(*asked, apart=APART - 1) == {}
    plain = ("Which phone do I use?", "My phone is a Galaxy.", "My phone is an iPhone.")
    assert by(*plain, alike=ENOUGH - 0.25 + 0.01) == {0: 1}
    assert by(*plain, alike=ENOUGH - 0.25 - 0.01) == {}


@pytest.mark.parametrize(
    ("question", "old", "new", "renews"),
    [
        ("How much coffee do I drink?", "I'm on four espressos a day.", "I caved: one latte a day, no more.", True),
        ("我还喝咖啡吗？", "我每天三杯美式咖啡。", "我把咖啡戒了，只喝茶。", True),
        ("How much coffee do I drink?", "I'm on four espressos a day.", "One latte a day at the office.", False),
    ],
)
def test_a_word_of_change_makes_up_for_what_answers_less(question: str, old: str, new: str, *, renews: bool) -> None:
    less = 0.6 * LEAST_SHARE - 0.01
    assert by(question, old, new, alike=0.4, relevance=(0.6, less)) == ({0: 1} if renews else {})


def test_of_several_the_newest() -> None:
    assert by("How much coffee do I drink?", "Three americanos a day.", "I quit coffee.", "One flat white a day now.") == {0: 2, 1: 2}
    assert by("Which phone do I use?") == {}


@pytest.mark.parametrize(
    ("older", "newer", "is_so"),
    [
        ("I live in Rome.", "I moved to Oslo.", True),
        ("我住在北京", "我搬到上海了", True),
        ("I live in Rome.", "I live in Rome with my brother.", False),
        ("I live in Rome.", "I work as a nurse now.", False),
        ("I live in Rome.", "My sister moved to Oslo.", False),
        ("I'm allergic to shrimp.", "I eat fish now.", False),
        ("I'm allergic to shrimp.", "I'm allergic to nuts now, too.", False),
        ("I have a cat.", "I have a dog now.", False),
    ],
)
def test_without_a_model_it_takes_one_attribute_and_a_word_of_change(older: str, newer: str, *, is_so: bool) -> None:
    assert said_so([(older, newer)]) == [is_so]
