"""Opaque cursors: where a page ended, for whoever asks for the next one."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, TypeAdapter, ValidationError
from pydantic_core import to_json

from jiyi.errors import InvalidRequest
from jiyi.protocol.base import unstorable
from jiyi.protocol.rest import NOT_OF_THIS_LIST

T = TypeVar("T")

TIME_AND_ID: TypeAdapter[tuple[AwareDatetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])


def encode(*place: Any) -> str:
    return base64.urlsafe_b64encode(to_json(place)).decode().rstrip("=")


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
        raise InvalidRequest([NOT_OF_THIS_LIST])
    return place
