"""Requests and answers of the commands on what is remembered of conversations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AliasChoices, AwareDatetime, BaseModel, Field, model_validator

from jiyi.protocol.base import (
    DEFAULT_PAGE,
    POIGNANCY,
    ById,
    Description,
    ForUser,
    Keyword,
    Keywords,
    Metadata,
    Name,
    PageSize,
    Poignancy,
    Request,
    UserId,
    Visibility,
)
from jiyi.protocol.conversations import (
    MAX_MESSAGES,
    MAX_URI_CHARS,
    ChatMessage,
    CombinedExtraction,
    Kind,
    Message,
    parse_uri,
    uri_of,
)
from jiyi.protocol.origins import ORIGIN_DESCRIPTION, Claimed, Origin, Trust
from jiyi.protocol.retrieval import FocalText

#: Characters of a regular expression, and seconds that a search by one may take.
MAX_PATTERN_CHARS, GREP_SECONDS = 200, 2.0
#: Levels of a tree, and memories of one import.
MAX_DEPTH, MAX_IMPORTED = 10, 1_000
DEFAULT_FOUND = 10
#: Type and category of a memory that is stored without one.
MEMORY_TYPE: Kind = "knowledge"
CATEGORY = "general"

#: L0: keywords; L1: an overview; L2: the whole text.
Level = Literal["L0", "L1", "L2"]


def _is_address(uri: str) -> str:
    parse_uri(uri)
    return uri


def _has_a_category(uri: str) -> str:
    place = parse_uri(uri)
    if place.kind is None or not place.path:
        raise ValueError(f"{uri!r} names no category: use agent://agent/kind/category")
    return uri


Uri = Annotated[str, Field(max_length=MAX_URI_CHARS), AfterValidator(_is_address)]
EntryUri = Annotated[str, Field(max_length=MAX_URI_CHARS), AfterValidator(_has_a_category)]


class MemoryEntryInput(Request):
    """A text to be stored at an address: of an agent, a type and a category, or given verbatim."""

    agent_id: Name | None = Field(None, description="The agent; with a `uri` that says it.")
    uri: EntryUri | None = Field(None, description="The address; else by agent_id, memory_type, category.")
    content: Description
    memory_type: Kind = MEMORY_TYPE
    category: Name = CATEGORY
    keywords: Keywords | None = None
    importance: Poignancy = 5
    metadata: Metadata = Field({})
    user_id: UserId | None = Field(None, description="Which of the agent's users said it; only they see it.")
    visibility: Visibility | None = Field(None, description="`agent` if others see it, too. Needs user_id.")
    origin: Claimed | None = Field(None, description=ORIGIN_DESCRIPTION)

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.uri is None) == (self.agent_id is None):
            raise ValueError("agent_id: give either this, with memory_type and category, or a uri")
        if self.uri is not None and (self.memory_type, self.category) != (MEMORY_TYPE, CATEGORY):
            raise ValueError("uri: says type and category itself; leave memory_type and category out")
        return self

    @property
    def address(self) -> str:
        """Where it is stored."""
        return self.uri or uri_of(self.agent_id or "", self.memory_type, self.category)


class SearchOptions(Request, ForUser):
    """What is looked for among an agent's memories of conversations."""

    agent_id: Name
    query: Annotated[FocalText, Field(max_length=8_000)]
    memory_type: Kind | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = DEFAULT_FOUND
    min_importance: Poignancy | None = None


class MemoryStats(BaseModel):
    """What is remembered of conversations."""

    total: int
    by_type: dict[str, int]
    by_agent: dict[str, int]
    superseded: int
    oldest: datetime | None
    newest: datetime | None
    size_bytes: int


class JudgeTurn(ById):
    """What a person says of a turn: whether an assistant should still know it in a later conversation."""

    lasting: bool | None = Field(description="Whether it is worth remembering; `null` takes that back.")


class LabelledTurn(BaseModel):
    """A row of `facts_<writer>.jsonl`, from which `python -m tools.train` learns what to remember."""

    id: UUID
    language: Literal["en", "zh"]
    #: What was said right before by somebody else, or nothing.
    before: str
    text: str
    lasting: bool
    #: Of what was remembered of it.
    attribute: str | None
    kind: Kind | None
    subject: str | None


