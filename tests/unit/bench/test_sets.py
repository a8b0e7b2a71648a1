"""bench.sets reads lists of agents and conversations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import sets
from bench.support.quality import Question


def written(folder: Path, content: Any) -> Path:
    path = folder / "set.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_list_of_agents(tmp_path: Path) -> None:
    memories = [
        {"key": "a", "text": "tea", "at": "2026-01-02T03:04:00+00:00"},
        {"key": "b", "text": "rice", "at": "2026-01-03T03:04:00+00:00"},
    ]
    known = {"text": "what?", "evidence": ["b", "gone"], "kind": "single", "now": "2026-02-01T00:00:00+00:00"}
    unknown = {"text": "nothing known", "evidence": ["gone"], "kind": "single"}
    agents = [{"agent_id": "x", "memories": memories, "questions": [known, unknown]}]
    (agent,) = sets.read(written(tmp_path, agents))
    rows = [(one.key, one.text, one.occurred_at.day) for one in agent.memories]
    assert rows == [("a", "tea", 2), ("b", "rice", 3)]
    (question,) = agent.questions
    now = datetime(2026, 2, 1, tzinfo=UTC)
    assert (question.text, question.evidence, question.now) == ("what?", {"b"}, now)


def test_a_question_that_is_a_dialogue_is_asked_as_one() -> None:
    text = """<Bart>: "Look!"\n<Assistant>: "Nice."\n<小林>：“好看吗？”\n"Very."\n<Bart>: He said "wow"\n"""
    assert sets.messages_of(text) == [
        {"role": "user", "name": "Bart", "content": "Look!"},
        {"role": "assistant", "content": "Nice."},
        {"role": "user", "name": "小林", "content": "好看吗？"},
        {"role": "assistant", "content": "Very."},
        {"role": "user", "name": "Bart", "content": 'He said "wow'},
    ]
    for other in ("", "What did Bart do?", "<b>bold</b>", '<Assistant>: "Hello"'):
        assert sets.messages_of(other) == []


def test_a_conversation_is_one_agent_whose_turns_are_a_minute_apart(tmp_path: Path) -> None:
    turns = [{"id": "s1:1", "speaker": "Jo", "text": "Hi"}, {"id": "s1:2", "speaker": "林岚", "text": "你好"}]
    session = {"id": "s1", "at": "2026-01-02T03:04:00+01:00", "turns": turns}
    question = {"question": "who?", "evidence": ["s1:2"], "kind": "multi"}
    (agent,) = sets.read(written(tmp_path, {"id": "c", "sessions": [session], "questions": [question]}))
    first, second = agent.memories
    assert (first.text, second.text) == ("Jo: Hi", "林岚: 你好")
    assert (second.subject, second.session_id) == ("林岚", "s1")
    assert (second.occurred_at - first.occurred_at).total_seconds() == 60
    assert [(one.text, one.evidence, one.kind) for one in agent.questions] == [("who?", {"s1:2"}, "multi")]


def test_what_the_threshold_keeps_of_the_evidence_and_drops_of_the_rest() -> None:
    asked = [Question("?", {"a", "b"}, "one"), Question("?", {"c"}, "two")]
    rest = [f"x{number}" for number in range(10)]
    answers = [(asked[0], ["a", "b", *rest[:8], "y"]), (asked[1], ["c", *rest[:3]])]
    likely = [(asked[0], ["a", "x0"]), (asked[1], ["c"])]
    found = sets.figures(answers, likely)
    overall = found["overall"]  # 2 of 3, 10 of 11: the eleventh does not count
    assert (overall["kept"], overall["dropped"]) == (0.6667, 0.9091)
    assert (found["two"]["kept"], found["two"]["dropped"]) == (1, 1)
    assert sets.figures(answers, answers)["overall"]["dropped"] == 0
