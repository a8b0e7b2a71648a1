"""Memories, the agents whose they are, and the archive: questions and answers.

Every list, retrieval and page of a memory has the fields of :class:`Memory`; those that are columns of
``memory_nodes`` are read by each SELECT of memories (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_serializer, model_validator

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.base import (
    DEFAULT_PAGE,
    ByIds,
    ForUser,
    JsonObject,
    Name,
    NodeType,
    Paged,
    PageSize,
    Poignancy,
    Request,
    UserId,
    Visibility,
)
from jiyi.protocol.conversations import Kind, Profile
from jiyi.protocol.origins import DEFAULT_ORIGIN, TRUST, Origin, Trust

#: Characters that a text search may have.
MAX_SEARCH_CHARS = 500
#: Most memories that one request archives, restores, rates or exports by id.
MAX_RESTORED = 1_000


class MemoryBrief(BaseModel):
    """A memory where a page, a tree or a prompt names it."""

    node_id: UUID
    type: NodeType
    kind: Kind | None = Field(None, description="Of what was taken from conversations: which kind it is.")
    created_at: datetime
    description: str


class Memory(MemoryBrief, use_attribute_docstrings=True):
    """A stored memory, with everything but its vector. Lists cut its texts to 4,000 characters."""

    agent_id: str
    session_id: str | None
    user_id: str | None = Field(None, description="The user of the agent whom it comes from.")
    visibility: Visibility | None = None
    """Who sees it; null: the user whom it comes from, or all if that is nobody."""
    origin: Origin = Field(DEFAULT_ORIGIN, description="Where it comes from.")
    trust: Trust = TRUST[DEFAULT_ORIGIN]
    """How far it is trusted, 0 … 1: at most as far as what it rests on."""
    node_count: int = Field(description="Its number within its agent, from 1.")
    type_count: int = Field(description="Its number within its agent's memories of its type, from 1.")
    poignancy: float | None = Field(description="Importance, 1 … 10; null while it is not known.")
    depth: int = Field(description="Of a thought: how many levels of evidence it rests on.")
    subject: str | None
    predicate: str | None
    object: str | None
    keywords: list[str]
    filling: list[Any]
    """Ids of the memories it rests on, or of a conversation [speaker, text] pairs."""
    provenance: dict[str, Any]
    uri: str | None = Field(None, description="Its address, if it has a kind.")
    abstract: str | None = Field(None, description="It in three to five keywords (L0).")
    overview: str | None = Field(None, description="It in one or two sentences (L1).")
    is_idle: bool
    embedding_key: str
    embedding_model: str | None
    """Null until the memory is embedded. Until then it is found by its words alone."""
    stored_at: datetime
    expires_at: datetime | None
    superseded_by: UUID | None = Field(None, description="The newer memory that corrects or contradicts it.")
    superseded_at: datetime | None = Field(None, description="When that was said, or corrected.")
    archived_at: datetime | None
    archived_reason: str | None = Field(None, description="`expired`, `faded`, or `chosen` by somebody.")
    last_accessed: datetime | None
    access_count: int | None = None
    """How often it was returned; retrievals do not look it up."""
    dimensions: int | None = Field(None, description="Of its vector; only of one memory by its id.")
    supersedes: list[UUID] = []
    """The older memories that it corrects or contradicts; only of one memory by its id."""
    recent: list[datetime] | None = None
    """Its last accesses, oldest first; only of one memory by its id."""

    @property
    def evidence(self) -> list[UUID]:
        """Ids of the memories that it rests on."""
        return evidence_of(self.filling)


def evidence_of(filling: Iterable[Any]) -> list[UUID]:
    """The ids in a memory's ``filling``, which in a conversation holds what was said."""
    ids = []
    for entry in filling:
        with suppress(ValueError, TypeError, AttributeError):
            ids.append(UUID(entry))
    return ids


class KeywordsQuery(Paged, ForUser):
    """Which keywords."""

    agent_id: Name = Field(description="Whose keywords.")


class ExportQuery(Paged):
    """Events as they came, in order of arrival, with the vectors and importance given since."""

    agent_id: Name | None = None
    user_id: UserId | None = Field(None, description="Of this user's memories only.")
    node_ids: list[UUID] | None = Field(
        None, min_length=1, max_length=MAX_RESTORED, description="Of these memories only."
    )
    with_vectors: bool = False


class ConfigureAgent(AgentSettings):
    """Settings that replace an agent's own; null takes one back to the deployment's."""

    agent_id: Name

    @model_serializer
    def _as_given(self) -> JsonObject:
        """A null has to be sent, what was not given must not be."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def settings(self) -> AgentSettings:
        """What is given."""
        return AgentSettings.model_construct(
            **{name: getattr(self, name) for name in self.model_fields_set - {"agent_id"}}
        )


class AgentState(BaseModel):
    """An agent, its own settings, and how near its next reflection is."""

    agent_id: str
    settings: dict[str, Any] = Field(description="Its own settings; the others are the deployment's.")
    node_count: int = Field(description="Memories it ever had.")
    type_counts: dict[str, int]
    importance_trigger_curr: float = Field(description="Importance that is left until a reflection is due.")
    importance_ele_n: int = Field(description="Events since the last reflection.")
    created_at: datetime
    profile: Profile | None = Field(
        None, description="What conversations said about its user in general; only of one agent by its name."
    )


class KeywordStrength(BaseModel):
    keyword: str
    memory_type: Literal["event", "thought"]
    strength: int = Field(description="How many memories of this type have it.")


class RelatedQuery(Request, ForUser):
    """Keyword retrieval: events and thoughts that share a keyword with an event's triple."""

    agent_id: Name = Field(description="ID of the agent.")
    subject: Annotated[str, Field(max_length=500)] = ""
    predicate: Annotated[str, Field(max_length=500)] = ""
    object: Annotated[str, Field(max_length=500)] = ""
    limit: PageSize = Field(DEFAULT_PAGE, description="Most memories of each type.")


class Related(BaseModel):
    """Newest first."""

    events: list[Memory]
    thoughts: list[Memory]


class RateMemories(ByIds):
    """Memories that are to be of the same importance from now on."""

    importance: Poignancy = Field(description="How much each of them matters, 1 … 10.")


class RestoreRequest(Request):
    """Archived memories that are to come back: those named, or all of an agent's (a thousand at a time)."""

    ids: list[UUID] = Field(default_factory=list, max_length=MAX_RESTORED)
    agent_id: Name | None = None

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if bool(self.ids) == (self.agent_id is not None):
            raise ValueError("give either ids or agent_id")
        return self
