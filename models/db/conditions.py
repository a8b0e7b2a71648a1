"""Lists that people filter: conditions and their values, put together."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Connection, TextClause

#: A frozen dataclass: a row as it is read.
R = TypeVar("R")
Row = dict[str, Any]

#: Characters of what is searched for, and words of it that count.
MAX_WORDS_CHARS, MAX_WORDS = 200, 20
#: Characters of a text that a list carries; an entry's own page has all of it.
MAX_LISTED_CHARS = 2_000


class Conditions:
    """Of one table of a group, which the query calls by the name given here."""

    def __init__(self, table: str, group_id: str) -> None:
        self._table, self.parts, self.given = table, [f"{table}.group_id = :group"], {"group": group_id}

    def only(self, condition: str, **values: Any) -> None:
        self.parts.append(condition)
        self.given.update(values)

    def equal(self, **values: Any) -> None:
        """Columns with a value, as far as one is given."""
        for column, value in values.items():
            if value is not None:
                self.only(f"{self._table}.{column} = :{column}", **{column: value})

    def words(self, words: str) -> None:
        """Each word somewhere in the text, whatever its case."""
        for number, word in enumerate(words[:MAX_WORDS_CHARS].split()[:MAX_WORDS]):
            self.only(f"{self._table}.content ILIKE :word{number}", **{f"word{number}": ilike_pattern(word)})

    def where(self) -> str:
        return " AND ".join(self.parts)


def ilike_pattern(word: str) -> str:
    """``word`` anywhere in a text, for ILIKE; its own wildcards stand for themselves."""
    for special in ("\\", "%", "_"):
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


def columns(row: type, table: str, **expressions: str) -> str:
    """The columns that make a row type, for SELECT: the table's own by the names of the fields, others by expressions."""
    names = [field.name for field in fields(row)]
    assert expressions.keys() <= set(names), f"{row.__name__} has no {expressions.keys() - set(names)}"
    return ", ".join(f"{expressions[name]} AS {name}" if name in expressions else f"{table}.{name}" for name in names)


def typed(connection: Connection, row: type[R], statement: TextClause, **given: Any) -> list[R]:
    """The rows that a statement finds, as their type."""
    return [row(**found) for found in connection.execute(statement, given).mappings()]


def rows(connection: Connection, statement: TextClause, **given: Any) -> list[Row]:
    return [dict(row) for row in connection.execute(statement, given).mappings()]
