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
def test_statements_of_different_things_or_attributes_stand_beside_each_other(one: str, other: str, *, beside: bool) -> None:
    assert stand_beside(one, other) == stand_beside(other, one) == beside
