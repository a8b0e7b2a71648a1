"""What requests, answers and events have in common: JSON, shared types with their limits, pages of lists."""

from __future__ import annotations

import base64
import binascii
import math
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticSerializationError, to_json

from jiyi.chat.secrets import masked
from jiyi.errors import InvalidRequest, first_of, readable_part
from jiyi.protocol import limits

#: A JSON object that its holder may change, and one that is only read. Code that takes a value out checks its
#: type.
JsonObject = dict[str, object]
JsonMapping = Mapping[str, object]

#: Names end up in indexes and log lines: long enough for a path or an address, no longer.
MAX_NAME_CHARS = 200
#: Subjects may be whole paths of a simulated world (``world:sector:arena:object``).
MAX_PART_CHARS = 500
MAX_KEYWORD_CHARS = 200
MAX_PROVENANCE_BYTES = 8_192
MAX_PROVENANCE_DEPTH = 20
#: What is within can be shifted by days and time zones without leaving Python's calendar.
EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
#: Something else than white space. A pattern, because it is checked without leaving pydantic's core.
NOT_BLANK = r"\S"
#: How JSON spells NUL; pydantic's JSON parser itself refuses halves of surrogate pairs.
NUL_ESCAPE = b"\\u0000"

T = TypeVar("T")
#: How far a caller's clock may be ahead of the service's.
CLOCK_AHEAD = timedelta(minutes=1)


def within_description_limit(text: str) -> str:
    """The text as it may be stored: its secrets masked. Raises ValueError for one that is too long."""
    limit = limits.MAX_DESCRIPTION_CHARS
    if len(text) > limit:
        raise ValueError(
            f"{len(text):,} characters are more than {limit:,}; split the text into several memories"
        )
    return masked(text)


def has_passed(moment: datetime) -> datetime:
    if moment > datetime.now(UTC) + CLOCK_AHEAD:
        raise ValueError(f"{moment.isoformat()} is in the future: give a time that has passed")
    return moment


def few_enough_keywords(keywords: list[str]) -> list[str]:
    limit = limits.MAX_KEYWORDS
    if len(keywords) > limit:
        raise ValueError(f"{len(keywords):,} keywords are more than {limit:,}; send the most telling ones")
    return [masked(keyword) for keyword in keywords]


def small_enough(value: JsonObject) -> JsonObject:
    if value:
        plain_json(value, MAX_PROVENANCE_DEPTH)
        if len(to_json(value)) > MAX_PROVENANCE_BYTES:
            raise ValueError(f"larger than {MAX_PROVENANCE_BYTES:,} bytes as JSON")
    return value


def plain_json(value: Any, most: int, level: int = 0) -> None:
    """Raises ValueError for JSON nested deeper than ``most`` levels, or with a number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("every number in it must be finite")
    if isinstance(value, dict | list | tuple):
        if level == most:
            raise ValueError(f"nested deeper than {most} levels")
        for item in value.values() if isinstance(value, dict) else value:
            plain_json(item, most, level + 1)


#: Both names are accepted; what is stored and answered has the first.
POIGNANCY = AliasChoices("poignancy", "importance")
#: One switch of all searches and lists. Retrievals recorded before 2027 have its former name.
SUPERSEDED = AliasChoices("superseded", "include_superseded")
SUPERSEDED_DESCRIPTION = (
    "What something newer corrected or contradicted, too; else an answer says how many it leaves out."
)
Name = Annotated[str, Field(pattern=NOT_BLANK, max_length=MAX_NAME_CHARS)]


def composed(name: str) -> str:
    """NFC: what is typed as the same letters is the same user, whichever system composed them."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


#: One of the people whom an agent talks with. Capitals, spaces and wide letters distinguish users.
UserId = Annotated[Name, AfterValidator(composed)]
Part = Annotated[str, Field(max_length=MAX_PART_CHARS), AfterValidator(masked)]
#: A text that becomes a memory, through any interface: an observation, a turn, a correction. Its secrets
#: are masked here.
Description = Annotated[str, Field(pattern=NOT_BLANK), AfterValidator(within_description_limit)]
Keyword = Annotated[str, Field(min_length=1, max_length=MAX_KEYWORD_CHARS)]
Keywords = Annotated[list[Keyword], Field(fail_fast=True), AfterValidator(few_enough_keywords)]
#: Any small JSON object of a caller's own.
Metadata = Annotated[dict[str, Any], AfterValidator(small_enough)]
#: How much a memory matters: 1 mundane … 10 poignant.
Poignancy = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]
#: What was known at a time of the past.
AsOf = Annotated[Moment, AfterValidator(has_passed)]
AS_OF_DESCRIPTION = (
    "What was known then: only what had been stored by this time, what was superseded or archived since"
    " included. Erased stays erased."
)
NodeType = Literal["event", "thought", "chat"]
Flag = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
#: To whom a memory of a user of the agent is visible: that user alone, or all users of the agent.
Visibility = Literal["user", "agent"]
#: Who says a message of a conversation.
Role = Literal["user", "assistant", "system", "tool"]


