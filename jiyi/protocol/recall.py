"""The verbs of one memory and of an agent's whole memory: get, list, update, and the text that goes into a
prompt.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from uuid6 import uuid7

from jiyi.protocol.base import (
    AS_OF_DESCRIPTION,
    POIGNANCY,
    SUPERSEDED,
    SUPERSEDED_DESCRIPTION,
    AsOf,
    ById,
    Description,
    ForUser,
    Keyword,
    Keywords,
    Metadata,
    Moment,
    Name,
    NodeType,
    Paged,
    Part,
    Poignancy,
    Request,
    UserId,
    Visibility,
)
from jiyi.protocol.conversations import (
    BUDGET,
    CONTEXT_KINDS,
    KINDS_DESCRIPTION,
    MAX_BUDGET,
    InjectedSkill,
    Intent,
    Kind,
    Kinds,
    RecalledEarlier,
)
from jiyi.protocol.memory import MAX_SEARCH_CHARS, MemoryBrief
from jiyi.protocol.origins import BySource
from jiyi.protocol.retrieval import Answer, FocalText
from jiyi.zones import TZ_DESCRIPTION, TimeZone

#: Whether archived memories are among those that are listed.
Archived = Literal["without", "with", "only"]
#: Characters of a reason.
MAX_REASON_CHARS = 1_000


class ListMemories(Paged, ForUser, BySource):
    """Memories, newest first; all that is given must hold."""

    agent_id: Name | None = Field(None, description="Only this agent's; the whole group's unless given.")
    types: list[NodeType] = Field([], fail_fast=True, description="Only these types.")
    kinds: Kinds = Field([*CONTEXT_KINDS], description=KINDS_DESCRIPTION)
    words: Annotated[str, Field(max_length=MAX_SEARCH_CHARS)] = Field(
        "", description="Only with all of these words, or this text."
    )
    keyword: Keyword | None = Field(None, description="Only with this keyword.")
    session_id: Name | None = Field(None, description="Only of this session.")
    from_user: Name | None = Field(None, description="Only what this user said, without what others shared.")
    created_after: Moment | None = Field(None, description="Only what happened at this time or later.")
    created_before: Moment | None = Field(None, description="Only what happened before this time.")
    superseded: bool = Field(False, validation_alias=SUPERSEDED, description=SUPERSEDED_DESCRIPTION)
    archived: Archived = Field(
        "without", description="Whether archived memories are listed: `with` the others, or `only` they."
    )
    as_of: AsOf | None = Field(None, description=AS_OF_DESCRIPTION)


class UpdateMemory(ById, ForUser, use_attribute_docstrings=True):
    """What a memory says from now on. What is not given stays as it was.

    Of a triple and keywords what the old description says and the new one no longer does is left out.
    """

    description: Description | None = Field(None, description="The corrected text.")
    poignancy: Poignancy | None = Field(None, validation_alias=POIGNANCY)
    """How much it matters, 1 … 10."""
    keywords: Keywords | None = Field(None, description="Words to be found by.")
    subject: Part | None = None
    predicate: Part | None = None
    object: Part | None = None
    expires_at: Moment | None = Field(None, description="When it is no longer to be remembered.")
    visibility: Visibility | None = None
    """Visibility: `user` (only its user) or `agent` (all users of the agent)."""
    provenance: Metadata | None = Field(None, description="Where it comes from.")
    occurred_at: Moment | None = None
    """Since when it is so, if that has changed; unless given, when the older version happened."""
    event_id: UUID = Field(default_factory=uuid7)
    """Id of the new version: the same update sent twice counts once."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set - {"id", "event_id", "occurred_at", "user_id"}:
            raise ValueError("description: give this, or another field that is to change")
        return self


class AddMemory(Request):
    """A memory that somebody adds by hand."""

    agent_id: Name = Field(description="The agent.")
    description: Description = Field(description="What happened, or is so: one statement.")
    poignancy: Poignancy | None = Field(None, description="How much it matters, 1 … 10.")
    event_id: UUID = Field(default_factory=uuid7, description="Its id: the same sent twice counts once.")


class Updated(BaseModel):
    """Which version of a memory is current now; an older one stays, dated, and is found only on request."""

    node_id: UUID = Field(description="The version that is current.")
    supersedes: UUID | None = Field(None, description="The version before it, if it is new.")
    superseded_at: datetime | None = Field(None, description="Since when the version before is not current.")
    superseded_by: UUID | None = Field(None, description="What had superseded it wrongly, if it is so again.")


class ForgetWhatWasSaid(Request, ForUser):
    """What a user wants to have forgotten, in words."""

    agent_id: Name
    text: FocalText = Field(description="What is to be forgotten: `my phone number`, 我的地址.")
    every: bool = Field(False, description="Whether all that fits is to go; else it is asked which.")


