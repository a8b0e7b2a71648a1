"""Typed rows (a SELECT reads what a row type declares), conditions of lists, and COPY.

PostgreSQL refuses COPY under row-level security, and the ways around store a third fewer events a second. So
the owner copies, and each row's group is compared with the scope here, by the policy's rule for INSERT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.types.string import BytesBinaryDumper
from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Executable, Select, SQLColumnExpression, tuple_
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.orm import InstrumentedAttribute

from jiyi.protocol.base import Rows, encode_cursor
from jiyi.protocol.wire.vectors import Float32
from models.db.base import Base
from models.db.scope import as_owner_within, current
from models.db.spans import statement_span

R = TypeVar("R", bound=BaseModel)
#: Characters of what is searched for, and words of it that count.
MAX_WORDS_CHARS, MAX_WORDS = 200, 20
#: Characters of a text that a list carries; an entry's own page has all of it.
MAX_LISTED_CHARS = 2_000
#: Types whose values rows hold in PostgreSQL's binary form, see :class:`Copy`: as bytes they are only passed
#: on.
PACKED_TYPES = frozenset({"uuid", "jsonb", "text[]", "timestamp with time zone", "vector"})
#: What jsonb begins with in binary form: its version.
_JSONB_VERSION = b"\x01"
_TEXT_OID = 25


def columns(
    row: type[BaseModel] | Sequence[str], *tables: type[Base], **computed: SQLColumnExpression[Any] | None
) -> list[ColumnElement[Any]]:
    """What to select for ``row``: by field ``computed``, else the first table's column of that name.

    A field computed as None is not read. Raises LookupError if a field is neither.
    """
    fields = row.model_fields if isinstance(row, type) else row
    by_name = {name: computed[name] if name in computed else _column(name, tables) for name in fields}
    return [column.label(name) for name, column in by_name.items() if column is not None]


def names(row: type[BaseModel], table: type[Base]) -> list[str]:
    """The fields of ``row`` that are columns of the table."""
    return [name for name in row.model_fields if name in table.__table__.columns]


def upsert(table: type[Base], *changed: str) -> Insert:
    """An INSERT that changes these columns of the row of the same primary key, if there is one."""
    statement = insert(table)
    new_values = {name: statement.excluded[name] for name in changed}
    return statement.on_conflict_do_update(index_elements=list(table.__table__.primary_key), set_=new_values)


def fetch(connection: Connection, row: type[R], statement: Executable, **parameters: Any) -> list[R]:
    """The rows of the statement. They are not validated: the database has its own types and constraints."""
    return [row.model_construct(**values) for values in connection.execute(statement, parameters).mappings()]


def fetch_one(connection: Connection, row: type[R], statement: Executable, **parameters: Any) -> R | None:
    values = connection.execute(statement, parameters).mappings().one_or_none()
    return None if values is None else row.model_construct(**values)


class Record(dict[str, Any]):
    """A row by its columns' names, which are its attributes, too: what only a page shows needs no class."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)


def records(connection: Connection, statement: Executable, **parameters: Any) -> list[Record]:
    return [Record(row) for row in connection.execute(statement, parameters).mappings()]


def page(rows: list[R], limit: int, place: Callable[[R], object]) -> Rows[R]:
    """A page of a list that was read with one row too many, and the place where it ends if there are more."""
    following = encode_cursor(place(rows[limit - 1])) if len(rows) > limit else None
    return Rows.model_construct(rows=rows[:limit], next=following)


def behind(statement: Select[Any], place: Any, *order: SQLColumnExpression[Any]) -> Select[Any]:
    """The rows in this order, the highest first, from behind a place on (None: from the first on)."""
    if place is not None:
        statement = statement.where((tuple_(*order) if len(order) > 1 else order[0]) < place)
    return statement.order_by(*(column.desc() for column in order))


def _column(name: str, tables: tuple[type[Base], ...]) -> SQLColumnExpression[Any]:
    for table in tables:
        if name in table.__table__.columns:
            column: ColumnElement[Any] = table.__table__.columns[name]
            return column
    table_names = ", ".join(table.__tablename__ for table in tables)
    raise LookupError(f"{name}: no column of {table_names}, and nothing computed")


