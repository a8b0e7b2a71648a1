"""Changing what a group knows: ingest, promote, demote, edit; and looking at its tiers (CN-31, CN-34, CN-54, CN-55, K-22).

Each is a body, as the web takes it, and a request with its group. Every change leaves an audit row; nothing is overwritten.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from jiyi.protocol.events import MAX_OUTPUT_CHARS, NOT_BLANK, Flag, Name, small_enough
from jiyi.protocol.queries import DEFAULT_PAGE, PageSize, Query
from jiyi.protocol.retrieval import all_storable
from jiyi.protocol.tiers import Days, Item, Kind
from jiyi.text.splitting import MOST_SIZE

Layer = Literal["quarantine", "working", "longterm"]
LayerFilter = Literal["all", "quarantine", "working", "longterm"]

MAX_IDS = 100
MAX_REASON_CHARS = 1_000
MAX_OFFSET = 10_000

Text = Annotated[str, Field(pattern=NOT_BLANK, max_length=MAX_OUTPUT_CHARS)]
Why = Annotated[str, Field(max_length=MAX_REASON_CHARS)]
Metadata = Annotated[dict[str, Any], AfterValidator(small_enough)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _storable(self) -> Self:
        return all_storable(self)


class IngestBody(_Body):
    """A text for the group's memory (CN-54): into quarantine, and into working memory if the filters let it.

    What is to be known for good is promoted (:class:`PromoteBody`): that somebody sent it does not make it knowledge.
    """

    content: Text = Field(description="What was said, as it was said.")
    agent_id: Name | None = Field(None, description="Who said it; the node unless given.")
    session_id: Name | None = Field(None, description="The conversation or run that it belongs to.")
    node_id: Name = Field("ingest", description="The node of the workflow that it comes from.")
    confidence: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="How sure whoever said it is, 0 … 1; leave out if unknown."
    )
    flags: list[Flag] = Field([], max_length=20, description="Marks of a fact check, such as `refuted` or `verify_pending`.")
    metadata: Metadata = Field({}, description="Any small JSON object that is to be found again.")


class Ingested(BaseModel):
    """``accepted``: also in working memory; else ``reason`` and ``message`` say why not (CN-27)."""

    status: Literal["ingested"] = "ingested"
    entry_id: UUID
    accepted: bool
    reason: str | None = None
    message: str = ""
    flags: list[str] = []


class PromoteBody(_Body):
    """Make knowledge of quarantined entries, or of a text; or of a text that says what the entries do (CN-34, K-22).

    ``preview`` only shows the pieces that it would be split into.
    """

    entry_ids: Annotated[list[UUID], Field(max_length=MAX_IDS)] = Field(
        [], description="Entries of quarantine, by their ids; with a text those that it stands for."
    )
    text: Text | None = Field(None, description="What is to be known, in your own words; the entries' own unless given.")
    agent_id: Name | None = Field(None, description="Who is to know it; the whole group unless given (CN-32).")
    kind: Kind = Field("statement", description="`verdict`: it decides something.")
    note: Why = Field("", description="Why; for the history.")
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


class DemoteBody(_Body):
    """Take knowledge back: it is not retrieved any more, but stays with its history."""

    knowledge_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_IDS)] = Field(description="Which knowledge.")
    reason: Why = Field("", description="Why; for the history.")


class EditBody(_Body):
    """Put knowledge into other words: a new version takes the place of the old one, which stays as history."""

    content: Annotated[str, Field(pattern=NOT_BLANK, max_length=MOST_SIZE)] = Field(description="The new words.")
    reason: Why = Field("", description="Why; for the history.")


class EditKnowledge(EditBody):
    """Which knowledge is to be put into other words."""

    knowledge_id: UUID


class Demoted(BaseModel):
    """What was in force, and is not any more."""

    demoted: list[UUID]


class Edited(BaseModel):
    """The version that is in force from now on."""

    knowledge_id: UUID


class KnowledgeFilter(_Body):
    """What a session, or the whole group, has in its tiers, newest first (CN-55)."""

    layer: LayerFilter = "all"
    session_id: Name | None = None
    #: Words that must occur.
    q: Annotated[str, Field(max_length=200)] = ""
    #: Of quarantine: only what these filters kept out of working memory.
    reason: Annotated[str, Field(max_length=40)] | None = None
    limit: PageSize = DEFAULT_PAGE
    offset: int = Field(0, ge=0, le=MAX_OFFSET)


class Knowledge(BaseModel):
    """An entry of any tier (CN-31)."""

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


class DigestBody(_Body):
    """Digest the group's quarantine now, without waiting for the weekly job (CN-38)."""

    days: Days = Field(7, description="Of the last so many days.")


class IngestRequest(IngestBody):
    group_id: Name


class KnowledgeQuery(KnowledgeFilter):
    group_id: Name


class DigestRequest(DigestBody):
    group_id: Name


class ScreenedQuery(Query):
    """What did the filters say of this entry? None until they have said something."""

    entry_id: UUID


class WorkingQuery(Query):
    """What is in working memory now, as agents find it?"""


class WorkingState(BaseModel):
    """``counts``: accepted, rejected (and by reason), fallen out, expired, since Valkey counts; ``rejections``: by reason,
    of all that is in quarantine."""

    rows: list[Item]
    counts: dict[str, int] = {}
    rejections: dict[str, int] = {}


class HistoryQuery(Query):
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


class DigestsQuery(Query):
    """The group's digests, newest first; ``before`` is the last page's smallest id. Or the one with this id."""

    digest_id: UUID | None = None
    before: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class DigestItem(BaseModel):
    """Entries that say similar things. ``entry_ids`` are what a promotion takes, the most central first."""

    number: int
    topic: str
    summary: str
    keywords: list[str] = []
    entry_ids: list[UUID]
    #: Of these, what the summary rests on.
    evidence: list[UUID] = []
    #: Sessions that said it: what several say is more than an echo.
    sessions: int = 1
    #: Of the entries, those that were promoted meanwhile.
    promoted: int = 0
    first_at: datetime
    last_at: datetime
    llm: str | None = None


class DigestState(BaseModel):
    """A digest. ``older`` entries were too many to look at, ``left_out`` ones are in clusters beyond those shown."""

    digest_id: UUID
    group_id: str
    since: datetime
    until: datetime
    entries: int
    older: int = 0
    left_out: int = 0
    created_at: datetime
    created_by: str
    items: list[DigestItem] = []


def ingest_event(request: IngestRequest) -> dict[str, Any]:
    """The ``node.executed`` event that a text for the group's memory is (CN-54)."""
    return {
        "type": "node.executed",
        "group_id": request.group_id,
        "agent_id": request.agent_id or request.node_id,
        "session_id": request.session_id,
        "payload": {
            "node_id": request.node_id,
            "output": request.content,
            "confidence": request.confidence,
            "flags": request.flags,
            "metadata": request.metadata,
        },
    }
