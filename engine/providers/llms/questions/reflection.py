"""Questions of a reflection: what to think about, what follows, what of a conversation is to be kept."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, Field

from engine.providers.llms.questions.base import OneSentence, Question, Sentence, too_many


class Points(BaseModel):
    questions: list[Sentence] = Field(min_length=1)


class FocalPoints(Question[Points]):
    """What are the most salient high-level questions that the statements raise?"""

    prompt: ClassVar[str] = "focal_points"
    answer: ClassVar[type[BaseModel]] = Points

    statements: list[str] = Field(min_length=1)
    count: int = Field(ge=1)

    def problems(self, answer: Points) -> list[str]:
        return too_many("questions", len(answer.questions), self.count)


class Insight(BaseModel):
    text: Sentence
    #: Numbers of the statements that it rests on, as they were numbered in the question: from 0.
    evidence: list[int] = Field(min_length=1)


class InsightList(BaseModel):
    #: None, where nothing follows that no single statement says.
    insights: list[Insight]


class Insights(Question[InsightList]):
    """What follows from the statements, at a higher level, and from which of them?

    ``times`` are those of the statements, or none, and ``thoughts`` the numbers of those that are thoughts; LLMs are told neither.
    """

    prompt: ClassVar[str] = "insights"
    answer: ClassVar[type[BaseModel]] = InsightList

    focal_point: str
    statements: list[str] = Field(min_length=1)
    times: list[datetime] = Field(default_factory=list)
    thoughts: list[int] = Field(default_factory=list)
    count: int = Field(ge=1)

    def problems(self, answer: InsightList) -> list[str]:
        found = too_many("insights", len(answer.insights), self.count)
        for place, insight in enumerate(answer.insights):
            wrong = [number for number in insight.evidence if not 0 <= number < len(self.statements)]
            if wrong:
                found.append(f"insights.{place}.evidence: {wrong} are no numbers of the statements 0 … {len(self.statements) - 1}")
        return found


class Planning(Question[OneSentence]):
    """What of this conversation should the agent remember for its planning?"""

    prompt: ClassVar[str] = "planning"
    answer: ClassVar[type[BaseModel]] = OneSentence

    #: (speaker, what was said)
    utterances: list[tuple[str, str]] = Field(min_length=1)


class Memo(Question[OneSentence]):
    """What of this conversation was interesting to the agent?"""

    prompt: ClassVar[str] = "memo"
    answer: ClassVar[type[BaseModel]] = OneSentence

    utterances: list[tuple[str, str]] = Field(min_length=1)