def unstorable(value: Any, path: str = "") -> Iterator[str]:
    """Texts that PostgreSQL cannot hold (NUL) or that are no UTF-8 (half of a surrogate pair), by their path.

    Looked for here rather than by each field's validator: a message's bytes show at once that it has none.
    """
    if isinstance(value, str):
        if "\x00" in value:
            yield f"{path}: contains a NUL character (\\u0000); remove it"
        elif not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            yield f"{path}: contains half of a surrogate pair; send valid Unicode"
    elif isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}.{readable_part(key)}".lstrip(".")
            yield from unstorable(key, here)
            yield from unstorable(item, here)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from unstorable(item, f"{path}.{position}")


def unstorable_texts(model: BaseModel, exclude: set[str] | None = None) -> list[str]:
    """The first problems by :func:`unstorable`. JSON shows at once, and far faster, that there are none."""
    with suppress(PydanticSerializationError):  # of halves of surrogate pairs
        if NUL_ESCAPE.decode() not in model.model_dump_json(exclude=exclude):
            return []
    return first_of(unstorable(model.model_dump(exclude=exclude)))


#: Celery queues of the calls over the broker: questions, and changes.
QUEUE, CHANGES = "inspection", "actions"
DEFAULT_PAGE = 50
MAX_CURSOR_CHARS = 1_000
#: Most things that one request names by their ids.
MAX_NAMED = 1_000
NOT_OF_THIS_LIST = "cursor: is no cursor of this list; give `next` of the page before"

#: A number that PostgreSQL's ``integer`` holds, and one that its ``bigint`` holds.
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
Position = Annotated[int, Field(ge=0, le=2**63 - 1)]
#: Where a page of a list ends: what its last row has of these.
BY_ID: TypeAdapter[UUID] = TypeAdapter(UUID)
BY_NAME: TypeAdapter[str] = TypeAdapter(str)
BY_NUMBER: TypeAdapter[int] = TypeAdapter(Number)
BY_POSITION: TypeAdapter[int] = TypeAdapter(Position)
BY_TIME: TypeAdapter[tuple[AwareDatetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])


PageSize = Annotated[int, Field(ge=1, le=limits.MAX_PAGE)]


class Request(BaseModel, frozen=True, extra="forbid"):
    """What an action or a question is asked with. Whose it is, is said beside it."""

    @model_validator(mode="after")
    def _storable(self) -> Self:
        """Refuse texts that the database could not compare with anything: NUL, halves of surrogate pairs."""
        if problems := unstorable_texts(self, exclude={"vectors"}):
            raise ValueError("; ".join(problems))
        return self


def encode_cursor(place: object) -> str:
    """What a program gives back for the next page, after one that ends at a place."""
    return base64.urlsafe_b64encode(to_json(place)).decode().rstrip("=")


def decode_cursor(cursor: str | None, form: TypeAdapter[T]) -> T | None:
    """The place, or None for the first page. Raises InvalidRequest if it is not of this list."""
    if not cursor:
        return None
    try:
        content = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True)
        place = form.validate_json(content)
    except (binascii.Error, ValueError, ValidationError):
        raise InvalidRequest([NOT_OF_THIS_LIST]) from None
    if any(True for _ in unstorable(place)):
        raise InvalidRequest([NOT_OF_THIS_LIST])
    return place


class Paged(Request):
    """A list, page by page."""

    cursor: Annotated[str, Field(max_length=MAX_CURSOR_CHARS)] | None = Field(
        None, description="`next` of the page before; leave out for the first page."
    )
    limit: PageSize = Field(DEFAULT_PAGE, description="Most rows of the page.")

    def place(self, form: TypeAdapter[T]) -> T | None:
        """Where the page before ended; None: the first. Raises InvalidRequest for another list's cursor."""
        return decode_cursor(self.cursor, form)


class OfAgent(Request):
    """Which agent."""

    agent_id: Name = Field(description="Which agent.")


class ById(Request):
    """Which one."""

    id: UUID = Field(description="Its id.")


class ByIds(Request):
    """Which ones."""

    ids: list[UUID] = Field(min_length=1, max_length=MAX_NAMED, description="Their ids.")


class ForUser(BaseModel, frozen=True, extra="forbid"):
    """A request that may be for one user of an agent: other users' private memories are not visible then."""

    user_id: UserId | None = Field(
        None,
        description=(
            "For whom: one of the people whom the agent talks with. What only others may see is left out."
        ),
    )


class AgentForUser(OfAgent, ForUser):
    """Which agent, and for which of its users."""


class ByIdForUser(ById, ForUser):
    """Which one, and for which of the agent's users."""


class OfAgents(Paged, ForUser):
    """What agents have, page by page: one's, or all agents'."""

    agent_id: Name | None = Field(None, description="Only this agent's; all agents' unless given.")


class Count(BaseModel):
    """How many were changed, or there are."""

    count: int
    erasure_id: UUID | None = Field(None, description="The erasure that deletes them for good, if any.")


class Made(BaseModel):
    """What was asked for, or is in its place, has this id."""

    id: UUID
    uri: str | None = Field(None, description="Of a memory: its address, if it has one.")
    new: bool | None = Field(None, description="Of a memory: false if the same was there already.")


def user_of(request: BaseModel) -> str | None:
    """The user for whom something is asked; None if it is asked for nobody in particular."""
    return request.user_id if isinstance(request, ForUser) else None


class Rows(BaseModel, Generic[T]):
    """One page of a list."""

    rows: list[T]
    next: str | None = Field(None, description="Give it as `cursor` for the next page; null on the last one.")
