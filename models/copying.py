"""COPY, the fastest way into a table: many rows in one round trip, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql


def copy_rows(connection: psycopg.Connection, table: str, columns: Mapping[str, str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Append ``rows`` to ``table`` by binary COPY.

    ``columns`` gives each column's name and PostgreSQL type, in the order of the rows' values.
    """
    rows = list(rows)
    if not rows:
        return
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
