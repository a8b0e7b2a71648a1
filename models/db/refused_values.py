"""Values that PostgreSQL refuses: too large, too long, or of a character that it does not hold. Who sent them is told, and can mend them.

What a request's model can say of a value, it says earlier and better. This is for what is left: a number that a request may hold and a
column may not, a text that becomes too long for an index once it is normalised.
"""

from __future__ import annotations

import psycopg
from sqlalchemy.exc import DBAPIError

from jiyi.errors import InvalidRequest

#: PostgreSQL's code → what is wrong with the value. Other codes of the class 22, such as a division by zero, are no fault of a value.
_REASONS = {
    "22001": "a text is longer than what is stored of it; send a shorter one",
    "22003": "a number is larger than any that is stored; send a smaller one",
    "22007": "a time cannot be read; send it as 2026-03-01T08:00:00Z",
    "22008": "a time is outside of those that are stored; send one between the years 1 and 9999",
    "22021": "a text contains a character that is not stored; send valid Unicode without NUL",
    "22P02": "a value cannot be read as what is stored in its place",
    "22P05": "a text contains a character that is not stored; send valid Unicode without NUL",
    "54000": "a text is too long to be looked up by; send a shorter name or keyword",
}


def refused_value(error: BaseException | None) -> InvalidRequest | None:
    """The error as what is wrong with the request, or None if it is not of a value. The sentence quotes no statement and no value."""
    if isinstance(error, DBAPIError):
        error = error.orig
    if isinstance(error, UnicodeEncodeError):  # the driver's: half of a surrogate pair
        reason: str | None = _REASONS["22021"]
    elif isinstance(error, psycopg.Error) and error.sqlstate is not None:
        reason = _REASONS.get(error.sqlstate)
    else:  # the driver itself refused a NUL character, or a number or time that it cannot write
        reason = "a value cannot be stored; send valid Unicode without NUL, and smaller numbers" if _is_drivers(error) else None
    return None if reason is None else InvalidRequest([f"value: {reason}"])


def _is_drivers(error: BaseException | None) -> bool:
    return isinstance(error, psycopg.DataError)
