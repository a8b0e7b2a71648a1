"""Texts for quarantine and what the filters made of them; knowledge promoted, demoted, edited; digests.

The group is the actor's. Every change leaves an audit row; nothing is overwritten.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from uuid6 import uuid7

from jiyi.protocol.base import (
    NOT_BLANK,
    ById,
    Flag,
    Fraction,
    JsonObject,
    Metadata,
    Moment,
    Name,
    Paged,
    Request,
    Rows,
)
from jiyi.protocol.tier_questions import Days, Kind, Text, TierItem
from jiyi.text.splitting import MOST_SIZE

Layer = Literal["quarantine", "working", "longterm"]
LayerFilter = Literal["all", "quarantine", "working", "longterm"]

#: Entries, or pieces of knowledge, that one request may name.
MAX_IDS = 100
MAX_REASON_CHARS = 1_000

#: Flags of an output that the fact check, or the guard against runaway loops, has set.
VERIFY_PENDING, REFUTED, RUNAWAY = "verify_pending", "refuted", "runaway"
#: Somebody vouches for it: its claims are true, and it comes from no loop.
CHECKED = "checked"
#: Flags that the filters add; the LLM has found no contradiction in it.
UNSCORED, UNVERIFIED, CONSISTENT = "unscored", "unverified", "consistent"
#: Somebody has promoted it, or checked it and found it true. Nobody else can say so.
VERIFIED = "verified"

Ids = Annotated[list[UUID], Field(min_length=1, max_length=MAX_IDS)]
#: Why somebody did something, for the history and the audit log.
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS)]


class PromoteBody(Request):
    """Make knowledge of quarantined entries, or of a text; or of a text that says what the entries do.

    ``preview`` only shows the pieces that it would be split into.
    """

    entry_ids: Annotated[list[UUID], Field(max_length=MAX_IDS)] = Field(
        [], description="Entries of quarantine, by their ids; with a text those that it stands for."
    )
    text: Text | None = Field(None, description="The text to promote; without it, the entries' own.")
    agent_id: Name | None = Field(None, description="Who is to know it; the whole group unless given.")
    kind: Kind = Field("statement", description="`verdict`: it decides something.")
    reason: Reason = Field("", description="Why; for the history.")
    preview: bool = Field(False, description="Only show the pieces that it would become; nothing is stored.")

    @model_validator(mode="after")
    def _has_something(self) -> Self:
        if not self.entry_ids and self.text is None:
            raise ValueError("entry_ids: name entries of quarantine, or give a text")
        return self


class Piece(BaseModel):
    """A piece that is, or would be, stored. ``known``: the group has it already, and keeps it unchanged."""

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

    knowledge_ids: Ids = Field(description="Which knowledge.")
    reason: Reason = Field("", description="Why; for the history.")


class EditKnowledge(ById):
    """Put knowledge into other words: a new version takes the place of the old one, which stays."""

    content: Annotated[str, Field(pattern=NOT_BLANK, max_length=MOST_SIZE)] = Field(
        description="The new words."
    )
    reason: Reason = Field("", description="Why; for the history.")


class ListKnowledge(Paged, use_attribute_docstrings=True):
    """What a session, or the whole group, has in its tiers, newest first."""

    layer: LayerFilter = "all"
    """Only this tier. Quarantine needs the scope `admin`; without it `all` means the other two."""
    session_id: Name | None = Field(None, description="Only what this session said.")
    words: Annotated[str, Field(max_length=200)] = ""
    """Only texts with all of these words."""
    rejected: Annotated[str, Field(max_length=40)] | None = None
    """Only what this filter kept out of working memory: `low_confidence`, `too_short` …"""


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


class KnowledgePage(Rows[Knowledge]):
    """A page, with the number of each layer's entries that pass the filter and are visible to the caller."""

    counts: dict[Layer, int]


class Change(BaseModel):
    """``promoted``, ``demoted`` or ``edited``, by whom, and what the knowledge said before and after."""

    action: str
    actor: str
    at: datetime
    reason: str = ""
    before: str | None = None
    after: str | None = None


