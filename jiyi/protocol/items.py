"""Requests and answers about items: JSON values that programs keep under a namespace and a key
(``docs/integrations.md``).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Generic, Literal

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import to_json

from jiyi.protocol.base import MAX_NAME_CHARS, JsonObject, PageSize, Request, T, plain_json

#: Parts of a namespace, and characters of a key.
MAX_LABELS, MAX_KEY_CHARS = 16, 500
#: Bytes of a value as JSON: PostgreSQL reads and writes a row as a whole.
MAX_VALUE_BYTES = 500_000
#: Levels of a value; what is nested deeper is refused by parsers on the way.
MAX_DEPTH = 50
#: Items of one request, and texts by which one item is found.
MAX_ITEMS, MAX_TEXTS = 500, 32
#: Characters of such a text that count: more than any model takes in.
MAX_TEXT_CHARS = 20_000
MAX_QUERY_CHARS = 10_000
#: Minutes in ten years: longer than that is without an end.
MAX_TTL_MINUTES = 5_256_000.0
DEFAULT_FOUND, DEFAULT_NAMESPACES = 10, 100
#: What the operators of a filter are called.
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


def _only_json(value: object, place: str = "") -> None:
    """Raises ValueError for what JSON does not have: it would come back as something else than was put in."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise ValueError(  # noqa: TRY004
                    f"{place}{name}: names must be strings, this is of the type {type(name).__name__}"
                )
            _only_json(part, f"{place}{name}.")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            _only_json(part, f"{place}{number}.")
    elif not isinstance(value, str | int | float | None):
        how = "a datetime as its isoformat()" if isinstance(value, date) else "it as text or numbers"
        problem = f"JSON has no {type(value).__name__}; give {how}"
        raise ValueError(f"{place.rstrip('.')}: {problem}")  # noqa: TRY004


def _json_value(value: JsonObject) -> JsonObject:
    plain_json(value, MAX_DEPTH)
    _only_json(value)
    if len(to_json(value)) > MAX_VALUE_BYTES:
        raise ValueError(
            f"larger than {MAX_VALUE_BYTES:,} bytes as JSON; store large values elsewhere and their address"
            " here"
        )
    return value


def _known_operators(conditions: JsonObject) -> JsonObject:
    plain_json(conditions, MAX_DEPTH)
    _only_json(conditions)
    for name, condition in conditions.items():
        for operator in condition if isinstance(condition, dict) else ():
            if operator not in OPERATORS:
                raise ValueError(f"{name}: unknown operator {operator!r}: use {', '.join(OPERATORS)}")
    return conditions


Label = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Key = Annotated[
    str,
    Field(min_length=1, max_length=MAX_KEY_CHARS, description="What the item is called in its namespace."),
]
Namespace = Annotated[
    list[Label],
    Field(
        min_length=1,
        max_length=MAX_LABELS,
        description="Where it is, from the widest to the narrowest: ['users', 'mia'].",
    ),
]
Prefix = Annotated[list[Label], Field(max_length=MAX_LABELS)]
Value = Annotated[dict[str, Any], AfterValidator(_json_value)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Conditions = Annotated[dict[str, Any], AfterValidator(_known_operators)]


class ItemWrite(Request, use_attribute_docstrings=True):
    """An item to be stored in place of what is there, or to be deleted."""

    namespace: Namespace
    key: Key
    value: Value | None = Field(None, description="Any JSON object; null deletes the item.")
    texts: Annotated[list[Text], Field(max_length=MAX_TEXTS)] = Field([])
    """What the item is found by in a search with a query; none: only by its namespace, its key and
    filters."""
    ttl_minutes: float | None = Field(None, gt=0, le=MAX_TTL_MINUTES)
    """Minutes after its last access at which the item is gone; null: it stays."""


class Items(Request, Generic[T]):
    """Items to be stored, deleted or read. Of several of one namespace and key that are stored the last
    counts.
    """

    items: Annotated[list[T], Field(min_length=1, max_length=MAX_ITEMS)]


PutItems = Items[ItemWrite]


class ItemsWritten(BaseModel):
    """How many items were stored, and how many of those to be deleted were there."""

    stored: int
    deleted: int


class ItemReference(Request):
    """Which item."""

    namespace: Namespace
    key: Key
    refresh_ttl: bool = Field(True, description="Restart its time to live.")


GetItems = Items[ItemReference]


class Item(BaseModel):
    """A stored item."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = Field(
        None, description="The query's cosine with its most similar text; null without one."
    )


class SearchItems(Request, use_attribute_docstrings=True):
    """Which items, of what is below a namespace."""

    prefix: Prefix = Field([], description="Items of this namespace and of those within it; empty: of all.")
    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS)] | None = None
    """Best first, of the items that have texts to be found by. Without it: those updated last first."""
    filter: Conditions = Field({})
    """What fields of the value must be: {'status': 'open'}, or compared: {'score': {'$gte': 3}}; operators
    $eq, $ne, $gt, $gte, $lt, $lte. Numbers compare as numbers, texts as texts; a field that is not there
    fits nothing."""
    limit: PageSize = DEFAULT_FOUND
    offset: int = Field(0, ge=0, le=1_000_000)
    refresh_ttl: bool = Field(True, description="Restart the time to live of the items found.")


class NamespaceMatch(Request):
    """A condition on namespaces: what they begin or end with; ``*`` is any one part."""

    kind: Literal["prefix", "suffix"]
    path: Prefix


class ListNamespaces(Request):
    """Which namespaces."""

    match: Annotated[list[NamespaceMatch], Field(max_length=10)] = Field([], description="All must hold.")
    max_depth: int | None = Field(None, ge=1, le=MAX_LABELS, description="Cut to so many parts, each once.")
    limit: PageSize = DEFAULT_NAMESPACES
    offset: int = Field(0, ge=0, le=1_000_000)