class Forgotten(BaseModel, use_attribute_docstrings=True):
    """What is being erased, with its report (`erasure_id`); or, where nothing is clear, what it could be."""

    answer: str
    """What was done, or is to be asked back, in a sentence to pass on, in the language of the request."""
    erasure_id: UUID | None = None
    forgotten: list[MemoryBrief] = []
    """The turns that said it; `description` is what goes of each."""
    asks: list[MemoryBrief] = []
    """Several things fit: name one of them in its own words, or give `every`."""


class ReinstateMemory(ById):
    """Make a memory current again that was superseded by mistake."""

    user_id: UserId | None = Field(None, description="Whose it has to be, if one is given.")
    reason: str | None = Field(
        None, max_length=MAX_REASON_CHARS, description="Why the supersession was a mistake; kept with it."
    )


class Mistake(BaseModel):
    """A row of `changes_<writer>.jsonl`, from which `python -m tools.train` learns what ends what."""

    id: UUID
    language: Literal["en", "zh"]
    older: str
    newer: str
    #: ``adds`` of the same attribute, ``unrelated`` of none or another one: the newer did not end the older.
    label: Literal["adds", "unrelated"]


class RecallRequest(Request, ForUser, BySource):
    """What of an agent's memory belongs into a prompt about something?"""

    agent_id: Name
    query: FocalText = Field(description="What the prompt is about: what the user says, or what goes on.")
    max_tokens: int = Field(BUDGET, ge=1, le=MAX_BUDGET, description="Most tokens of the text.")
    kinds: Kinds = Field(
        [*CONTEXT_KINDS, "session"], description=f"{KINDS_DESCRIPTION} Of turns those of people."
    )
    session_id: Name | None = Field(None, description="Only this session.")
    superseded: bool = Field(False, validation_alias=SUPERSEDED, description=SUPERSEDED_DESCRIPTION)
    now: Moment | None = Field(None, description="The agent's present, if it lives in simulated time.")
    tz: TimeZone | None = Field(None, description=TZ_DESCRIPTION)
    as_of: AsOf | None = Field(None, description=f"{AS_OF_DESCRIPTION} Nothing counts as accessed.")
    touch: bool = Field(True, description="Whether what is returned counts as accessed.")


class PromptLine(MemoryBrief, use_attribute_docstrings=True):
    """A memory that stands in a prompt, in these words, with what the prompt made of it."""

    kind: Kind | None = None
    """Its kind; in a conversation's prompt, the heading that it stands below."""
    tokens: int = Field(description="Of its line.")
    score: float
    seen: int = 1
    """How many of the memories found say this, in these words or nearly: one line, of the latest."""
    turn_ids: list[UUID] = Field([])
    """The turns that it is shown in place of, or that are shown in place of it."""
    superseded_at: datetime | None = Field(None, description="It is shown as what was once so.")
    why: str = ""


class RecalledContext(BaseModel):
    """The text, a dated line a memory, the most important first; empty if nothing was found or fits."""

    text: str
    tokens: int
    memories: list[PromptLine]
    message: str = Field("", description="Why there are none, and what the filters left out.")


class InjectedContext(BaseModel):
    """The context of a conversation, and what is in it, in its order; empty if nothing was found or fits."""

    context: str
    tokens: int
    intent: Intent
    memories: list[PromptLine]
    injection_id: UUID | None = None
    #: The prompt with the context; unchanged if there is none.
    prompt: str = ""
    #: With ``split``: what stays the same through the session, with the program's own prompt where that was
    #: given.
    stable: str = ""
    #: What was recalled for this message.
    recalled: str = ""
    #: What was recalled for the session's earlier messages, oldest first.
    earlier: list[RecalledEarlier] = []
    skills: list[InjectedSkill] = []


class ReturnedMemory(BaseModel):
    """A memory that was returned. They stand in the order of their ranks."""

    node_id: UUID
    score: float
    #: Its first characters; None if it is no longer there.
    description: str | None


class RetrievalRecord(BaseModel):
    """One retrieval. Long questions are cut; of each the best memories are kept."""

    retrieval_id: UUID
    agent_id: str
    asked_at: datetime
    #: As in the audit log: ``key:a1b2c3d4 (crawler)``, ``user:mia``, ``operator``.
    asked_by: str
    queries: list[str]
    #: Of the request, as far as they differ from the defaults.
    options: dict[str, Any]
    #: Milliseconds that the worker took.
    ms: float
    #: How many memories each focal text returned; ``results`` may hold fewer.
    found: list[int]
    #: For each focal text, best first.
    results: list[list[ReturnedMemory]]


class AskedAgain(BaseModel):
    """A past retrieval, asked again of what was known then and of what is known now."""

    record: RetrievalRecord
    then: Answer
    now: Answer
    same: bool = Field(description="Whether `then` has what was returned, less what was erased since.")
    notes: list[str] = Field(description="Parts of the original request that could not be repeated.")
