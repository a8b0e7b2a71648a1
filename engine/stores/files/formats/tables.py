"""CSV as text: a row a line, each value with the name of its column, so that a row is understood without the first one."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from engine.stores.files.formats.limited import joined
from engine.stores.files.states import Unusable

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
    read = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    rows = ([" ".join(value.split()) for value in row] for row in read)
    try:
        return joined(_lines(rows))
    except csv.Error as error:
        raise Unusable("malformed", f"it cannot be read as CSV: {error}") from None


def _lines(rows: Iterator[list[str]]) -> Iterator[str]:
    names = next(rows, [])
    if not _are_names(names):
        yield "; ".join(filter(None, names))
        yield from ("; ".join(filter(None, row)) for row in rows)
        return
    row = next(rows, None)
    if row is None:
        yield "; ".join(names)
        return
    yield _line(names, row)
    yield from (_line(names, row) for row in rows)


def _line(names: Sequence[str], row: Sequence[str]) -> str:
    named = [f"{name}: {value}" for name, value in zip(names, row, strict=False) if value]
    return "; ".join([*named, *filter(None, row[len(names) :])])


def _are_names(row: Sequence[str]) -> bool:
    return all(value and not _is_number(value) for value in row) and len(set(row)) == len(row) > 1


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).replace("-", "", 1).isdecimal()
