"""Questions on what nodes of workflows say: digests of it, whether it is consistent."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from engine.providers.llms.questions.base import MAX_ANSWER_CHARS, Question, Sentence, ShortName


class Digested(BaseModel):
    topic: ShortName
    summary: Sentence
    #: Numbers of the statements that it rests on.
    evidence: list[int] = Field(min_length=1)


class Digest(Question[Digested]):
    """What do these outputs of a workflow, which say similar things, come to?"""

    prompt: ClassVar[str] = "digest"
    answer: ClassVar[type[BaseModel]] = Digested

    statements: list[str] = Field(min_length=1)

    def problems(self, answer: Digested) -> list[str]:
        wrong = [number for number in answer.evidence if not 0 <= number < len(self.statements)]
        return [f"evidence: {wrong} are no numbers of the statements 0 … {len(self.statements) - 1}"] if wrong else []


class Checked(BaseModel):
    verdict: Literal["consistent", "inconsistent", "unknown"]
    why: str = Field(max_length=MAX_ANSWER_CHARS)


class Consistency(Question[Checked]):
    """Does the text contradict itself, or state what obviously cannot be so?"""

    prompt: ClassVar[str] = "consistency"
    answer: ClassVar[type[BaseModel]] = Checked

    text: str
