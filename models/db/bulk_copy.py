"""COPY, the fastest way into a table: many rows in one round trip, in the caller's transaction.

PostgreSQL refuses to COPY into a table under row-level security, and the ways around that it allows (a temporary table
and INSERT … SELECT from it) store a third fewer events a second. So the owner copies, and each row's group is compared
with the scope here, by the rule that row-level security has for INSERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.dialects import postgresql

from models.db.base import Base
from models.db.roles import as_owner_within
from models.db.scope import current


class ForeignRowError(Exception):
    """A row is of a group that the current scope does not allow. Nothing was copied."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows for a table: each a mapping of the same columns to values. Columns that no row has get the table's defaults."""

    table: type[Base]
    rows: Sequence[Mapping[str, Any]]


def copy_rows(connection: psycopg.Connection, copies: Sequence[Copy]) -> None:
    """Append to the tables, in this order, by binary COPY. Every row has a ``group_id``.

    Raises:
        ForeignRowError: the current scope does not allow one of the groups.
    """
    copies = [copy for copy in copies if copy.rows]
    for copy in copies:
        _check(copy)
    if copies:
        with as_owner_within(connection):
            for copy in copies:
                _copy(connection, copy)


def _check(copy: Copy) -> None:
    scope = current()
    if scope.whole_service:
        return
    foreign = {row["group_id"] for row in copy.rows} - set(scope.groups)
    if foreign:
        raise ForeignRowError(f"rows of the group {min(foreign)!r} for {copy.table.__tablename__}: the scope is {sorted(scope.groups)}")


def _copy(connection: psycopg.Connection, copy: Copy) -> None:
    columns = tuple(copy.rows[0])
    statement, types = _statement(copy.table, columns)
    values = itemgetter(*columns)
    with connection.cursor() as cursor, cursor.copy(statement) as into:
        into.set_types(types)
        for row in copy.rows:
            into.write_row(values(row))


@lru_cache(maxsize=32)
def _statement(table: type[Base], columns: tuple[str, ...]) -> tuple[sql.Composed, list[str]]:
    """COPY into these columns, and their types as PostgreSQL names them."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    types = [table.__table__.columns[name].type.compile(dialect).lower() for name in columns]
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(sql.Identifier(table.__tablename__), names), types
