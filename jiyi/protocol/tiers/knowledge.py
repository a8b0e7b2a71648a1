"""Long-term knowledge: promote, demote, edit it; and lists of what is in any tier.

Bodies and requests have no group: it is the actor's. Every change leaves an audit row; nothing is overwritten.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from jiyi.protocol.events import NOT_BLANK, Name
from jiyi.protocol.queries import DEFAULT_PAGE, PageSize, Request, Rows, TimeAndId
from jiyi.protocol.tiers.quarantine import MAX_IDS, Reason, Text
from jiyi.protocol.tiers.query import Kind
from jiyi.text.splitting import MOST_SIZE

Layer = Literal["quarantine", "working", "longterm"]
LayerFilter = Literal["all", "quarantine", "working", "longterm"]

MAX_OFFSET = 10_000


class PromoteBody(Request):
    """Make knowledge of quarantined entries, or of a text; or of a text that says what the entries do.

    ``preview`` only shows the pieces that it would be split into.
    """

    entry_ids: Annotated[list[UUID], Field(max_length=MAX_IDS)] = Field(
        [], description="Entries of quarantine, by their ids; with a text those that it stands for."
    )
    text: Text | None = Field(None, description="What is to be known, in your own words; the entries' own unless given.")
    agent_id: Name | None = Field(None, description="Who is to know it; the whole group unless given.")
    kind: Kind = Field("statement", description="`verdict`: it decides something.")
    note: Reason = Field("", description="Why; for the history.")
    preview: bool = Field(False, description="Only show the pieces that it would be split into; nothing is stored.")

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if not self.entry_ids and self.text is None:
            raise ValueError("entry_ids: name entries of quarantine, or give a text")
        return self


class Piece(BaseModel):
    """A piece as it is, or would be, stored. ``known``: the group knew it already, and keeps it as it was."""

    content: str
    tokens: int
    knowledge_id: UUID | None = None
    known: bool = False


class Promoted(BaseModel):
    pieces: list[Piece]
    #: Entries that are marked as promoted now, and those that were already.
    entries: list[UUID] = []
    already: list[UUID] = []
    promoted_at: datetime | None = None


class DemoteBody(Request):
    """Take knowledge back: it is not retrieved any more, but stays with its history."""

    knowledge_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_IDS)] = Field(description="Which knowledge.")
    reason: Reason = Field("", description="Why; for the history.")


class EditBody(Request):
    """Put knowledge into other words: a new version takes the place of the old one, which stays as history."""

    content: Annotated[str, Field(pattern=NOT_BLANK, max_length=MOST_SIZE)] = Field(description="The new words.")
    reason: Reason = Field("", description="Why; for the history.")


class EditKnowledge(EditBody):
    """Which knowledge is to be put into other words."""

    knowledge_id: UUID


class Demoted(BaseModel):
    """What was in force, and is not any more."""

    demoted: list[UUID]


class CurrentVersion(BaseModel):
    """The version of an edited piece that is in force."""

    knowledge_id: UUID


class KnowledgeFilter(Request):
    """What a session, or the whole group, has in its tiers, newest first."""

    layer: LayerFilter = "all"
    session_id: Name | None = None
    #: Words that must occur.
    q: Annotated[str, Field(max_length=200)] = ""
    #: Of quarantine: only what these filters kept out of working memory.
    reason: Annotated[str, Field(max_length=40)] | None = None
    limit: PageSize = DEFAULT_PAGE
    offset: int = Field(0, ge=0, le=MAX_OFFSET)


class Knowledge(BaseModel):
    """An entry of any tier."""

    entry_id: str
    layer: Layer
    content: str
    group_id: str
    session_id: str | None = None
    agent_id: str | None = None
    node_id: str | None = None
    node_type: str | None = None
    kind: Kind = "statement"
    confidence: float | None = None
    flags: list[str] = []
    verified: bool = False
    created_at: datetime
    expires_at: datetime | None = None
    promoted_at: datetime | None = None
    #: Why it did not become working memory.
    rejected: str | None = None
    metadata: dict[str, Any] = {}


class KnowledgePage(BaseModel):
    rows: list[Knowledge]
    #: Entries in each layer that the filter lets through, whatever the page.
    counts: dict[Layer, int] = {}
    next: int | None = None


class TiersWanted(KnowledgeFilter):
    """The same, older than the page before."""

    before: TimeAndId | None = None


class TiersPage(Rows[Knowledge]):
    """A page, with the entries in each layer that the filter lets through and who asks may see."""

    counts: dict[Layer, int]


class HistoryQuery(Request):
    """What became of this knowledge, oldest first?"""

    knowledge_id: UUID


class Change(BaseModel):
    """``promoted``, ``demoted`` or ``edited``, by whom, and what the knowledge said before and after."""

    action: str
    actor: str
    at: datetime
    reason: str = ""
    before: str | None = None
    after: str | None = None
