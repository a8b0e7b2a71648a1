"""Questions on a single memory: how important it is, its triple, its keywords."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from engine.providers.llms.questions.base import MAX_KEYWORDS, Question, ShortName


class Poignant(BaseModel):
    #: 1 (brushing teeth) … 10 (a break-up).
    poignancy: int = Field(ge=1, le=10, strict=True)


class Poignancy(Question[Poignant]):
    """How poignant is what happened for the agent?"""

    prompt: ClassVar[str] = "poignancy"
    answer: ClassVar[type[BaseModel]] = Poignant

    kind: Literal["event", "thought", "chat"] = "event"
    text: str
    #: Who the agent is, where that is known.
    about: str = ""


class Facts(BaseModel):
    subject: ShortName
    predicate: ShortName
    object: ShortName


class Triple(Question[Facts]):
    """Who does what to whom, in three parts?"""

    prompt: ClassVar[str] = "triple"
    answer: ClassVar[type[BaseModel]] = Facts

    text: str


class KeywordList(BaseModel):
    keywords: list[ShortName] = Field(max_length=MAX_KEYWORDS)


class Keywords(Question[KeywordList]):
    """Which words would one look for this under?"""

    prompt: ClassVar[str] = "keywords"
    answer: ClassVar[type[BaseModel]] = KeywordList

    text: str
