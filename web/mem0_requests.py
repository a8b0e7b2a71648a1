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


class Whose(BaseModel):
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
    def _filters_are_flat(cls, given: Any) -> Any:
        """``{"filters": {"AND": [{"user_id": "mia"}, …]}}`` as ``{"user_id": "mia"}``; what cannot be asked
        here is refused.

        Each condition narrows what is asked for at the top and by the others: none takes another's place.
        """
        if not isinstance(given, dict):
            return given
        wanted = {name: value for name, value in given.items() if name not in _FROM_FILTERS}
        for name, value in _conditions(given.get("filters") or {}):
            known = wanted.get(name)
            match name:
                case "created_after":
                    wanted[name] = value if known is None else max(known, value)
                case "created_before":
                    wanted[name] = value if known is None else min(known, value)
                case "metadata" if isinstance(known, dict):
                    if {**value, **known} != {**known, **value}:
                        wanted["is_impossible"] = True
                    wanted[name] = {**known, **value}
                case _ if known in (None, ANY):
                    wanted[name] = value
                case _ if value not in (known, ANY):
                    wanted["is_impossible"] = True
        return wanted

    @property
    def entities(self) -> dict[str, str]:
        """What is named."""
        named = {name: getattr(self, name) for name in ENTITIES}
        return {name: value for name, value in named.items() if value not in (None, ANY)}

    @property
    def agent(self) -> str:
        """Whose memory it is here."""
        return self.entities.get("agent_id", DEFAULT_AGENT)


def _conditions(filters: Any) -> Iterator[tuple[str, Any]]:
    """Each condition as a field of :class:`Whose` and what it must be, at least or at most."""
    for name, wanted in _object(filters, "filters").items():
        if name == "AND" and isinstance(wanted, list):
            for each in wanted:
                yield from _conditions(each)
        elif name in ENTITIES:
            if not isinstance(wanted, str):
                problem = (
                    "null would be everybody's; leave it out"
                    if wanted is None
                    else "give one value; ask once for each"
                )
                raise ValueError(f"filters.{name}: {problem}")
            yield name, wanted
        elif name == "metadata":
            yield name, _object(wanted, "filters.metadata")
        elif name == "created_at" and isinstance(wanted, dict) and wanted.keys() <= _COMPARED.keys():
            for how, moment in wanted.items():
                bound, end = _COMPARED[how]
                yield bound, _span(moment, how)[end]
        else:
            known = f"AND, {', '.join(ENTITIES)}, metadata, created_at (with {', '.join(_COMPARED)})"
            raise ValueError(f"filters.{str(name)[:40]}: cannot be asked for here; use {known}")


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


class Add(Whose):
    """Messages to remember: the facts in them (``infer``), or each message verbatim."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_MESSAGES)]
    infer: bool = True
    timestamp: float | None = Field(None, ge=0, le=253_000_000_000, allow_inf_nan=False)
    expiration_date: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _text_is_a_message(cls, given: Any) -> Any:
        if isinstance(given, dict):
            match given.get("messages"):
                case str(text):
                    return {**given, "messages": [{"role": "user", "content": text}]}
                case dict(message):
                    return {**given, "messages": [message]}
        return given


class Search(Whose):
    """What is looked for."""

    query: Annotated[str, Field(min_length=1, max_length=8_000)]
    top_k: int | None = Field(None, ge=1, le=MAX_PAGE)
    limit: int | None = Field(None, ge=1, le=MAX_PAGE)
    threshold: float | None = None


class Listed(Whose):
    """Which memories, page by page."""

    page: int = Field(1, ge=1, le=10_000)
    page_size: int = Field(MAX_PAGE, ge=1, le=500)


class Project(BaseModel):
    """What its client sends along with everything: what the ping answered. The key says which group it is."""

    org_id: str | None = None
    project_id: str | None = None


class Page(BaseModel):
    """Which page, where it stands in the address."""

    page: int | None = Field(None, ge=1, le=10_000)
    page_size: int | None = Field(None, ge=1, le=500)


class Change(BaseModel):
    """What a memory says from now on; its server calls the text ``data`` as well."""

    text: str | None = None
    data: str | None = None
    metadata: Metadata | None = None

    @property
    def words(self) -> str | None:
        """Its new text."""
        return self.text if self.text is not None else self.data
