"""bench.llm: a sample has all kinds and languages, and a perfect model reads back what it is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bench.llm import sample
from bench.support.perfect import answer, completion
from engine.conversations.notes import Experiences, Notes
from engine.growth.questions import PainQuestion
from engine.providers.llm_prompts import messages
from engine.providers.openai_compatible import ServerDialect
from engine.providers.questions import FocalPoints, KnownFact, Memo, Poignancy, Question
from jiyi.protocol.conversations import Message

FIRST = 'I live in "Oslo": really (user): so.'
SAID = [
    Message(role="user", name="Jo (x)", text=FIRST, at=datetime(2026, 5, 1, 12, tzinfo=UTC)),
    Message(role="assistant", text="Nice."),
    Message(role="user", text="我住在杭州。\n导出又失败了"),
]


def test_a_sample_takes_kinds_and_languages_in_turn() -> None:
    kinds = [(n, kind, language) for n in (1, 2) for kind in "ab" for language in "xy"]
    lives = [("f", {"id": f"{kind}{lang}{n}", "kind": kind, "language": lang}) for n, kind, lang in kinds]
    ids = [life["id"] for _, life in sample(lives, 5)]
    assert ids == ["ax1", "bx1", "ay1", "by1", "ax2"]
    assert len(sample(lives, None)) == len(lives)
    assert sample([], 3) == []


@pytest.mark.parametrize(
    "question",
    [
        Notes(agent_id="a", messages=SAID, since=1, known=[KnownFact(content="User: I live in Turku.")]),
        Notes(agent_id="助手", language="zh", messages=SAID),
        Experiences(agent_id="a", messages=SAID, since=2),
        PainQuestion(agent_id="a", messages=SAID),
        Poignancy(agent_id="a", kind="chat", text="It broke.", about="a nurse"),
        Memo(agent_id="a", language="zh", utterances=[("Jo", "so: what?"), ("Mia", "ok")]),
        FocalPoints(agent_id="a", statements=["S0: one", "two"], count=2),
    ],
    ids=lambda question: question.prompt,
)
def test_a_perfect_model_reads_back_the_question_and_keeps_to_the_longest_answer(
    question: Question[Any],
) -> None:
    asked: list[Question[Any]] = []

    def keep(read: Question[Any]) -> Any:
        asked.append(read)
        return answer(read)

    form = ServerDialect("schema").body(question.prompt, question.answer.model_json_schema(), 10)
    reply = completion({"messages": messages(question), **form}, keep)
    assert asked == [question]
    assert reply["usage"]["completion_tokens"] <= 10
    assert reply["choices"][0]["finish_reason"] in ("stop", "length")