class PersistentMemory(BaseModel):
    """A memory from elsewhere, or from an export: those fields of a memory that can be given."""

    node_id: UUID | None = None
    agent_id: Name
    kind: Kind = Field(validation_alias=AliasChoices("kind", "memory_type"))
    uri: EntryUri | None = None
    description: Description = Field(validation_alias=AliasChoices("description", "content"))
    keywords: Keywords | None = None
    poignancy: Poignancy | None = Field(None, validation_alias=POIGNANCY)
    created_at: AwareDatetime | None = None
    abstract: str | None = Field(None, max_length=500)
    overview: str | None = Field(None, max_length=2_000)
    provenance: Metadata = Field({}, validation_alias=AliasChoices("provenance", "metadata"))
    user_id: UserId | None = Field(None, description="Which of the agent's users said it; only they see it.")
    visibility: Visibility | None = Field(None, description="`agent` if others see it, too. Needs user_id.")
    origin: Origin = Field(
        "import", description="Where it came from; what is the service's counts as `import`."
    )
    trust: Trust | None = Field(None, description="How far it is trusted, if less than its origin is: 0 … 1.")

    @model_validator(mode="after")
    def _address_is_its_own(self) -> Self:
        if self.uri is not None and parse_uri(self.uri)[:2] != (self.agent_id, self.kind):
            raise ValueError(
                f"uri: {self.uri!r} is no address of the agent {self.agent_id!r} and the kind {self.kind}"
            )
        return self


class ImportMemories(Request):
    """Memories to be stored; those that are there already are passed over."""

    memories: Annotated[list[PersistentMemory], Field(min_length=1, max_length=MAX_IMPORTED)]


class FindOptions(Request, ForUser):
    """What is looked for, below an address."""

    query: Annotated[FocalText, Field(max_length=8_000)]
    scope: Uri = Field(description="An agent's address, or one below it.")
    limit: Annotated[int, Field(ge=1, le=100)] = DEFAULT_FOUND


class GrepOptions(Request, ForUser):
    """A regular expression (PostgreSQL's) that texts below an address are searched for."""

    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARS)
    uri: Uri
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


class ResourceUri(Request):
    uri: Uri


class ListResources(Request, ForUser):
    """Which address, how many levels below it, and for whom."""

    uri: Uri
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] = 1


class Resource(BaseModel):
    """A name below an address; ``memories`` is how many are at it or below it."""

    uri: str
    name: str
    memories: int
    children: list[Resource] = []


class ReadOptions(Request, ForUser):
    """What is read of an address; a level that is missing is made of the next deeper one."""

    uri: EntryUri
    level: Level = "L2"
    limit: PageSize = DEFAULT_PAGE


class ResourceText(BaseModel):
    node_id: UUID
    uri: str | None
    level: Level
    text: str


class StorageStatus(BaseModel):
    """Where what is remembered is kept, and whether it can be read, searched by meaning and summarised."""

    path: str = Field(description="Host and name of the database.")
    memories: int
    embedded: int
    embedder: str | None
    llm: str
    waiting: dict[str, int] = Field(description="Pending work, by kind.")


class IndustryWords(Request):
    """Words of a trade, each with words of the same meaning; they replace those of the same industry."""

    industry: Name
    keywords: dict[Keyword, Annotated[list[Keyword], Field(fail_fast=True)]] = Field(max_length=1_000)


class ConfigureSummaries(Request):
    """The LLM that summaries are to be made by; its key stays in the environment and is not sent."""

    provider: Name
    model: Name | None = None


class DriverState(BaseModel):
    """Whether it is in use, and what has to be set where it is not."""

    active: bool
    in_use: str
    how: str = ""


class ExtractMessages(Request):
    """A conversation from which something is extracted."""

    agent_id: Name
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    session_id: Name | None = None
    user_id: UserId | None = Field(None, description="With which user of the agent.")


class Fact(BaseModel):
    """An extracted memory under the session commands' categories."""

    category: str
    content: str
    tags: list[str]
    importance: float
    suggested_uri: str
    #: In the words of the facts store: preference, knowledge or behavior.
    fact: Literal["preference", "knowledge", "behavior"]


class SessionMemories(BaseModel):
    """What was extracted from the conversation, without storing it."""

    items: list[Fact]
    extraction: CombinedExtraction
    llm: str


#: Prompts that can be shown for a session: of others, the parameters are more than a session.
PromptName = Literal[
    "extraction",
    "experiences",
    "compaction",
    "planning",
    "memo",
    "summary",
    "poignancy",
    "triple",
    "keywords",
]


class ShowPrompts(Request):
    """Which prompt, for which session."""

    name: PromptName = Field(
        description=(
            "The prompt's name; `summary`, `poignancy`, `triple` and `keywords` are asked about the last"
            " turn."
        )
    )
    agent_id: Name
    session_id: Name
    user_id: UserId | None = Field(None, description="With which user of the agent.")


class ShownPrompt(BaseModel):
    """One question, as it would be sent; `tokens` are estimated."""

    prompt: str = Field(description="Name and version, as results record it.")
    tokens: int
    messages: list[ChatMessage]
    answer: dict[str, Any] = Field(description="JSON schema of the answer.")


class StoredSession(BaseModel):
    """The turns that were stored; their extraction by a worker is pending."""

    turn_ids: list[UUID]
    new: int


class EmbedText(Request):
    text: str = Field(min_length=1, max_length=100_000)
    provider: Name | None = None


class EmbeddedText(BaseModel):
    """A vector, and the pieces that the text would be stored in with their keywords."""

    model: str
    vector: list[float]
    pieces: list[dict[str, Any]] = []
