"""Typed rows: a SELECT reads the fields that a row type declares, so that no list of columns is written twice; conditions of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Executable, SQLColumnExpression
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.orm import InstrumentedAttribute

from jiyi.protocol.base import Rows
from models.db.base import Base

R = TypeVar("R", bound=BaseModel)
#: Characters of what is searched for, and words of it that count.
MAX_WORDS_CHARS, MAX_WORDS = 200, 20
#: Characters of a text that a list carries; an entry's own page has all of it.
MAX_LISTED_CHARS = 2_000


def columns(row: type[BaseModel], *tables: type[Base], **computed: SQLColumnExpression[Any]) -> list[ColumnElement[Any]]:
    """What to select for ``row``: for each field what ``computed`` says, else the column of its name in the first table that has it.

    Raises:
        LookupError: a field is neither.
    """
    return [_column(name, tables, computed).label(name) for name in row.model_fields]


def names(row: type[BaseModel], table: type[Base]) -> list[str]:
    """The fields of ``row`` that are columns of the table."""
    return [name for name in row.model_fields if name in table.__table__.columns]


def upsert(table: type[Base], *changed: str) -> Insert:
    """An INSERT that changes these columns of the row of the same primary key, if there is one."""
    stored = insert(table)
    anew = {name: stored.excluded[name] for name in changed}
    return stored.on_conflict_do_update(index_elements=list(table.__table__.primary_key), set_=anew)


def fetch(connection: Connection, row: type[R], statement: Executable, **parameters: Any) -> list[R]:
    """The rows of the statement. They are not validated: the database has its own types and constraints."""
    return [row.model_construct(**values) for values in connection.execute(statement, parameters).mappings()]


def fetch_one(connection: Connection, row: type[R], statement: Executable, **parameters: Any) -> R | None:
    """The only row of the statement, or None."""
    values = connection.execute(statement, parameters).mappings().one_or_none()
    return None if values is None else row.model_construct(**values)


def page(rows: list[R], limit: int, place: Callable[[R], object]) -> Rows[R]:
    """A page of a list, with the place at which it ends unless it is the last one."""
    return Rows.model_construct(rows=rows, next=place(rows[-1]) if len(rows) == limit else None)


def _column(name: str, tables: tuple[type[Base], ...], computed: dict[str, SQLColumnExpression[Any]]) -> SQLColumnExpression[Any]:
    if name in computed:
        return computed[name]
    for table in tables:
        if name in table.__table__.columns:
            column: ColumnElement[Any] = table.__table__.columns[name]
            return column
    raise LookupError(f"{name}: no column of {', '.join(table.__tablename__ for table in tables)}, and nothing computed")


def equal_if_given(*wanted: tuple[InstrumentedAttribute[Any], object]) -> Iterator[ColumnElement[bool]]:
    """Each column has the value beside it; None asks for nothing."""
    for column, value in wanted:
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
