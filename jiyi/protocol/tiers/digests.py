"""Digests of quarantine, for those who promote."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.queries import DEFAULT_PAGE, PageSize, Request
from jiyi.protocol.tiers.query import Days


class DigestBody(Request):
    """Digest the group's quarantine now, without waiting for the weekly job."""

    days: Days = Field(7, description="Of the last so many days.")


class DigestsQuery(Request):
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


class DigestPage(BaseModel):
    """Over the broker: newest first; ``next`` is ``before`` for the following page."""

    rows: list[DigestState]
    next: UUID | None = None
