"""engine.text.statements: which statements of one form stand beside each other."""

from __future__ import annotations

import pytest

from engine.text.statements import Statement, stand_beside, statement_of


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("我表姐的工作地是在浙江杭州。", Statement("表姐", "工作地")),
        ("用户：我的下属在广州上班呢。", Statement("下属", "")),
        ("Anna: My cousin's email address is a@b.c", Statement("cousin", "email address")),
        ("Tom works in Leith.", Statement("tom", "")),
        ("我住在滨江。", None),
        ("现在在下雨。", None),
        ("She lives in Hobart.", None),
    ],
)
def test_what_a_text_begins_to_speak_of(text: str, of: Statement | None) -> None:
    assert statement_of(text) == of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("我表哥在青岛上班。", "我婶婶在深圳上班。"),
        ("医疗研讨会的时间是2024-04-13 19:00。", "电影健身汇的时间是2024-04-15 9:00。"),
        ("银行业峰会的地点是上海。", "银行业峰会的时间是下周一。"),
        ("Tom works in Leith.", "Anna works in Hobart."),
    ],
)
def test_statements_of_different_things_or_attributes_stand_beside_each_other(one: str, other: str) -> None:
    assert stand_beside(one, other)
    assert stand_beside(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("家里保险柜的密码是519264。", "保险柜的密码是880317。"),
        ("妈妈的手机是华为。", "妈妈拿到一台iPhone。"),
        ("我住在滨江。", "我住在良渚。"),
        ("", "Tom works in Leith."),
    ],
)
def test_statements_of_one_thing_do_not(one: str, other: str) -> None:
    assert not stand_beside(one, other)
    assert not stand_beside(other, one)
