"""Parts of messages: somebody else's, for a time only, not to be kept, to be forgotten."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

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
from tests.unit.text.labelled import labelled

LIST = "I'm allergic to walnuts and latex, and Milo can't have eggs."
#: A Wednesday.
SAID = datetime(2026, 4, 15, 9, tzinfo=UTC)
LATER = datetime(2026, 6, 1, tzinfo=UTC)


@labelled
def test_a_message_falls_into_the_parts_that_can_each_be_so(text: str, parts: list[str]) -> None:
    assert [part.text for part in clauses(text)] == parts


def test_an_item_is_said_with_what_its_list_is_of() -> None:
    said = [part.said for part in clauses("I'm allergic to walnuts and latex")]
    assert said == ["I'm allergic to walnuts", "I'm allergic to latex"]
    assert [part.said for part in clauses("店里卖：包子、豆浆")] == ["店里卖：包子", "店里卖：豆浆"]


@labelled
def test_what_is_left_without_a_part_reads_as_it_was_said(text: str, part: str, rest: str) -> None:
    start = text.index(part)
    assert without(text, [(start, start + len(part))]).rstrip(".") == rest.rstrip(".")


def test_a_list_without_items_says_nothing_and_a_document_is_told_apart_up_to_a_bound() -> None:
    assert without(LIST, [(16, 23), (28, 33)]) == "Milo can't have eggs."
    assert len(clauses(". ".join(f"Fact {number} is about thing {number}" for number in range(1_000)))) == 300


@labelled
def test_what_is_not_to_be_kept_does_not_reach_the_service(text: str) -> None:
    turn = Turn(role="user", text=text)
    assert turn.text in NOT_KEPT.values()
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


@labelled
def test_ordinary_talk_is_kept(text: str) -> None:
    assert to_keep(text) == text


def test_an_assistant_that_promises_not_to_keep_something_has_just_repeated_it() -> None:
    assert "4,100" not in to_keep("4,100 a month, got it. I won't keep that.", assistant=True)
    assert to_keep("You could keep the receipts.", assistant=True) == "You could keep the receipts."


@labelled
def test_an_order_to_forget_finds_what_it_names(text: str, said: str) -> None:
    earlier = ["Nice day today.", said, "I like tea."]
    fits = [fit for order in forgets(text) for found in to_forget(text, order, earlier) for fit in found]
    assert {earlier[number][start:end] for number, start, end in fits} == ({said} if said else set())
    assert bool(forgets(text)) == bool(said)


@labelled
def test_what_else_a_sentence_says_stays_where_an_attribute_names_it(
    order: str, said: str, gone: list[str]
) -> None:
    [fits] = to_forget(order, forgets(order)[0], [said])
    assert [said[start:end] for _, start, end in fits] == gone


def test_only_the_sentences_that_are_meant_are_forgotten() -> None:
    order = "Forget my phone number"
    earlier = ["Two things. My phone number is 555-0199. And Olga waters my plants.", "Nice day today."]
    [[(number, start, end)]] = to_forget(order, forgets(order)[0], earlier)
    assert (number, earlier[0][start:end]) == (0, "My phone number is 555-0199")
    assert (
        to_forget(order, forgets(order)[0], ["I like tea."]) == to_forget(order, forgets(order)[0], []) == []
    )


@labelled
def test_an_order_takes_no_attribute_that_it_does_not_name(text: str, said: list[str]) -> None:
    order = Order(0, len(text), text)
    named = [said[number] for fits in to_forget(text, order, said) for number, _, _ in fits]
    assert not order.of_all
    assert named in ([], ["我住在武汉。"])


@labelled
def test_what_may_be_kept_is_up_to_where_it_says_what_may_not(text: str, kept: str, gone: str) -> None:
    assert kept in to_keep(text)
    assert gone not in to_keep(text)


@labelled
def test_other_peoples_words_are_told_from_the_writers_own(text: str, foreign: str) -> None:
    assert [text[start:end].strip() for start, end in others_words(text)] == ([foreign] if foreign else [])


@labelled
def test_a_game_lasts_until_it_is_ended_and_who_talks_of_games_plays_nobody(
    texts: list[str], played: list[int]
) -> None:
    assert played_turns([Message(role="user", text=text) for text in texts]) == {*played}


@labelled
def test_an_exception_has_an_end_of_its_own_and_what_holds_for_good_has_none(
    text: str, until: date | None
) -> None:
    assert [one.until for one in temporary(text, SAID)] == ([until] if until else [])


def test_what_is_said_of_a_place_where_somebody_is_for_a_time_holds_as_long() -> None:
    text = "We're at my aunt's till the 20th. Dinner is at five here. I like tea."
    found = temporary(text, SAID)
    spans = [text[slice(*one.span)] for one in found]
    assert spans == ["We're at my aunt's till the 20th", "Dinner is at five here"]
    assert {one.until for one in found} == {date(2026, 4, 20)}


def test_a_prompt_shows_what_stands_and_what_ended_apart() -> None:
    text = "I live in Rome with my cat and my dog."
    start = text.index("my dog")
    provenance = {"marks": [Mark(start, start + 6, "ended", date(2026, 5, 1)).json()], "utc_offset": 120}
    before = visible_text(text, SAID, provenance, datetime(2026, 4, 20, tzinfo=UTC))
    after = visible_text(text, SAID, provenance, LATER)
    assert before.text == text
    assert "dog" not in after.text
    assert after.text.startswith("I live in Rome with my cat")
    assert after.ended == (Over("my dog", date(2026, 5, 1)),)
    assert marks_of(provenance)[0].why == "ended"


def test_days_are_the_speakers() -> None:
    late = datetime(2026, 4, 22, 23, 30, tzinfo=UTC)  # in Shanghai it is the 23rd
    asked = datetime(2026, 6, 1, tzinfo=timezone(timedelta(hours=14)))
    for now, provenance in ((LATER, {"utc_offset": 480}), (asked, {})):  # no offset: by the clock of who asks
        visible = visible_text("I sold the car yesterday", late, provenance, now)
        assert with_dates(visible.text, visible.at) == "I sold the car yesterday (2026-04-22)"
        assert visible.at.date() == date(2026, 4, 23)


def test_what_loses_all_of_its_parts_says_nothing_and_a_part_is_found_beside_dates() -> None:
    assert live("I have a cat", [Mark(0, 12, "ended")]) == ""
    statement = "User: moved yesterday (2026-04-14) to Lyon"
    start, end = span_of_part("yesterday to Lyon", statement) or (0, 0)
    assert statement[start:end] == "yesterday (2026-04-14) to Lyon"
    assert span_of_part("我合同签到今年八月", "用户：我合同签到今年 (2026)八月") == (3, 19)
    assert span_of_part("left last month", "User: left last month (2026-04)") == (6, 21)


def test_a_document_is_kept_whole_whatever_it_says() -> None:
    steps = "The next step is to open the file. " * 40
    document = f"{steps}Never store this token. {steps}"
    assert to_keep(document) == document
    assert to_keep(f"Please don't save this: {document}") == NOT_KEPT["en"]


def test_what_publishers_write_under_our_names_breaks_no_prompt() -> None:
    provenance = {"marks": [1, {"start": "a"}], "utc_offset": 10**9}
    assert visible_text("I have a cat", SAID, provenance, LATER).text == "I have a cat"
    assert marks_of({"marks": "x"}) == []