def equal_if_given(*pairs: tuple[SQLColumnExpression[Any], object]) -> Iterator[ColumnElement[bool]]:
    """Each column has the value beside it; None asks for nothing."""
    for column, value in pairs:
        if value is not None:
            yield column == value


def has_words(column: InstrumentedAttribute[Any], words: str) -> Iterator[ColumnElement[bool]]:
    """Each word stands somewhere in the text, whatever its case."""
    for word in words[:MAX_WORDS_CHARS].split()[:MAX_WORDS]:
        yield column.ilike(ilike_pattern(word))


def ilike_pattern(word: str) -> str:
    """``word`` anywhere in a text, for ILIKE; its own wildcards stand for themselves."""
    for special in ("\\", "%", "_"):
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


class ForeignRowError(Exception):
    """A row is of a group that the current scope does not allow. Nothing was copied."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows for a table; columns that are not named get its defaults. uuid, jsonb, text[], timestamptz and
    vector are bytes: ``UUID.bytes`` and the ``packed_…`` functions make them.
    """

    table: type[Base]
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def packed_json(encoded: bytes) -> bytes:
    return _JSONB_VERSION + encoded


def packed_texts(texts: Sequence[str]) -> bytes:
    if not texts:
        return _EMPTY_ARRAY_HEADER.pack(0, 0, _TEXT_OID)
    parts = [_ARRAY_HEADER.pack(1, 0, _TEXT_OID, len(texts), 1)]
    for text in texts:
        encoded = text.encode()
        parts += (_LENGTH.pack(len(encoded)), encoded)
    return b"".join(parts)


def packed_time(moment: datetime) -> bytes:
    return _TIME.pack((moment - _EPOCH) // _MICROSECOND)


def packed_vector(values: Float32) -> bytes:
    return _VECTOR_HEADER.pack(len(values), 0) + values.astype(">f4").tobytes()


def copy_rows(connection: psycopg.Connection, copies: Sequence[Copy]) -> None:
    """Append by binary COPY, in this order. Raises :class:`ForeignRowError` for a group not in the scope."""
    non_empty = [copy for copy in copies if copy.rows]
    for copy in non_empty:
        _check(copy)
    if non_empty:
        with as_owner_within(connection):
            for copy in non_empty:
                _copy(connection, copy)


def _check(copy: Copy) -> None:
    scope = current()
    if scope.whole_service:
        return
    foreign = set(map(itemgetter(copy.columns.index("group_id")), copy.rows)) - set(scope.groups)
    if foreign:
        what = f"rows of the group {min(foreign)!r} for {copy.table.__tablename__}"
        raise ForeignRowError(f"{what}: the scope is {sorted(scope.groups)}")


def _copy(connection: psycopg.Connection, copy: Copy) -> None:
    with connection.cursor() as cursor:
        # of those for bytea the one that is written in C
        cursor.adapters.register_dumper(bytes, BytesBinaryDumper)
        statement = _statement(copy.table, copy.columns)
        with statement_span(f"COPY {copy.table.__tablename__}"), cursor.copy(statement) as into:
            into.set_types(_types(copy.table, copy.columns))
            for row in copy.rows:
                into.write_row(row)


@lru_cache(maxsize=32)
def _statement(table: type[Base], columns: tuple[str, ...]) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)")
    return copy.format(sql.Identifier(table.__tablename__), names)


@lru_cache(maxsize=32)
def _types(table: type[Base], columns: tuple[str, ...]) -> list[int]:
    """OIDs of the types that COPY takes the values for; packed values pass through unchanged."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    names = [table.__table__.columns[name].type.compile(dialect).lower() for name in columns]
    return [psycopg.adapters.types.get_oid("bytea" if name in PACKED_TYPES else name) for name in names]


#: A text[] in binary form: dimensions, whether there are NULLs, type of the elements, their number, and the
#: first one's index.
_ARRAY_HEADER = Struct("!iiIii")
_EMPTY_ARRAY_HEADER = Struct("!iiI")
_LENGTH = Struct("!i")
#: A timestamptz in binary form: microseconds since its epoch.
_TIME, _EPOCH, _MICROSECOND = Struct("!q"), datetime(2000, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
#: A vector in binary form begins with its dimensions, and nothing.
_VECTOR_HEADER = Struct("!HH")
