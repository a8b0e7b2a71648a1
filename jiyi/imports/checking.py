"""Is what was asked for found as well as before? Questions with expected words, asked of both sides."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import IO, Annotated

from pydantic import BaseModel, Field, ValidationError

from jiyi.client.client import Client
from jiyi.errors import InvalidRequest, problems_of
from jiyi.imports.drafts import LeftOut
from jiyi.imports.files import lines
from jiyi.protocol.base import Name
from jiyi.protocol.conversations import KINDS

#: Questions of one check, and memories that count for each.
MAX_QUESTIONS, FOUND = 2_000, 10
#: The search of the other side: question, user, how many → texts.
Search = Callable[[str, str | None, int], list[str]]


class Question(BaseModel, extra="forbid"):
    """A line of the file: a question, and words of which one must be among what is found."""

    question: Annotated[str, Field(min_length=1, max_length=8_000)]
    expected: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | Annotated[str, Field(min_length=1)]
    agent_id: Name | None = None
    user_id: Name | None = None

    @property
    def words(self) -> list[str]:
        """All of its expected words."""
        return [self.expected] if isinstance(self.expected, str) else self.expected


class Compared(BaseModel):
    """Shares of the questions whose words are among the first memories found; ``theirs`` is None where the source has no search."""

    questions: int
    among_first: int
    ours: float
    theirs: float | None
    missed: list[str] = Field(description="Questions that only the other side answers; without one, those not answered here.")


def read_questions(stream: IO[bytes], name: str) -> list[Question]:
    """The questions of a file of JSON lines. Raises :class:`jiyi.errors.InvalidRequest` with a sentence for a line that is none."""
    questions: list[Question] = []
    for number, value in lines(stream, name):
        try:
            questions.append(Question.model_validate({} if isinstance(value, LeftOut) else value))
        except ValidationError as error:
            problem = value.detail if isinstance(value, LeftOut) else problems_of(error, Question)[0]
            example = '{"question": "What does Mia eat?", "expected": "noodles"}'
            raise InvalidRequest([f"{name}: line {number}: {problem}; a line is {example}"]) from None
        if len(questions) > MAX_QUESTIONS:
            raise InvalidRequest([f"{name}: more than {MAX_QUESTIONS:,} questions; give fewer"])
    if not questions:
        raise InvalidRequest([f"{name}: has no questions"])
    return questions


def compare(client: Client, questions: Sequence[Question], agent: str, user: str | None, theirs: Search | None) -> Compared:
    """Ask both sides every question. What is found does not count as accessed."""
    ours_found = theirs_found = 0
    missed: list[str] = []
    for question in questions:
        who = question.user_id or user
        answer = client.retrieve(
            question.agent_id or agent, question.question, user_id=who, top_k=FOUND, touch=False, filters={"kinds": ["memory", *KINDS]}
        )
        here = _among(question, [node.description for node in answer.retrieved_nodes])
        there = theirs is not None and _among(question, theirs(question.question, who, FOUND))
        ours_found, theirs_found = ours_found + here, theirs_found + there
        if not here and (there or theirs is None):
            missed.append(question.question)
    count = len(questions)
    return Compared(
        questions=count,
        among_first=FOUND,
        ours=round(ours_found / count, 4),
        theirs=None if theirs is None else round(theirs_found / count, 4),
        missed=missed[:50],
    )


def _among(question: Question, texts: Sequence[str]) -> bool:
    found = [_plain(text) for text in texts]
    return any(_plain(word) in text for word in question.words for text in found)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
