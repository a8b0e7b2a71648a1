"""What questions and their answers have in common."""

from __future__ import annotations

from typing import Annotated, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.conversations.types import Message
from jiyi.text.words import Language

A = TypeVar("A", bound=BaseModel)

#: Characters of any one text in an answer: a sentence or two, not an essay.
MAX_ANSWER_CHARS = 2_000
MAX_NAME_CHARS = 200
MAX_KEYWORDS = 8

Sentence = Annotated[str, Field(pattern=r"\S", max_length=MAX_ANSWER_CHARS)]
ShortName = Annotated[str, Field(pattern=r"\S", max_length=MAX_NAME_CHARS)]


class Question(BaseModel, Generic[A]):
    """One question; ``prompt`` names its prompt file, ``answer`` is the schema of what must come back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: ClassVar[str]
    answer: ClassVar[type[BaseModel]]

    agent_id: str
    language: Language = "en"
    #: Whose usage it counts as; the LLM is not told.
    group_id: str = ""

    def problems(self, answer: A) -> list[str]:  # noqa: ARG002 - for subclasses
        """What is wrong with an answer that fits the schema, seen against what was asked; empty if nothing."""
        return []


class OneSentence(BaseModel):
    sentence: Sentence


def too_many(field: str, given: int, wanted: int) -> list[str]:
    """What is wrong with so many entries of an answer's field."""
    return [f"{field}: {given} given, {wanted} asked for"] if given > wanted else []


def speaker(message: Message) -> str:
    """Who said it and when, as an LLM is shown it."""
    day = f", {message.at:%Y-%m-%d}" if message.at else ""
    return f"{message.name or message.role} ({message.role}{day})"
