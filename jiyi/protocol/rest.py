"""What travels over the REST API only: bodies, queries and answers. The group belongs to the key."""

from __future__ import annotations

from pydantic import BaseModel, Field

FOREIGN_GROUP = "group_id: not this key's group; leave it out, the key says which group it is"


# Problems


class FieldProblem(BaseModel):
    """One thing that is wrong with a request."""

    field: str = Field(description="A path such as `events.3.payload.poignancy`; empty: the whole.")
    message: str


class Problem(BaseModel):
    """RFC 9457: what went wrong, for programs (`type`, `status`, `errors`) and people (`title`, `detail`)."""

    type: str = Field(description="Address of a page that explains this kind of problem.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path that was asked for.")
    errors: list[FieldProblem] = []
    code: str | None = Field(None, description="The error's name, such as `id_reused` or `not_found`.")


# Lists


#: Seconds for which a sender may have what says the same be the same event.
MAX_ONCE = 600


class OnceQuery(BaseModel, extra="forbid", use_attribute_docstrings=True):
    """What is one event?"""

    once: int = Field(0, ge=0, le=MAX_ONCE)
    """Seconds: an event without an `event_id` of yours that says the same as one that was stored up to so
    many seconds ago, and still holds, is that one. For senders that cannot keep an id, such as LLMs."""


# The service


class Queues(BaseModel):
    """How full the service's queues are. They are shared by all groups."""

    queues: dict[str, int | None] = Field(description="Messages by queue; null where that is not known.")
    in_flight: dict[str, int] | None = Field(description="Messages that intake and workers have in hand.")
    note: str = Field("", description="Why something is not known.")
