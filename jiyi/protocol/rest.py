"""What travels over the REST API and not through the broker: bodies, queries and answers of ``/api/v1``, and the cursors of its lists.

The group is never part of them: it belongs to the key. Models of the other modules of :mod:`jiyi.protocol` are used as they are.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from jiyi.errors import InvalidRequest
from jiyi.protocol.base import DEFAULT_PAGE, PageSize, unstorable
from jiyi.protocol.erasure import ErasureState, State
from jiyi.protocol.operations import MAX_BODY_CHARS, GroupStats, JobName, JobState, Kind, LetterState, WorkOwed

MAX_CURSOR_CHARS = 1_000
NOT_OF_THIS_LIST = "after: is no cursor of this list; give `next` of the page before"

FOREIGN_GROUP = "group_id: not this key's group; leave it out, the key says which group it is"


# Problems


class FieldProblem(BaseModel):
    """One thing that is wrong with a request."""

    field: str = Field(description="Where: a path such as `events.3.payload.poignancy`, or empty for the whole.")
    message: str


class Problem(BaseModel):
    """RFC 9457: what went wrong, for programs (`type`, `status`, `errors`) and for people (`title`, `detail`)."""

    type: str = Field(description="Address of a page that explains this kind of problem.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path that was asked for.")
    errors: list[FieldProblem] = []
    code: str | None = Field(None, description="The error by the name that every door gives it, such as `id_reused` or `not_found`.")


# Lists


class Cursor(BaseModel, extra="forbid"):
    """Page by page."""

    after: Annotated[str, Field(max_length=MAX_CURSOR_CHARS)] = Field(
        "", description="`next` of the page before; leave out for the first page."
    )
    limit: PageSize = Field(DEFAULT_PAGE, description="Most rows of the page.")


#: Seconds for which a sender may have what says the same be the same event.
MAX_ONCE = 600


class OnceQuery(BaseModel, extra="forbid"):
    """What is one event?"""

    once: int = Field(
        0,
        ge=0,
        le=MAX_ONCE,
        description="Seconds: an event without an `event_id` of yours that says the same as one that was stored up to so many seconds ago, "
        "and still holds, is that one. For senders that cannot keep an id, such as LLMs.",
    )


# Erasure


class ErasureAsked(BaseModel):
    """The erasure is pending until its state is done: what is to go may be found meanwhile. `status_url` tells how far it is."""

    erasure_id: UUID
    state: State = Field(
        "owed", description="owed: no worker has begun; running; incomplete: something was found left, it is tried again; done."
    )
    status_url: str


class ErasurePage(BaseModel):
    """Newest first."""

    erasures: list[ErasureState]
    next: str | None


# The service


class Stats(BaseModel):
    """What the group has, and what work it waits for."""

    group_id: str
    counts: GroupStats
    work_owed: list[WorkOwed]


class QueueState(BaseModel):
    queue: str
    waiting: int | None = Field(description="Messages; null where it is not known.")


class Queues(BaseModel):
    """How full the service's queues are. They are shared by all groups."""

    queues: list[QueueState]
    in_flight: dict[str, int] | None = Field(description="Messages in the hands of the intake and of the workers.")
    note: str = Field("", description="Why something is not known.")


class LettersQuery(Cursor):
    state: LetterState = "open"
    kind: Kind | None = Field(None, description="`intake` for refused events, else the kind of work.")


class Letter(BaseModel, from_attributes=True):
    """What could not be done, with the reason."""

    letter_id: UUID
    kind: str
    subject_id: UUID | None
    reason: str
    traceback: str | None
    body: str | None = Field(description=f"The refused event as it came, cut to {MAX_BODY_CHARS:,} characters.")
    attempts: int
    state: LetterState
    created_at: datetime


class LetterPage(BaseModel):
    """Newest first."""

    letters: list[Letter]
    next: str | None


class JobStates(BaseModel):
    jobs: list[JobState]


class RunBody(BaseModel, extra="forbid"):
    """How to run it."""

    whole_service: bool = Field(True, description="For all groups, not only the one that is spoken for.")


class JobRun(BaseModel):
    """A run that has begun."""

    job: JobName
    slot: datetime
    state: str = "waiting"
    seconds: float | None = None
    summary: dict[str, Any] = {}


T = TypeVar("T")

TIME_AND_ID: TypeAdapter[tuple[AwareDatetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])


def encode_cursor(*place: Any) -> str:
    return base64.urlsafe_b64encode(to_json(place)).decode().rstrip("=")


def decode_cursor(cursor: str, form: TypeAdapter[T]) -> T | None:
    """The place, or None for the first page.

    Raises:
        InvalidRequest: the cursor is not of this list.
    """
    if not cursor:
        return None
    try:
        content = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
        place = form.validate_json(content)
    except (binascii.Error, ValueError, ValidationError):
        place = None
    if place is None or any(True for _ in unstorable(place)):
        raise InvalidRequest([NOT_OF_THIS_LIST])
    return place
