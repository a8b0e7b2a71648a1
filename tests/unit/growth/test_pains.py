"""Pain by its words: what hurts, how gravely, what is the same, what to do, and what helped."""

from __future__ import annotations

from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from engine.growth import pains
from jiyi.protocol.base import Role
from jiyi.protocol.conversations import Message, Outcome
from jiyi.protocol.growth import Severity, confidence_of, graver
from tests.unit.text.labelled import labelled


@labelled
def test_what_hurts_and_what_does_not(said: str, *, hurts: bool) -> None:
    assert pains.reports_trouble(said) == hurts


@labelled
def test_its_category(said: str, category: str) -> None:
    assert pains.category_of(said) == category


@labelled
def test_its_severity_and_of_two_the_graver_and_a_quarter_of_confidence_a_turn(
    said: str, severity: Severity
) -> None:
    assert pains.severity_of(said) == severity
    assert graver(severity, "high") == graver("high", severity) == "high"
    assert [confidence_of(turns, 0.25) for turns in (0, 1, 4, 9)] == [0, 0.25, 1, 1]


@labelled
def test_the_most_alike_of_several(said: str, known: list[str], found: int | None) -> None:
    assert pains.most_similar(said, known) == found


def test_each_new_message_is_read_from_the_user_only() -> None:
    told = ["登录太慢了", "请翻译：“导出失败了”", "你来当客服，我来当用户。导出失败了", "导出失败了"]
    messages = [Message(role="user", text=text) for text in told]
    messages.insert(0, Message(role="assistant", text="导出失败了"))
    found = [(one.turn, one.summary) for one in pains.find_pains(messages).pains]
    assert found == [(1, "登录太慢了"), (4, "导出失败了")]
    assert [one.turn for one in pains.find_pains(messages, since=2).pains] == [4]
    assert pains.topic_of("失败了") == "失败了"  # what only says that it hurts is its own topic
    assert "失败" not in pains.topic_of("导出报表失败")


@labelled
def test_what_says_that_it_helped(said: str, *, helped: bool) -> None:
    assert pains.says_helped(said) == helped


def offer(pain: str, *steps: str) -> pains.Offer:
    return pains.Offer(uuid4(), pain, steps)


def said(*texts: str) -> list[Message]:
    """Question, answer, question …"""
    roles: list[Role] = ["user", "assistant"]
    return [Message(role=roles[number % 2], text=text) for number, text in enumerate(texts)]


def test_the_proposal_that_was_told_lately_or_is_named_is_the_one_that_helped() -> None:
    export = offer("导出季度报表失败", "把报表拆成每月一份", "逐份导出")
    login = offer("登录太慢", "清空浏览器缓存", "重新登录系统")
    messages = said("怎么办？", "可以清空浏览器缓存，然后重新登录系统。", "这个办法好用")
    assert pains.confirmed_proposal(messages, 2, [export, login]) == login.proposal_id
    assert pains.confirmed_proposal(messages, 2, []) is None
    named = said("导出季度报表的办法好用")
    assert pains.confirmed_proposal(named, 0, [export, login]) == export.proposal_id
    long_before = said("怎么办？", "清空浏览器缓存，重新登录系统", *["好", "嗯"] * 4, "这个办法好用")
    assert pains.confirmed_proposal(long_before, len(long_before) - 1, [login]) is None


@labelled
def test_first_what_helped_before_then_what_was_advised_then_first_steps(
    pain: str, outcome: Outcome, advice: list[str], steps: list[str]
) -> None:
    known = [pains.KnownSolution(problem="报表导出超时", steps=["拆成每月一份"], outcome=outcome)]
    assert pains.propose_solution(pain, "fault", "zh", experiences=known, advice=advice).steps == steps
    assert len(pains.propose_solution("login is slow", "slow", "en").steps) == 3
    listed = "可以这样：\n1. 清空缓存\n2、重新登录\n- 再试一次\n好吗？"
    assert pains.advice_in(listed) == ["清空缓存", "重新登录", "再试一次"]


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    found = pains.find_pains([Message(role="user", text=text)])
    assert all(one.turn == 0 and one.summary.strip() for one in found.pains)
    assert pains.most_similar(text, [text, "x"]) in (None, 0, 1)
