"""bench.injection: talks as a chat program passes them, and what counts as shown."""

from __future__ import annotations

from collections import Counter

import pytest

from bench import chat
from bench.injection import Asked, _changed_right, counts, read
from jiyi.text.tokens import tokens


def test_the_projects_chat_is_read_with_its_roles() -> None:
    [talk] = read(chat.CHAT)
    said = [message for session in talk.sessions.values() for message in session]
    assert {message["role"] for message in said} == {"user", "assistant"}
    assert any(question.outdated for question in talk.questions)
    assert all(question.evidence for question in talk.questions)


@pytest.mark.parametrize(("line", "expected"), [("I moved to Lisbon in May", True), ("May in Lisbon", False), ("", False)])
def test_a_turn_is_shown_if_a_line_has_most_of_it(line: str, *, expected: bool) -> None:
    assert counts("I moved to Lisbon in May", [Counter(tokens(line))]) is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["I live in Lisbon", "I live in Porto"], False),
        (["I live in Lisbon", '"I live in Porto" (no longer so since 1 May 2026)'], True),
        (["I live in Lisbon"], True),
        (['"I live in Lisbon" (no longer so since 1 May 2026)'], False),
        ([], False),
    ],
)
def test_of_what_has_changed_the_new_one_stands_and_the_old_one_is_marked(lines: list[str], *, expected: bool) -> None:
    assert _changed_right(Asked("where?", ["I live in Lisbon"], ["I live in Porto"]), lines) is expected


def test_the_changes_are_read_as_several_chats() -> None:
    talks = read(chat.CHAT.with_name("changes.json"))
    assert sum(bool(question.outdated) for talk in talks for question in talk.questions) >= 24
    assert all(question.evidence for talk in talks for question in talk.questions)
