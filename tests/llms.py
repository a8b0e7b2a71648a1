"""LLMs for tests: one that answers at once from what it is asked, and one that fails as it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.providers import questions as ask
from engine.providers.questions import Question


class Scripted:
    """Answers from the question alone; keeps what it was asked. ``before`` may raise, or do something meanwhile."""

    model = "scripted"

    def __init__(self, before: Callable[[Question[Any]], None] = lambda question: None) -> None:
        self.before = before
        self.asked: list[Question[Any]] = []

    def ask(self, question: Any) -> Any:
        self.asked.append(question)
        self.before(question)
        match question:
            case ask.FocalPoints():
                return ask.Points(questions=[f"What of {text}?" for text in question.statements[-question.count :]])
            case ask.Insights():
                last = len(question.statements) - 1
                return ask.InsightList(
                    insights=[
                        ask.Insight(text=f"It matters: {question.focal_point}", evidence=[0, last, 0]),
                        ask.Insight(text=f"desk {question.focal_point.strip('?').split()[-1]} is idle", evidence=[last]),
                    ]
                )
            case ask.Triple():
                return ask.Facts(subject=question.agent_id, predicate="thinks of", object="books")
            case ask.Poignancy():
                return ask.Poignant(poignancy=7)
            case ask.Planning():
                return ask.OneSentence(sentence="should bring the map on Friday.")
            case ask.Memo():
                return ask.OneSentence(sentence=f"{question.agent_id} found the map interesting.")
        raise AssertionError(question)