class KnowledgeDetail(BaseModel):
    """A piece of long-term memory, current or not, and what became of it."""

    knowledge_id: UUID
    content: str
    kind: Kind
    agent_id: str | None = Field(description="Null: the whole group's.")
    session_id: str | None
    created_at: datetime
    promoted_at: datetime
    demoted_at: datetime | None = Field(description="Null: it is current.")
    replaced_by: UUID | None = Field(description="The version that took its place.")
    embedded: str | None = Field(description="The model of its vector; null: it is found by its words only.")
    metadata: dict[str, Any]
    history: list[Change] = Field(description="Oldest first.")


class IngestBody(Request, use_attribute_docstrings=True):
    """A text for the group's memory: into quarantine, and into working memory if the filters let it.

    Long-term knowledge is promoted by people: sending a text does not make it knowledge.
    """

    content: Text = Field(description="What was said, as it was said.")
    agent_id: Name | None = Field(None, description="Who said it; the node unless given.")
    session_id: Name | None = Field(None, description="The conversation or run that it belongs to.")
    node_id: Name = Field("ingest", description="The node of the workflow that it comes from.")
    confidence: Fraction | None = None
    """How sure the speaker is, 0 … 1; leave out if unknown."""
    flags: list[Flag] = Field([], max_length=20)
    """Marks of a fact check, such as `refuted` or `verify_pending`."""
    metadata: Metadata = Field({}, description="Any small JSON object that is to be found again.")
    occurred_at: Moment | None = None
    """When it was said, with a time zone; now unless given."""
    event_id: UUID = Field(default_factory=uuid7)
    """Your own id, the entry's too: the same text sent twice with it counts once."""


class IngestState(BaseModel):
    """The text is in quarantine for good; whether it also is working memory, the filters say."""

    status: Literal["ingested"] = "ingested"
    entry_id: UUID = Field(description="Its id in quarantine; what promote_memory takes.")
    accepted: bool | None = Field(description="Whether it became working memory; null: not decided yet.")
    reason: str | None = Field(None, description="Which filter refused it: `low_confidence`, `duplicate` …")
    message: str = Field("", description="The same as a sentence.")
    flags: list[str] = Field([], description="What is noted of it: `unscored` came without a confidence …")


class DeleteEntries(Request):
    """Take entries of quarantine out of sight, and out of working memory."""

    entry_ids: Ids = Field(description="Which entries.")
    reason: Reason = Field("", description="Why; for the audit log.")


class CheckBody(Request):
    """What a check of entries came to: their claims are true, and no loop made them; or they are refuted."""

    entry_ids: Ids = Field(description="Which entries of quarantine.")
    verdict: Literal["true", "refuted"] = Field(
        description=(
            "`true`: neither an open claim nor the guard keeps them out any more. `refuted`: they never"
            " become working memory."
        )
    )
    reason: Reason = Field("", description="What was looked up, and where; for the audit log.")


class WorkingMemory(Rows[TierItem]):
    """Working memory, newest first. ``counts``: accepted, rejected (and by reason), fallen out, expired,
    since Valkey counts; ``rejections``: by reason, of all that is in quarantine.
    """

    counts: dict[str, int] = Field({})
    rejections: dict[str, int] = Field({})
    source: Literal["valkey", "database"] = Field(
        "valkey", description="Who says it: the database while Valkey is away."
    )
    message: str = Field("", description="What is away, if something is.")


def ingest_event(group_id: str, body: IngestBody) -> JsonObject:
    """The ``node.executed`` event that a text for the group's memory is."""
    return {
        "type": "node.executed",
        "event_id": body.event_id,
        "group_id": group_id,
        "agent_id": body.agent_id or body.node_id,
        "session_id": body.session_id,
        **({} if body.occurred_at is None else {"occurred_at": body.occurred_at}),
        "payload": {
            "node_id": body.node_id,
            "output": body.content,
            "confidence": body.confidence,
            "flags": body.flags,
            "metadata": body.metadata,
        },
    }


class DigestBody(Request):
    """Digest the group's quarantine now, without waiting for the weekly job."""

    days: Days = Field(7, description="Of the last so many days.")


class DigestsQuery(Paged):
    """The group's digests, newest first; or the one with this id."""

    digest_id: UUID | None = None


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
    """A digest. ``older`` entries were too many to look at, ``left_out`` ones are in clusters not shown."""

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
