"""bench.chat: its own chat is what it says it is, and its figures are what they say they are."""

import json

from bench.chat import CHAT, Asked, figures, newer_first, read, without_sessions
from jiyi.text.words import language_of


def asked(*evidence, outdated=()):
    return Asked("?", set(evidence), "chat", None, frozenset(outdated))


def test_the_chat_is_long_bilingual_in_order_of_time_and_mostly_about_small_things():
    sessions = json.loads(CHAT.read_text(encoding="utf-8"))["sessions"]
    turns = [turn for session in sessions for turn in session["turns"]]
    agent = read()
    assert len(agent.memories) == len(turns) >= 200
    assert len({memory.session_id for memory in agent.memories}) >= 4
    assert sum("small_talk" in turn for turn in turns) >= 0.4 * len(turns)
    chinese = sum(language_of(turn["text"]) == "zh" for turn in turns)
    assert 0.3 * len(turns) < chinese < 0.7 * len(turns)
    times = [memory.occurred_at for memory in agent.memories]
    assert times == sorted(times)
    assert all(memory.session_id is None for memory in without_sessions(agent).memories)


def test_its_questions_have_answers_and_many_are_about_what_has_changed():
    agent = read()
    when = {memory.key: memory.occurred_at for memory in agent.memories}
    assert len(when) == len(agent.memories)
    changed = [question for question in agent.questions if question.outdated]
    assert len(agent.questions) >= 80
    assert len(changed) >= 30
    for question in agent.questions:
        assert question.evidence
        assert question.evidence | question.outdated <= when.keys()
        assert not question.evidence & question.outdated
    for question in changed:
        assert max(when[key] for key in question.evidence) > max(when[key] for key in question.outdated)


def test_the_newer_has_to_come_before_all_that_it_contradicts():
    question = asked("new", outdated={"old", "older"})
    assert newer_first(question, ["x", "new", "old", "older"])
    assert newer_first(question, ["new"])
    assert not newer_first(question, ["old", "new", "older"])
    assert not newer_first(question, ["x", "old"])


def test_figures():
    answers = [
        (asked("a"), ["a", "b"]),
        (asked("b"), ["a", "", "b"]),
        (asked("c"), ["a", "b", "d", "e", "f", "c"]),
        (asked("d", outdated={"e"}), ["e", "d"]),
        (asked("f", outdated={"e"}), ["", "", "f", "e"]),
    ]
    assert figures(answers) == {
        "questions": 5,
        "first": 0.2,
        "in_five": 0.8,
        "contradicted": 2,
        "newer_first": 0.5,
        "thoughts_in_five": 3,
    }
    assert figures([(asked("a"), [])])["first"] == 0
