"""Messages in parts: which of them are somebody else's, which are for a time only, which are not to be kept
or to be forgotten.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from engine.conversations.forgetting import Order, forgets, to_forget
from engine.conversations.marks import Mark, live, marks_of, span_of_part, visible_text
from engine.conversations.standing import temporary
from engine.conversations.whose import others_words, played_turns
from engine.times.past import with_dates
from jiyi.protocol.conversations import Message
from jiyi.protocol.events import Turn
from jiyi.text.clauses import clauses, without
from jiyi.text.kept import NOT_KEPT, to_keep
from jiyi.text.prompt import Over

LIST = "I'm allergic to walnuts and latex, and Milo can't have eggs."
#: A Wednesday.
SAID = datetime(2026, 4, 15, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (LIST, ["walnuts", "latex", "Milo can't have eggs"]),
        ("my badges: climbing, kayak, first aid", ["climbing", "kayak", "first aid"]),
        ("I love jazz but I can't stand opera", ["I love jazz", "but I can't stand opera"]),
        ("我对芒果和虾过敏，我妈妈不能吃花生", ["芒果", "虾过敏", "我妈妈不能吃花生"]),
        ("店里卖三样：包子、豆浆、油条", ["包子", "豆浆", "油条"]),
        ("Dr. Lund, room no. 12. Ring twice.", ["Dr. Lund", "room no. 12", "Ring twice"]),
        ("1,200 euros at 10:30", ["1,200 euros at 10:30"]),
        ("😀", []),
        ("", []),
    ],
)
def test_a_message_falls_into_the_parts_that_can_each_be_so(text: str, parts: list[str]) -> None:
    assert [part.text for part in clauses(text)] == parts


def test_an_item_is_said_with_what_its_list_is_of() -> None:
    said = [part.said for part in clauses("I'm allergic to walnuts and latex")]
    assert said == ["I'm allergic to walnuts", "I'm allergic to latex"]
    assert [part.said for part in clauses("店里卖：包子、豆浆")] == ["店里卖：包子", "店里卖：豆浆"]


@pytest.mark.parametrize(
    ("text", "part", "rest"),
    [
        (LIST, "walnuts", "I'm allergic to latex, and Milo can't have eggs."),
        (LIST, "latex", "I'm allergic to walnuts, and Milo can't have eggs."),
        ("my badges: climbing, kayak, first aid", "kayak", "my badges: climbing, first aid"),
        ("店里卖三样：包子、豆浆、油条", "豆浆", "店里卖三样：包子、油条"),
        ("I moved. I have a cat. I like tea.", "I have a cat", "I moved. I like tea."),
        ("I have a cat.", "I have a cat", ""),
    ],
)
def test_what_is_left_without_a_part_reads_as_it_was_said(text: str, part: str, rest: str) -> None:
    start = text.index(part)
    assert without(text, [(start, start + len(part))]).rstrip(".") == rest.rstrip(".")


def test_a_list_without_items_says_nothing() -> None:
    assert without(LIST, [(16, 23), (28, 33)]) == "Milo can't have eggs."


def test_a_document_of_three_hundred_facts_is_told_apart_up_to_a_bound() -> None:
    assert len(clauses(". ".join(f"Fact {number} is about thing {number}" for number in range(1_000)))) == 300


@pytest.mark.parametrize(
    "text",
    [
        "Don't save this: my salary is 4,100.",
        "Off the record, I have an interview on Monday.",
        "Please remember that I don't want this saved: I owe my sister 300.",
        "Not to be remembered: my salary is 4,100.",
        "Please don't store my address anywhere, it's 4 Mill Lane.",
        "这个别存：我工资一万八",
        "别记住我住在莫干山路",
        "不要保存我下面说的，我在找新工作",
    ],
)
def test_what_is_not_to_be_kept_does_not_reach_the_service(text: str) -> None:
    turn = Turn(role="user", text=text)
    assert turn.text in NOT_KEPT.values()
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


@pytest.mark.parametrize(
    "text",
    [
        "I don't remember the half of it.",
        "Don't keep it bottled up.",
        "How do I stop my phone from saving this photo?",
        "Don't forget that my birthday is on May 3.",
        "记住我住在杭州",
        "我特别记录了训练",
        "存款还有两万",
    ],
)
def test_ordinary_talk_is_kept(text: str) -> None:
    assert to_keep(text) == text


def test_an_assistant_that_promises_not_to_keep_something_has_just_repeated_it() -> None:
    assert "4,100" not in to_keep("4,100 a month, got it. I won't keep that.", assistant=True)
    assert to_keep("You could keep the receipts.", assistant=True) == "You could keep the receipts."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Forget my phone number", "My new mobile number is 040 118 22, the old one is closed"),
        ("Can you forget my phone number?", "my phone number is 5550 182"),
        ("please forget what I told you about my back", "my back hurts since the move"),
        (
            "Please forget what I told you about Nadia and the loan, it was silly.",
            "Nadia still owes me the loan",
        ),
        ("忘掉我的地址", "我家住在青石巷的老楼里"),
        ("请把我上次说的体检结果都删掉", "体检结果出来了，血脂偏高"),
        ("护照号你给我忘了,当我没说过", "我护照号EX1188,下个月到期"),
    ],
)
def test_an_order_to_forget_finds_what_it_names(text: str, said: str) -> None:
    [order] = forgets(text)
    earlier = ["Nice day today.", said, "I like tea."]
    fits = [fit for fits in to_forget(text, order, earlier) for fit in fits]
    assert {earlier[number][start:end] for number, start, end in fits} == {said}


@pytest.mark.parametrize(
    ("order", "said", "gone"),
    [
        ("Forget my allergy", "I'm allergic to nuts, and I work at the harbour", ["I'm allergic to nuts"]),
        ("忘掉我对花生过敏", "我叫林岚，对花生过敏", ["对花生过敏"]),
        (
            "Forget my address",
            "I live at 12 Main St, above the bakery, and I work as a nurse",
            ["I live at 12 Main St, above the bakery"],
        ),
        ("Forget my phone number", "my name is Ann, my phone number is 555, floor 9", ["555, floor 9"]),
    ],
)
def test_what_else_a_sentence_says_stays_where_an_attribute_names_it(
    order: str, said: str, gone: list[str]
) -> None:
    [fits] = to_forget(order, forgets(order)[0], [said])
    assert [said[start:end] for _, start, end in fits] == gone


@pytest.mark.parametrize(
    "text",
    [
        "I forget where I put it",
        "Never forget my birthday",
        "别忘了买牛奶",
        "把提醒删掉",
        "I deleted my account",
    ],
)
def test_what_only_sounds_like_an_order_is_none(text: str) -> None:
    assert forgets(text) == []


def test_only_the_sentences_that_are_meant_are_forgotten() -> None:
    earlier = ["Two things. My phone number is 555-0199. And Olga waters my plants.", "Nice day today."]
    order = "Forget my phone number"
    [[(number, start, end)]] = to_forget(order, forgets(order)[0], earlier)
    assert (number, earlier[0][start:end]) == (0, "My phone number is 555-0199")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Forget the row with Marthe.", ["I'm 45.", "I live in Lyon."]),
        ("Please forget my mum's phone number", ["My phone number is 5550 182."]),
        ("忘掉我在成都的地址", ["我住在武汉。", "我在成都有个表姐。"]),
    ],
)
def test_an_order_takes_no_attribute_that_it_does_not_name(text: str, said: list[str]) -> None:
    order = Order(0, len(text), text)
    named = [said[number] for fits in to_forget(text, order, said) for number, _, _ in fits]
    assert not order.of_all
    assert named in ([], ["我住在武汉。"])


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("Don't save this. You can keep this: I like tea but hate coffee.", "hate coffee", "save"),
        (
            "Don't store this: I sleep badly. You can keep: I moved to Lund, but not why, we were evicted.",
            "Lund",
            "evicted",
        ),
        ("别存这个。可以记：我每天都喝粥，就是不放糖", "就是不放糖", "别存"),
        ("The code is 4471, don't save it. What you can save: I hold the keys.", "I hold the keys.", "4471"),
        ("工资一万八，别存。可以记的是：我每月五号发工资", "可以记的是：我每月五号发工资", "一万八"),
    ],
)
def test_what_may_be_kept_is_up_to_where_it_says_what_may_not(text: str, kept: str, gone: str) -> None:
    assert kept in to_keep(text)
    assert gone not in to_keep(text)


def test_an_order_that_fits_nothing_forgets_nothing() -> None:
    order = "Forget my phone number"
    assert to_forget(order, forgets(order)[0], ["I like tea."]) == []
    assert to_forget(order, forgets(order)[0], []) == []


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("any mistakes? 'My name is Igor and I live in Omsk.'", "'My name is Igor and I live in Omsk.'"),
        ("Sam wrote me: I moved to Tokyo and left my job.", "I moved to Tokyo and left my job."),
        ("帮我润色：“我是李雷，家住海边，养了三条狗”", "“我是李雷，家住海边，养了三条狗”"),
        ("I need sample users like: Ada Holm, 44, lives in Turku. Thanks", "Ada Holm, 44, lives in Turku"),
        ("Pia emailed: I moved to Quito", "I moved to Quito"),
        ("测试一下：我搬到大连了", "我搬到大连了"),
        ("test: my name is Ada", "my name is Ada"),
        ("I adore Mondays, best day of my week. just kidding", "I adore Mondays, best day of my week."),
    ],
)
def test_other_peoples_words_are_told_from_the_writers_own(text: str, foreign: str) -> None:
    [(start, end)] = others_words(text)
    assert text[start:end].strip() == foreign


@pytest.mark.parametrize(
    "text",
    [
        "I love the song 'Blue'.",
        "The doctor said 'you have asthma, and it will stay'.",
        "We meet at 9:30: bring tea.",
        "The doctor said: no dairy.",
        "She cried as if it was new. I gave her my scarf.",
        "It goes 20 m/s. I like it.",
        "I write test cases for a bank.",
    ],
)
def test_titles_and_what_is_said_to_the_writer_are_no_foreign_words(text: str) -> None:
    assert others_words(text) == []


def test_a_game_lasts_until_it_is_ended() -> None:
    said = [
        "Let's play: you're the vet and I'm the farmer.",
        "My goat has two heads.",
        "ok stop. real me: I have a cat.",
        "It is grey.",
    ]
    assert played_turns([Message(role="user", text=text) for text in said]) == {0, 1}


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("It's the 7:35 instead till Saturday", date(2026, 4, 18)),
        ("only soup this week, doctor's orders", date(2026, 4, 19)),
        ("这周改成周三休息", date(2026, 4, 19)),
        ("这个月先不喝咖啡", date(2026, 4, 30)),
        ("trams only until the 24th", date(2026, 4, 24)),
    ],
)
def test_an_exception_has_an_end_of_its_own(text: str, until: date) -> None:
    assert [one.until for one in temporary(text, SAID)] == [until]


def test_what_is_said_of_a_place_where_somebody_is_for_a_time_holds_as_long() -> None:
    text = "We're at my aunt's till the 20th. Dinner is at five here. I like tea."
    found = temporary(text, SAID)
    spans = [text[slice(*one.span)] for one in found]
    assert spans == ["We're at my aunt's till the 20th", "Dinner is at five here"]
    assert {one.until for one in found} == {date(2026, 4, 20)}


@pytest.mark.parametrize(
    "text", ["The dentist is on Saturday.", "I work until five every day.", "我每周三休息"]
)
def test_what_holds_for_good_is_no_exception(text: str) -> None:
    assert temporary(text, SAID) == []


def test_a_prompt_shows_what_stands_and_what_ended_apart() -> None:
    text = "I live in Rome with my cat and my dog."
    start = text.index("my dog")
    provenance = {"marks": [Mark(start, start + 6, "ended", date(2026, 5, 1)).json()], "utc_offset": 120}
    before = visible_text(text, SAID, provenance, datetime(2026, 4, 20, tzinfo=UTC))
    after = visible_text(text, SAID, provenance, datetime(2026, 6, 1, tzinfo=UTC))
    assert before.text == text
    assert "dog" not in after.text
    assert after.text.startswith("I live in Rome with my cat")
    assert after.ended == (Over("my dog", date(2026, 5, 1)),)
    assert marks_of(provenance)[0].why == "ended"


def test_days_are_the_speakers() -> None:
    late = datetime(2026, 4, 22, 23, 30, tzinfo=UTC)  # in Shanghai it is the 23rd
    visible = visible_text(
        "I sold the car yesterday", late, {"utc_offset": 480}, datetime(2026, 6, 1, tzinfo=UTC)
    )
    assert with_dates(visible.text, visible.at) == "I sold the car yesterday (2026-04-22)"
    assert visible.at.date() == date(2026, 4, 23)
    # No offset came: by the clock of who asks.
    asked = datetime(2026, 6, 1, tzinfo=timezone(timedelta(hours=14)))
    visible = visible_text("I sold the car yesterday", late, {}, asked)
    assert with_dates(visible.text, visible.at) == "I sold the car yesterday (2026-04-22)"


def test_what_loses_all_of_its_parts_says_nothing() -> None:
    assert live("I have a cat", [Mark(0, 12, "ended")]) == ""


def test_a_part_is_found_beside_days_that_were_worked_out() -> None:
    statement = "User: moved yesterday (2026-04-14) to Lyon"
    start, end = span_of_part("yesterday to Lyon", statement) or (0, 0)
    assert statement[start:end] == "yesterday (2026-04-14) to Lyon"


def test_a_document_is_kept_whole_whatever_it_says() -> None:
    steps = "The next step is to open the file. " * 40
    document = f"{steps}Never store this token. {steps}"
    assert to_keep(document) == document
    assert to_keep(f"Please don't save this: {document}") == NOT_KEPT["en"]


def test_what_publishers_write_under_our_names_breaks_no_prompt() -> None:
    provenance = {"marks": [1, {"start": "a"}], "utc_offset": 10**9}
    assert (
        visible_text("I have a cat", SAID, provenance, datetime(2026, 6, 1, tzinfo=UTC)).text
        == "I have a cat"
    )
    assert marks_of({"marks": "x"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "practice run on Sunday, I'm nervous",
        "I have a mock interview on Friday and I'm not ready",
        "let's play chess tonight, I'm free at eight",
        "Act as my lawyer.",
        "I play the guitar.",
        "You're the best and I'm grateful.",
        "我演讲比赛得了第一",
    ],
)
def test_who_talks_of_games_and_practice_plays_nobody(text: str) -> None:
    assert (
        played_turns([Message(role="user", text=text), Message(role="user", text="I have a cat.")]) == set()
    )
