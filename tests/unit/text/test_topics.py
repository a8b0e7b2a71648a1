"""engine.text.statements and engine.text.statements: what a text is about, whom it speaks of, and what stands
beside it.
"""

from __future__ import annotations

import pytest

from engine.text.statements import (
    StatementSubject,
    is_of,
    may_be_of,
    people_in,
    stand_beside,
    statement_of,
    topics_of,
)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("My Pixel is broken", "phone"),
        ("我的iPhone手机坏了", "phone"),
        ("I'm on four americanos a day", "coffee"),
        ("房租涨到六千了", "rent"),
        ("I play the drums", "instrument"),
        ("WiFi密码换了", "internet"),
    ],
)
def test_topics(text: str, topic: str) -> None:
    assert topic in topics_of(text)
    assert is_of(text, topic)


def test_a_narrower_topic_hides_the_wider_one_of_a_question() -> None:
    assert topics_of("Which doctor does my fillings, the dentist?") == {"dentist"}
    assert topics_of("Which doctor did I see?") == {"doctor"}
    assert topics_of("The weather is fine.") == topics_of("哈哈") == frozenset()


def test_relations_are_the_same_in_either_language() -> None:
    assert people_in("我妈妈在成都") == people_in("my mum lives in Chengdu") - {"Chengdu"} == {"mother"}


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("Where does my brother live?", "弟弟搬到新加坡了", True),
        ("Where does my brother live?", "My sister lives in Oslo", False),
        ("Where do I live?", "My brother lives in Oslo", False),
        ("Where do I live?", "My brother helped me move to Oslo", True),
        ("Which phone do I use?", "Daniel's own phone is a Nokia", False),
        ("我住哪里？", "许航说下周搬过来", False),
    ],
)
def test_whom_a_text_may_speak_of(question: str, text: str, *, expected: bool) -> None:
    assert may_be_of(people_in(question), text) is expected


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("我表姐的工作地是在浙江杭州。", StatementSubject("表姐", "工作地")),
        ("用户：我的下属在广州上班呢。", StatementSubject("下属", "")),
        ("Anna: My cousin's email address is a@b.c", StatementSubject("cousin", "email address")),
        ("Tom works in Leith.", StatementSubject("tom", "")),
        ("我住在滨江。", None),
        ("现在在下雨。", None),
        ("She lives in Hobart.", None),
    ],
)
def test_what_a_text_begins_to_speak_of(text: str, of: StatementSubject | None) -> None:
    assert statement_of(text) == of


@pytest.mark.parametrize(
    ("one", "other", "beside"),
    [
        ("我表哥在青岛上班。", "我婶婶在深圳上班。", True),
        ("银行业峰会的地点是上海。", "银行业峰会的时间是下周一。", True),
        ("Tom works in Leith.", "Anna works in Hobart.", True),
        ("家里保险柜的密码是519264。", "保险柜的密码是880317。", False),
        ("我住在滨江。", "我住在良渚。", False),
        ("", "Tom works in Leith.", False),
    ],
)
def test_statements_of_different_things_or_attributes_stand_beside_each_other(
    one: str, other: str, *, beside: bool
) -> None:
    assert stand_beside(one, other) == stand_beside(other, one) == beside
