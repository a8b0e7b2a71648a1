"""Opaque cursors: where a page ended, for whoever asks for the next one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from jiyi.errors import InvalidRequest
from jiyi.protocol.events import unstorable

T = TypeVar("T")
R = TypeVar("R")

#: What PostgreSQL's ``integer`` holds.
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]

NUMBER: TypeAdapter[tuple[Number]] = TypeAdapter(tuple[Number])
NAME: TypeAdapter[tuple[str]] = TypeAdapter(tuple[str])
ID: TypeAdapter[tuple[UUID]] = TypeAdapter(tuple[UUID])
TIME_AND_ID: TypeAdapter[tuple[AwareDatetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])
KEYWORD: TypeAdapter[tuple[Number, str, str]] = TypeAdapter(tuple[Number, str, str])


def encode(*place: Any) -> str:
    return base64.urlsafe_b64encode(to_json(place)).decode().rstrip("=")


def following(rows: Sequence[R], limit: int, place: Callable[[R], tuple[Any, ...]]) -> str | None:
    """The cursor behind a page of rows; None if it was the last one."""
    return encode(*place(rows[-1])) if len(rows) == limit else None


def only(cursor: str, form: TypeAdapter[tuple[T]]) -> T | None:
    """The place of a list that is ordered by one value. Raises as :func:`decode`."""
    place = decode(cursor, form)
    return None if place is None else place[0]


def decode(cursor: str, form: TypeAdapter[T]) -> T | None:
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
        raise InvalidRequest(["after: is no cursor of this list; give `next` of the page before"])
    return place
