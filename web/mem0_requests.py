"""What programs for mem0 send to its platform (``/v1`` to ``/v3``) or server. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, model_validator

from jiyi.protocol.base import EARLIEST, LATEST, MAX_NAME_CHARS, Metadata, composed
from jiyi.protocol.conversations import MAX_MESSAGES

#: The agent of requests that name none.
DEFAULT_AGENT = "assistant"
#: Who something may be of, by mem0's names.
ENTITIES = ("user_id", "agent_id", "run_id", "app_id")
MAX_PAGE, DEFAULT_FOUND = 100, 10
#: ``*``: any value, so that no filter applies.
ANY = "*"
#: What follows from ``filters`` alone.
_FROM_FILTERS = ("created_after", "created_before", "is_impossible")
#: Of each comparison which bound it is, and whether that is where what it names begins (0) or what comes
#: after it (1).
_COMPARED = {
    "gte": ("created_after", 0),
    "gt": ("created_after", 1),
    "lt": ("created_before", 0),
    "lte": ("created_before", 1),
}
_MOMENT = TypeAdapter(datetime)
_DAY, _INSTANT = timedelta(days=1), timedelta(microseconds=1)

Entity = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]


class EntityFilter(BaseModel):
    """Of whom: at the top, as its server has it, or within ``filters``, as its platform has it."""

    user_id: Annotated[Entity, AfterValidator(composed)] | None = None
    agent_id: Entity | None = None
    run_id: Entity | None = None
    app_id: Entity | None = None
    metadata: Metadata | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    #: It is asked for two things that nothing is at once, such as two users.
    is_impossible: bool = False

    @model_validator(mode="before")
    @classmethod
    def _filters_are_flat(cls, body: Any) -> Any:
        """``{"filters": {"AND": [{"user_id": "mia"}, …]}}`` as ``{"user_id": "mia"}``; what cannot be asked
        here is refused.

        Each condition narrows the request at the top and by the others: none takes another's place.
        """
        if not isinstance(body, dict):
            return body
        fields = {name: value for name, value in body.items() if name not in _FROM_FILTERS}
        for name, value in _conditions(body.get("filters") or {}):
            previous = fields.get(name)
            match name:
                case "created_after":
                    fields[name] = value if previous is None else max(previous, value)
                case "created_before":
                    fields[name] = value if previous is None else min(previous, value)
                case "metadata" if isinstance(previous, dict):
                    if {**value, **previous} != {**previous, **value}:
                        fields["is_impossible"] = True
                    fields[name] = {**previous, **value}
                case _ if previous in (None, ANY):
                    fields[name] = value
                case _ if value not in (previous, ANY):
                    fields["is_impossible"] = True
        return fields

    @property
    def entities(self) -> dict[str, str]:
        """What is named."""
        values = {name: getattr(self, name) for name in ENTITIES}
        return {name: value for name, value in values.items() if value not in (None, ANY)}

    @property
    def agent(self) -> str:
        """The agent that it names."""
        return self.entities.get("agent_id", DEFAULT_AGENT)


def _conditions(filters: Any) -> Iterator[tuple[str, Any]]:
    """Each condition as a field of :class:`EntityFilter` and what it must be, at least or at most."""
    for name, condition in _object(filters, "filters").items():
        if name == "AND" and isinstance(condition, list):
            for each in condition:
                yield from _conditions(each)
        elif name in ENTITIES:
            if not isinstance(condition, str):
                problem = (
                    "null would be everybody's; leave it out"
                    if condition is None
                    else "give one value; ask once for each"
                )
                raise ValueError(f"filters.{name}: {problem}")
            yield name, condition
        elif name == "metadata":
            yield name, _object(condition, "filters.metadata")
        elif name == "created_at" and isinstance(condition, dict) and condition.keys() <= _COMPARED.keys():
            for how, moment in condition.items():
                bound, end = _COMPARED[how]
                yield bound, _span(moment, how)[end]
        else:
            supported = f"AND, {', '.join(ENTITIES)}, metadata, created_at (with {', '.join(_COMPARED)})"
            raise ValueError(f"filters.{str(name)[:40]}: not supported here; use {supported}")


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: must be an object")  # noqa: TRY004 – pydantic's word for a wrong field
    return value


def _span(moment: Any, how: str) -> tuple[datetime, datetime]:
    """When what is named begins and ends: a day is a whole day; without a zone it is in UTC."""
    try:
        try:
            first, length = datetime.combine(date.fromisoformat(moment), time(), UTC), _DAY
        except (TypeError, ValueError):
            first, length = _MOMENT.validate_python(moment), _INSTANT
    except ValidationError:
        example = "give 2026-07-31 or 2026-07-31T12:00:00Z"
        raise ValueError(f"filters.created_at.{how}: {str(moment)[:40]!r} is no time; {example}") from None
    # Nothing happens outside these bounds, and what is within can be moved.
    first = min(max(first if first.tzinfo else first.replace(tzinfo=UTC), EARLIEST), LATEST)
    return first, min(first + length, LATEST)


class Add(EntityFilter):
    """Messages to remember: the facts in them (``infer``), or each message verbatim."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_MESSAGES)]
    infer: bool = True
    timestamp: float | None = Field(None, ge=0, le=253_000_000_000, allow_inf_nan=False)
    expiration_date: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _text_is_a_message(cls, body: Any) -> Any:
        if isinstance(body, dict):
            match body.get("messages"):
                case str(text):
                    return {**body, "messages": [{"role": "user", "content": text}]}
                case dict(message):
                    return {**body, "messages": [message]}
        return body


class SearchRequest(EntityFilter):
    """What is looked for."""

    query: Annotated[str, Field(min_length=1, max_length=8_000)]
    top_k: int | None = Field(None, ge=1, le=MAX_PAGE)
    limit: int | None = Field(None, ge=1, le=MAX_PAGE)
    threshold: float | None = None


class ListRequest(EntityFilter):
    """Which memories, page by page."""

    page: int = Field(1, ge=1, le=10_000)
    page_size: int = Field(MAX_PAGE, ge=1, le=500)


class Project(BaseModel):
    """What its client sends along with everything: what the ping answered. The key says which group it is."""

    org_id: str | None = None
    project_id: str | None = None


class PageQuery(BaseModel):
    """Which page, where it stands in the address."""

    page: int | None = Field(None, ge=1, le=10_000)
    page_size: int | None = Field(None, ge=1, le=500)


class MemoryChange(BaseModel):
    """What a memory says from now on; its server calls the text ``data`` as well."""

    text: str | None = None
    data: str | None = None
    metadata: Metadata | None = None

    @property
    def words(self) -> str | None:
        """Its new text."""
        return self.text if self.text is not None else self.data
