"""Texts for quarantine, what the filters made of them, and what is in working memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field
from uuid6 import uuid7

from jiyi.protocol.events import MAX_OUTPUT_CHARS, NOT_BLANK, Flag, Name, small_enough
from jiyi.protocol.queries import Request
from jiyi.protocol.tiers.query import Item
from jiyi.protocol.wire.json_values import JsonObject

#: Entries, or pieces of knowledge, that one request may name.
MAX_IDS = 100
MAX_REASON_CHARS = 1_000

#: Flags of an output that the fact check, or the guard against runaway loops, has set.
VERIFY_PENDING, REFUTED, RUNAWAY = "verify_pending", "refuted", "runaway"
#: Somebody vouches for it: its claims are true, and it comes from no loop.
CHECKED = "checked"
#: Flags that the filters add.
UNSCORED, UNVERIFIED, VERIFIED = "unscored", "unverified", "verified"

Text = Annotated[str, Field(pattern=NOT_BLANK, max_length=MAX_OUTPUT_CHARS)]
#: Why somebody did something, for the history and the audit log.
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS)]
Metadata = Annotated[dict[str, Any], AfterValidator(small_enough)]


class IngestBody(Request):
    """A text for the group's memory: into quarantine, and into working memory if the filters let it.

    What is to be known for good is promoted: that somebody sent it does not make it knowledge.
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
    event_id: UUID = Field(default_factory=uuid7, description="Your own id, the entry's too: the same text sent twice with it counts once.")


class IngestState(BaseModel):
    """The text is in quarantine for good; whether it also is working memory, the filters say."""

    status: Literal["ingested"] = "ingested"
    entry_id: UUID = Field(description="Its id in quarantine; what promote_memory takes.")
    accepted: bool | None = Field(description="Whether it became working memory; null: the filters have not decided yet.")
    reason: str | None = Field(None, description="Which filter refused it: `low_confidence`, `too_short`, `duplicate` …")
    message: str = Field("", description="The same as a sentence.")
    flags: list[str] = Field([], description="What is noted of it, such as `unscored`: it came without a confidence.")


class EntryQuery(Request):
    """An entry of quarantine."""

    entry_id: UUID


class DeleteEntries(Request):
    """Take entries of quarantine out of sight, and out of working memory."""

    entry_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_IDS)] = Field(description="Which entries.")
    reason: Reason = Field("", description="Why; for the audit log.")


class CheckBody(Request):
    """Say what a check of entries came to: their claims are true, and no loop made them; or they are refuted."""

    entry_ids: Annotated[list[UUID], Field(min_length=1, max_length=MAX_IDS)] = Field(description="Which entries of quarantine.")
    verdict: Literal["true", "refuted"] = Field(
        description="`true`: neither an open claim nor the guard keeps them out any more. `refuted`: they never become working memory."
    )
    reason: Reason = Field("", description="What was looked up, and where; for the audit log.")


class CheckedEntries(BaseModel):
    """Entries whose flags are changed now; the filters look at them again."""

    checked: list[UUID]


class DeletedEntries(BaseModel):
    """Entries that were there and are out of sight now."""

    deleted: list[UUID]


class WorkingMemoryQuery(Request):
    """The group's working memory, as agents find it now."""


class WorkingState(BaseModel):
    """``counts``: accepted, rejected (and by reason), fallen out, expired, since Valkey counts; ``rejections``: by reason,
    of all that is in quarantine.
    """

    rows: list[Item]
    counts: dict[str, int] = {}
    rejections: dict[str, int] = {}


def ingest_event(group_id: str, body: IngestBody) -> JsonObject:
    """The ``node.executed`` event that a text for the group's memory is."""
    return {
        "type": "node.executed",
        "event_id": body.event_id,
        "group_id": group_id,
        "agent_id": body.agent_id or body.node_id,
        "session_id": body.session_id,
        "payload": {
            "node_id": body.node_id,
            "output": body.content,
            "confidence": body.confidence,
            "flags": body.flags,
            "metadata": body.metadata,
        },
    }
