"""What of a message counts as stated by the user, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime

from engine.conversations.statements import STRONG, statements
from engine.times.past import with_dates
from jiyi.protocol.conversations import Message
from tests.unit.text.labelled import labelled

WEDNESDAY = datetime(2026, 3, 4, 9, tzinfo=UTC)


def said(*texts: str, role: str = "user") -> list[str]:
    messages = [Message(role=role, text=text) for text in texts]
    return [one.text for made in statements(messages) for one in made]


@labelled
def test_what_states_nothing_of_the_user(text: str) -> None:
    messages = [Message(role="user", text=text.strip())]
    assert not [made for made in statements(messages) if any(one.strength >= STRONG for one in made)]


@labelled
def test_what_is_stated(text: str, kept: str) -> None:
    assert said(text) == [kept]


def test_what_others_say_or_act_is_no_statement_of_the_user() -> None:
    assert said("You live in Oslo and love skiing in winter.", role="assistant") == []
    assert said("I live in Oslo and love skiing in winter.", role="tool") == []
    acted = "你扮演面试官，我是应聘者", "我叫李雷，有十年Java经验", "不演了，说正经的"
    assert said(*acted, "我真正的工作是在图书馆管古籍") == ["我真正的工作是在图书馆管古籍"]


def test_a_short_answer_keeps_its_question() -> None:
    asked = Message(role="assistant", text="Nice. What's your dog called?")
    [[one]] = statements([asked, Message(role="user", text="Bruno.")])
    assert (one.text, one.question) == ("Bruno.", "What's your dog called?")
    unsure = [Message(role="assistant", text="When is it?"), Message(role="user", text="I don't know.")]
    assert statements(unsure) == []


def test_a_wish_for_how_to_be_answered_is_kept_and_a_task_and_a_name_that_is_addressed_are_not() -> None:
    [[wish]] = statements([Message(role="user", text="以后回答都用中文")])
    assert wish.lasting
    assert said("Always answer in British English.") == ["Always answer in British English."]
    assert said("Shorten this text to one paragraph.") == []
    spoken = [("Jon", "Hey!"), ("Gina", "Definitely, Jon!")]
    assert statements([Message(role="user", name=name, text=text) for name, text in spoken]) == []


@labelled
def test_relative_days_are_dated(text: str, dated: str) -> None:
    assert with_dates(text, WEDNESDAY) == dated
    assert with_dates(text, None) == text
