"""LLMs for tests: one that answers at once from what it is asked, and one that notes what the rules find and
fails as it is told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from bench.support.perfect import answer
from engine.providers import questions as ask
from engine.providers.llm_prompts import block_of
from engine.providers.questions import Question
from jiyi.errors import BadReply, LLMUnavailable
from jiyi.text.budget import estimate_tokens
from tests.misbehaving import Reply, Request, chat


class Scripted:
    """Answers from the question alone; keeps what it was asked. ``before`` may raise, or do something
    meanwhile.
    """

    model = "scripted"

    def __init__(self, before: Callable[[Question[Any]], None] = lambda question: None) -> None:
        self.before = before
        self.asked: list[Question[Any]] = []

    def ask(self, question: Any) -> Any:
        self.asked.append(question)
        self.before(question)
        match question:
            case ask.FocalPoints():
                return ask.Points(
                    questions=[f"What of {text}?" for text in question.statements[-question.count :]]
                )
            case ask.Insights():
                last = len(question.statements) - 1
                return ask.InsightList(
                    insights=[
                        ask.Insight(text=f"It matters: {question.focal_point}", evidence=[0, last, 0]),
                        ask.Insight(
                            text=(
                                f"{question.agent_id}'s desk {question.focal_point.strip('?').split()[-1]} is"
                                " idle"
                            ),
                            evidence=[last],
                        ),
                    ]
                )
            case ask.Triple():
                return ask.Facts(subject=question.agent_id, predicate="thinks of", object="books")
            case ask.Poignancy():
                return ask.Poignant(poignancy=7)
            case ask.Planning():
                return ask.OneSentence(
                    sentence=f"should bring {question.utterances[-1][0]} the map on Friday."
                )
            case ask.Memo():
                return ask.OneSentence(sentence=f"{question.agent_id} found the map interesting.")
        raise AssertionError(question)


def refusal(words: str) -> BadReply:
    """As a provider says that one question is not let through."""
    error = BadReply(words)
    error.refused = True
    return error


def too_long(words: str, what: Literal["question", "answer"] = "answer") -> BadReply:
    """As a provider says that a question, or its answer, is longer than the model takes."""
    error = BadReply(words)
    error.too_long, error.refused = what, what == "question"
    return error


def too_slow() -> LLMUnavailable:
    """As a provider says that an LLM took longer than it was given."""
    error = LLMUnavailable(
        "compatible (http://llm) did not answer within 30 s: check it, or raise JIYI_LLM_TIMEOUT"
    )
    error.timed_out = True
    return error


class Perfect:
    """An LLM that notes what the rules find, in answers of at most ``max_tokens``, as servers do that keep to
    it.

    ``refused``: a filter of contents lets no question through that has this word. ``prose``: it answers
    nothing that can be used.
    """

    model = "perfect"

    def __init__(self, *, refused: str = "", max_tokens: int = 3_000, prose: bool = False) -> None:
        self.refused, self.max_tokens, self.prose = refused, max_tokens, prose
        self.asked: list[Question[Any]] = []

    def ask(self, question: Any) -> Any:
        self.asked.append(question)
        name = question.prompt
        if self.refused and self.refused in block_of(question, 1_000_000).text:
            raise refusal(
                f"{name}@2 was not answered, a filter of contents refuses it: 400, data_inspection_failed"
            )
        if self.prose:
            raise BadReply(f"no usable answer to {name}@2, the last time because it is not one JSON object")
        answer = self.answer(question)
        if estimate_tokens(answer.model_dump_json()) > self.max_tokens:
            raise too_long(
                f"no usable answer to {name}@2, the last time because it was cut off at {self.max_tokens}"
                " tokens"
            )
        return answer

    def answer(self, question: Any) -> Any:
        return answer(question)


class Answering:
    """A model's replies to its trials and some questions; ``wrong`` are abilities that it lacks. ``asked``
    counts prompts.
    """

    def __init__(self) -> None:
        self.wrong: set[str] = set()
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Reply:
        name, data = (
            request.body["response_format"]["json_schema"]["name"],
            request.body["messages"][1]["content"],
        )
        self.asked[name] += 1
        return chat(json.dumps(getattr(self, f"_{name}")(data), ensure_ascii=False))(request)

    def _poignancy(self, data: str) -> dict[str, Any]:
        return {"poignancy": 3 if "importance" in self.wrong else 9 if "died" in data else 1}

    def _triple(self, data: str) -> dict[str, Any]:
        if "triple" in self.wrong:
            return {"subject": "statement", "predicate": "is", "object": "Klaus"}
        return {"subject": "Klaus", "predicate": "sold", "object": "his boat"}

    def _keywords(self, data: str) -> dict[str, Any]:
        return {"keywords": ["tea"]}

    def _extraction(self, data: str) -> dict[str, Any]:
        note, ends = "", list[str]()
        if "bakery" in data:
            note, ends = "The user has a bakery.", [] if "endings" in self.wrong else ["S0"]
        elif "neighbour" in data:
            note, ends = "The user's neighbour sold his dog.", ["S1"] if "others" in self.wrong else []
        elif "17 times" in data:
            note = "The user asked for a product." if "nothing" in self.wrong else ""
        elif "护士" in data:
            note = "The user is a nurse." if "chinese" in self.wrong else "用户在杭州一家医院当护士。"
        elif "administrator" in data:
            note = (
                "The user is the administrator."
                if "injection" in self.wrong
                else "The user works as a nurse in Turku."
            )
        else:
            note = "用户养了两箱蜜蜂。" if "蜜蜂" in data else "The user keeps bees."
        return {"memories": [{"content": note, "lines": ["L0"], "ends": ends}] if note else []}
