"""Experiences: a problem, what was done about it and how that ended; requests and answers of the actions on
them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, model_validator

from jiyi.chat.secrets import masked
from jiyi.protocol.base import ById, ForUser, Fraction, Name, Paged, Request, UserId
from jiyi.protocol.conversations import MAX_CONTENT_CHARS, MAX_STEPS, PROFILE_ENTRIES, Content, Outcome, Word

Steps = Annotated[list[Content], Field(max_length=MAX_STEPS)]
Tools = Annotated[list[Word], Field(max_length=PROFILE_ENTRIES)]
Context = Annotated[str, Field(max_length=MAX_CONTENT_CHARS), AfterValidator(masked)]


class Experience(BaseModel):
    """A problem, what was done about it, how that ended, and how often that was used since."""

    id: UUID = Field(description="Of the memory that describes it.")
    agent_id: str
    pain_pattern: str = Field(description="The problem.")
    context: str
    solution_steps: list[str]
    outcome: Outcome
    confidence: float
    reuse_count: int = Field(description="How often it was extracted again, or put before an answer.")
    tools_used: list[str]
    industry_context: str | None
    created_at: datetime
    updated_at: datetime


class TellExperience(Request):
    """An experience; of a problem that is known it is merged with what is known."""

    agent_id: Name
    pain_pattern: Content = Field(description="The problem: the same words are the same problem.")
    context: Context = ""
    solution_steps: Steps = Field([])
    outcome: Outcome
    confidence: Fraction = 0.8
    tools_used: Tools = Field([])
    industry_context: Word | None = None
    user_id: UserId | None = Field(None, description="Which of the agent's users said it; only they see it.")


class ListExperiences(Paged, ForUser):
    """The next page of an agent's experiences."""

    agent_id: Name
    words: str | None = Field(None, max_length=MAX_CONTENT_CHARS, description="Words that the problem has.")
    outcome: Outcome | None = None


class UpdateExperience(ById):
    """What an experience says from now on; what is not given stays as it was."""

    pain_pattern: Content | None = None
    context: Context | None = None
    solution_steps: Steps | None = None
    outcome: Outcome | None = None
    confidence: Fraction | None = None
    tools_used: Tools | None = None
    industry_context: Word | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.changes:
            raise ValueError("id: give what is to change as well, such as solution_steps or outcome")
        return self

    @property
    def changes(self) -> dict[str, object]:
        return {
            name: value
            for name in self.model_fields_set - {"id"}
            if (value := getattr(self, name)) is not None
        }
