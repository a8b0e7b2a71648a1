"""Looking into the service from outside: lists, states, counts. Answered by workers, like retrievals."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Self, TypeVar
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from jiyi.protocol import limits
from jiyi.protocol.retrieval import all_storable

#: Celery queues of the calls over the broker: questions, and changes.
QUEUE, CHANGES = "inspection", "actions"
DEFAULT_PAGE = 50

T = TypeVar("T")

#: Where a page ends, in lists by a number (what PostgreSQL's ``integer`` holds) and by time.
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
#: The same, of what PostgreSQL's ``bigint`` holds.
Position = Annotated[int, Field(ge=0, le=2**63 - 1)]
TimeAndId = tuple[AwareDatetime, UUID]


def _within_page(limit: int) -> int:
    most = limits.MAX_PAGE
    if limit > most:
        raise ValueError(f"{limit:,} is more than {most:,}; read page by page")
    return limit


PageSize = Annotated[int, Field(ge=1), AfterValidator(_within_page)]


class Request(BaseModel):
    """What an action or a question is asked with. Whose it is, is said beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _storable(self) -> Self:
        return all_storable(self)


class Rows(BaseModel, Generic[T]):
    """One page of a list; ``next`` is what to pass on for the following one, None at the end."""

    rows: list[T]
    next: Any = None


class Page(BaseModel):
    """The same, of rows that have no model."""

    rows: list[dict[str, Any]]
    next: Any = None
