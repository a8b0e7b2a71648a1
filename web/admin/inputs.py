"""Parameters of an address, checked: what cannot be meant is answered with 400 and the parameter's name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from flask import abort, request
from pydantic import TypeAdapter

from jiyi.errors import InvalidRequest
from jiyi.protocol.base import MAX_CURSOR_CHARS, decode_cursor
from web.admin.frame import parameter

T = TypeVar("T")
#: PostgreSQL's ``integer`` and ``bigint``.
MAX_INTEGER = 2**31 - 1
MAX_BIGINT = 2**63 - 1


def whole(name: str, most: int = MAX_INTEGER, least: int = 1) -> int | None:
    """A whole number, or None."""
    text = parameter(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        abort(400, f"{name}: must be a whole number from {least} to {most}.")
    return int(text)


def decimal(name: str, least: float, most: float) -> float | None:
    text = parameter(name, 40)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:  # NaN is within nothing
        abort(400, f"{name}: must be a number from {least:g} to {most:g}.")
    return value


def choice(name: str, allowed: Sequence[str]) -> str | None:
    value = parameter(name)
    if value is not None and value not in allowed:
        abort(400, f"{name}: must be one of {', '.join(allowed)}.")
    return value


def choices(name: str, allowed: Sequence[str]) -> list[str]:
    """All values given under one name, in the order of those allowed."""
    selected = {value for value in request.args.getlist(name) if value}
    if selected - set(allowed):
        abort(400, f"{name}: must be among {', '.join(allowed)}.")
    return [value for value in allowed if value in selected]


def moment(name: str, *, end: bool = False) -> datetime | None:
    """A day (its beginning, with ``end`` that of the next one) or a time, UTC unless it says."""
    text = parameter(name, 40)
    if text is None:
        return None
    try:
        value = datetime.fromisoformat(text)
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return value + timedelta(days=1) if end and len(text) == len("2026-03-02") else value
    except (ValueError, OverflowError):
        abort(400, f"{name}: must be a day (2026-03-02) or a time (2026-03-02T07:15).")


def identifier(name: str) -> UUID | None:
    text = parameter(name, 40)
    try:
        return UUID(text) if text else None
    except ValueError:
        abort(400, f"{name}: must be an id.")


def parameters(names: Sequence[str]) -> dict[str, str]:
    """Those parameters that the address has, as they stand there."""
    return {name: value for name in names if (value := request.args.get(name))}


def place(form: TypeAdapter[T]) -> T | None:
    """Where the page before ended in a list."""
    try:
        return decode_cursor(parameter("cursor", MAX_CURSOR_CHARS), form)
    except InvalidRequest as error:
        abort(400, str(error))
