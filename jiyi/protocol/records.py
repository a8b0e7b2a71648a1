"""Retrievals of late, as people look at them: what was asked, by whom, and what was returned."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.events import Name
from jiyi.protocol.queries import DEFAULT_PAGE, PageSize, Request


class RetrievalsQuery(Request):
    """The group's retrievals, newest first; ``before`` is the last page's smallest id."""

    agent_id: Name | None = Field(None, description="Only of this agent.")
    before: UUID | None = Field(None, description="Only before this one: the next page.")
    limit: PageSize = Field(DEFAULT_PAGE, description="Most retrievals of the page.")


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
    focal_texts: list[str]
    #: Of the request, as far as they differ from the defaults.
    options: dict[str, Any]
    #: Milliseconds that the worker took.
    ms: float
    #: How many memories each focal text returned; ``results`` may hold fewer.
    found: list[int]
    #: For each focal text, best first.
    results: list[list[ReturnedMemory]]


class RetrievalRecords(BaseModel):
    """One page; ``next`` is the following one's ``before``, None at the end."""

    rows: list[RetrievalRecord]
    next: UUID | None = None
