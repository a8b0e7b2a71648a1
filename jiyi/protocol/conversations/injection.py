"""What is put before an answer: asked for by a chat program, or by a command."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field

from jiyi.protocol.base import Name, Request
from jiyi.protocol.conversations.types import Intent, Kind

Format = Literal["markdown", "compact", "json", "template"]

#: Tokens of what is injected, unless told otherwise, and at most.
BUDGET, MAX_BUDGET = 2_000, 100_000
#: Characters of a prompt of one's own, and of what the user says (more is not looked at).
MAX_PROMPT_CHARS, MAX_INPUT_CHARS = 1_000_000, 400_000
MAX_TEMPLATE_CHARS = 20_000


class ContextRequest(Request):
    """What of the agent's memory belongs before the answer to a query?"""

    agent_id: Name
    query: str = Field(max_length=MAX_INPUT_CHARS, description="What the user says.")
    max_tokens: int = Field(BUDGET, ge=1, le=MAX_BUDGET, description="Most tokens of the context, its headings included.")
    format: Format = "markdown"
    template: str | None = Field(
        None,
        max_length=MAX_TEMPLATE_CHARS,
        description="For the format `template`: a text with {{preferences}}, {{knowledge}}, {{experience}}, {{session}}, {{profile}}.",
    )
    session_id: Name | None = Field(None, description="The conversation that goes on: its own turns are not repeated.")
    user_id: Name | None = Field(None, description="Whose profile is shown; the agent's own unless given.")
    now: AwareDatetime | None = Field(None, description="The agent's present, if it lives in simulated time.")
    note: bool = Field(True, description="Whether it is noted what was injected, and why.")


class InjectRequest(ContextRequest):
    """The same, with the prompt that it goes into."""

    base_prompt: str = Field("", max_length=MAX_PROMPT_CHARS)


class InjectedMemory(BaseModel):
    """A memory in the context; ``turn_ids`` are the turns that it is shown in place of, or that is shown in place of it."""

    node_id: UUID
    kind: Kind
    content: str
    created_at: datetime
    tokens: int
    score: float
    turn_ids: list[UUID] = []
    #: It is shown as what was once so.
    superseded_at: datetime | None = None
    why: str = ""


class InjectedContext(BaseModel):
    """The context, and what is in it, in its order; empty if nothing was found or fits."""

    context: str
    tokens: int
    intent: Intent
    memories: list[InjectedMemory]
    injection_id: UUID | None = None
    #: The prompt with the context; unchanged if there is none.
    prompt: str = ""
