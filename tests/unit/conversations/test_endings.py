"""What a message ends of what was said before: by structure, and by how sure the head of changes is; never by
likeness alone.
"""

from __future__ import annotations

import pytest

from engine.conversations.endings import MOST_PAIRS, TimedMessage, candidates, find_endings, live_parts
from engine.heads.judgements import Heads


def parts(older: str, newer: str, heads: Heads) -> list[str]:
    ends = find_endings([TimedMessage(older, session="a")], TimedMessage(newer, session="a"), heads)
    return [older[start:end] for start, end in (one.span for one in ends)]


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("我从邮局辞职了，现在在图书馆上班。", "job"),
        ("I was late, and work at the library now.", "job"),
        ("我妹妹辞职了，现在在图书馆上班。", None),
        ("My sister quit, and works at the library now.", None),
        ("I met Anna, and she lives in Leeds.", None),
    ],
)
def test_a_clause_without_its_pronoun_is_of_who_speaks_unless_somebody_else_is_named(
    text: str, attribute: str | None
) -> None:
    found = live_parts(text)[-1].attribute
    assert (found and found.name) == attribute


@pytest.mark.parametrize(
    ("older", "newer", "over"),
    [
        (
            "I'm allergic to walnuts and latex.",
            "I'm not allergic to latex after all, the test came back negative.",
            "latex",
        ),
        (
            "I'm allergic to penicillin and my daughter is allergic to cats.",
            "my daughter is not allergic to cats anymore",
            "daughter",
        ),
        ("The room is booked for 45 guests in May", "*54, fat fingers", "45"),
        ("会议室订了18个座位", "*81", "18"),
        ("I live in Porto.", "I live in Lisbon now.", "Porto"),
        ("I work at the bank", "I work at Volvo", "bank"),
        ("I love spicy food but I can't stand coriander", "I don't like spicy food anymore", "spicy"),
        ("I'm a vegetarian", "I eat meat again", "vegetarian"),
        ("My flight is on March 3.", "Actually it's March 13, not March 3.", "March 3"),
        ("She lives in Leeds", "Sorry, I meant Leicester, not Leeds", "Leeds"),
        ("We have a dog called Rex", "Rex died last month", "Rex"),
        ("我养了一只狗", "狗上个月走了", "狗"),
        ("我对花生和海鲜过敏", "我对海鲜不过敏", "海鲜"),
        ("我在成都上班", "我在杭州上班", "成都"),
        ("我姐姐叫安娜", "更正：我姐姐叫汉娜，不叫安娜", "安娜"),
        ("店里卖三样：包子、豆浆、油条", "豆浆没人喝，从明天起撤掉", "豆浆"),
    ],
)
def test_what_is_named_replaced_or_corrected_ends(older: str, newer: str, over: str, judges: Heads) -> None:
    found = parts(older, newer, judges)
    assert len(found) == 1
    assert over in found[0]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My mother has a cat.", "My mother moved to Lyon."),
        ("I work as a nurse at St Mary's.", "My colleague Clara changed her team last week."),
        ("My dentist moved to Park Street.", "Clara's team switched its standup to Wednesday."),
        ("小李的工位在三楼", "小张的工位搬到了五楼"),
        ("我邻居伊娃有一只鹦鹉", "我邻居伊娃换了新工作"),
        ("我的手机是云帆3", "我们这层楼好热闹:前台换了人,连老板都换手机了"),
        ("my bike has rim brakes", "club news: Marek quit, Henrike switched to disc brakes after years"),
        ("I'm allergic to shellfish.", "Leo is not allergic to anything."),
        ("I live in Porto.", "Do you like Porto?"),
        ("I live in Porto.", "Sam wrote me: I live in Tokyo now and hate it."),
        ("😀", "I moved."),
        ("I have a bike.", "😀"),
        ("The room is booked for 45 guests in May", "*so* happy today"),
        ("The room is booked for 45 guests in May", "shopping:\n* 12 eggs\n* tea"),
        ("The room is booked for 45 guests in May", "12 of us are *happy*"),
    ],
)
def test_news_of_others_questions_and_quotations_end_nothing(older: str, newer: str, judges: Heads) -> None:
    assert parts(older, newer, judges) == []


def test_another_spelling_of_a_name_may_correct_it_and_another_name_does_not(judges: Heads) -> None:
    older = TimedMessage("my new tutor is Mrs Kowalska, room 6", session="a")
    found = candidates(
        [older], TimedMessage("Actually it's Kowalczyk. I called her the wrong name", session="b"), judges
    )
    assert [older.text[slice(*one.span)] for one in found if one.corrected] == ["Mrs Kowalska"]
    assert not candidates(
        [older], TimedMessage("Actually it's Brennan who has the keys", session="b"), judges
    )


def test_a_correction_of_one_thing_is_not_sure_of_another(judges: Heads) -> None:
    older = TimedMessage("Mrs Aerts at 9, the bar at 11", session="a")
    found = candidates(
        [older], TimedMessage("*10 for Mrs Aerts, I read my own handwriting wrong", session="a"), judges
    )
    assert {older.text[slice(*one.span)] for one in found if one.certain} == {"Mrs Aerts at 9"}


def test_turned_digits_correct_their_own_number_and_leave_the_others(judges: Heads) -> None:
    older = TimedMessage("choir supper 16th June, upstairs at the Anchor, 42 people", session="a")
    found = candidates([older], TimedMessage("*24, I always turn them round", session="a"), judges)
    assert {older.text[slice(*one.span)] for one in found} == {"42 people"}


def test_without_judges_nothing_ends() -> None:
    assert find_endings([TimedMessage("I live in Porto.")], TimedMessage("I live in Lisbon now."), None) == []


def test_long_texts_are_held_against_each_other_within_bounds(judges: Heads) -> None:
    """Ten messages of three hundred facts in the same words once took minutes and gigabytes."""

    def text(who: str) -> str:
        return " ".join(f"My friend {who}{number} keeps a boat in the harbour." for number in range(300))

    older = [TimedMessage(text(who), session="a") for who in "ABCDEFGHIJ"]
    found = candidates(older, TimedMessage(text("Z"), session="b"), judges)
    assert 0 < len(found) <= MOST_PAIRS
    assert {one.old for one in found} == {len(older) - 1}, "the latest first"
