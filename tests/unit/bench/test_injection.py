"""bench.injection: talks as a chat program passes them, and what counts as shown."""

from __future__ import annotations

from collections import Counter

from bench import chat
from bench.injection import counts, read
from jiyi.text.words import tokens


def test_the_projects_chats_are_read_with_their_roles() -> None:
    [talk] = read(chat.CHAT)
    said = [message for session in talk.sessions.values() for message in session]
    assert {message["role"] for message in said} == {"user", "assistant"}
    assert any(question.outdated for question in talk.questions)
    changes = read(chat.CHAT.with_name("changes.json"))
    assert sum(bool(question.outdated) for one in changes for question in one.questions) >= 24
    assert all(question.evidence for one in [talk, *changes] for question in one.questions)


def test_a_turn_is_shown_if_a_line_has_most_of_it() -> None:
    for line, expected in (("I moved to Lisbon in May", True), ("May in Lisbon", False), ("", False)):
        assert counts("I moved to Lisbon in May", [Counter(tokens(line))]) is expected
