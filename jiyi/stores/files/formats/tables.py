"""CSV as text: a row a line, each value with the name of its column, so that a row is understood without the first one (DA-38)."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from jiyi.stores.files.states import Unusable

DELIMITERS = ",;\t|"


def csv_text(text: str) -> str:
    """The rows of a table, as ``name: Mia; city: Berlin``. Empty values are left out.

    The delimiter is the one of ``,;|`` and tab that the first line has most of. The first row names the columns, unless a value
    of it is empty, a number, or there twice.

    Raises:
        Unusable: ``malformed`` if it cannot be read as a table.
    """
    first = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        rows = [[" ".join(value.split()) for value in row] for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter)]
    except csv.Error as error:
        raise Unusable("malformed", f"it cannot be read as CSV: {error}") from None
    if not rows or not _are_names(rows[0]):
        return "\n".join("; ".join(filter(None, row)) for row in rows)
    return "\n".join(_line(rows[0], row) for row in rows[1:]) or "; ".join(rows[0])


def _line(names: Sequence[str], row: Sequence[str]) -> str:
    named = [f"{name}: {value}" for name, value in zip(names, row, strict=False) if value]
    return "; ".join([*named, *filter(None, row[len(names) :])])


def _are_names(row: Sequence[str]) -> bool:
    return all(value and not _is_number(value) for value in row) and len(set(row)) == len(row) > 1


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).replace("-", "", 1).isdecimal()
