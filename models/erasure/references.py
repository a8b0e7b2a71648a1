"""Ids of what was erased, wherever other rows mention them: in JSON, in lists of ids, in texts.

Whoever writes may mention any id, so that no table can be left out: the columns come from the database's own catalogue, as in the
proof. A mention is no reason to delete the row that it stands in. Columns that name things by names that programs choose (keys,
sessions, correlations) are no references, even where such a name has the form of an id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from pydantic_core import from_json, to_json
from sqlalchemy import Connection

from models.db.connection import driver
from models.erasure.matching import UUIDS

#: What stands in a text, or in a list of texts, instead of an erased id: the form of an id, and nobody's.
NOBODY = "00000000-0000-0000-0000-000000000000"
#: Fields of JSON that only say which row another one replaces or repeats: without it they say nothing, and go.
REFERRING_FIELDS = frozenset({"replaces", "entry"})
#: Columns of names that programs choose.
NAMES = frozenset({"agent_id", "persona_name", "session_id", "correlation_id", "user_id", "run_id", "group_id"})
#: Rows fetched at once.
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may mention an id."""

    name: str
    #: ``text``, ``text[]``, ``uuid``, ``uuid[]`` or ``jsonb``.
    type: str


def columns(connection: Connection) -> dict[str, list[Column]]:
    """Table → its columns that may mention ids of others, of the tables that hold rows of groups."""
    found: dict[str, list[Column]] = {}
    for table, name, kind in driver(connection).execute(_COLUMNS, {"names": sorted(NAMES)}):
        found.setdefault(table, []).append(Column(name, kind))
    return found


def names(connection: Connection) -> dict[str, frozenset[str]]:
    """Table → its columns of names that programs choose: those of :data:`NAMES`, and texts that are part of a key."""
    found: dict[str, set[str]] = {}
    for table, name in driver(connection).execute(_NAME_COLUMNS, {"names": sorted(NAMES)}):
        found.setdefault(table, set()).add(name)
    return {table: frozenset(some) for table, some in found.items()}


def blank(connection: Connection, group_id: str, ids: Collection[str], besides: Collection[str]) -> Counter[str]:
    """Take the ids out of all rows of the group, but for the tables ``besides``. Returns how many rows were changed, by table.

    Safe to repeat because what was taken out is no longer found. Reads every row that mentions any id.
    """
    changed: Counter[str] = Counter()
    for table, some in columns(connection).items():
        if table not in besides:
            count = _blank_table(connection, table, some, group_id, frozenset(ids))
            if count:
                changed[table] = count
    return changed


def without(value: Any, ids: Collection[str]) -> Any:
    """A JSON value without the ids: referring fields go, other mentions become :data:`NOBODY`."""
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if not (key in REFERRING_FIELDS and part in ids)}
        return {_text_without(key, ids): without(part, ids) for key, part in kept.items()}
    if isinstance(value, list):
        return [without(part, ids) for part in value]
    return _text_without(value, ids) if isinstance(value, str) else value


def _text_without(value: str, ids: Collection[str]) -> str:
    return UUIDS.sub(lambda found: NOBODY if found[0] in ids else found[0], value)


def _value_without(column: Column, value: str, ids: Collection[str]) -> str | None:
    """A column's value, as text, without the ids; None where it was nothing but one."""
    if column.type == "uuid":
        return None
    if column.type == "uuid[]":
        left = [part for part in value.strip("{}").split(",") if part and part not in ids]
        return f"{{{','.join(left)}}}"
    if column.type == "jsonb":
        return to_json(without(from_json(value), ids)).decode()
    return _text_without(value, ids)  # the text of a list of texts, too: an id changes nothing in how it is quoted


def _blank_table(connection: Connection, table: str, some: list[Column], group_id: str, ids: frozenset[str]) -> int:
    names = [sql.Identifier(column.name) for column in some]
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(name) for name in names)
    mentions = sql.SQL("SELECT ctid::text, {} FROM {} WHERE group_id = {} AND concat_ws(' ', {}) ~ {}").format(
        texts, sql.Identifier(table), sql.Literal(group_id), texts, sql.Literal(UUIDS.pattern)
    )
    found: list[tuple[str, dict[Column, str]]] = []
    with driver(connection).cursor(name=f"mentions_{table}") as cursor:
        cursor.itersize = PAGE
        for place, *values in cursor.execute(mentions):
            told = {
                column: value
                for column, value in zip(some, values, strict=True)
                if value is not None and not ids.isdisjoint(UUIDS.findall(value))
            }
            if told:
                found.append((place, told))
    return sum(_change(connection, table, place, told, ids) for place, told in found)


def _change(connection: Connection, table: str, place: str, told: dict[Column, str], ids: frozenset[str]) -> int:
    """1, or 0 if the row was changed meanwhile: the proof finds it, and the erasure begins again."""
    sets = [sql.SQL("{} = {}::{}").format(sql.Identifier(column.name), sql.Placeholder(), sql.SQL(column.type)) for column in told]
    if table == "memory_nodes":  # indexes in memory read the row again
        sets.append(sql.Composed([sql.SQL("changed_xid = pg_current_xact_id()")]))
    same = [sql.SQL("{}::text = {}").format(sql.Identifier(column.name), sql.Placeholder()) for column in told]
    change = sql.SQL("UPDATE {} SET {} WHERE ctid = {}::tid AND {}").format(
        sql.Identifier(table), sql.SQL(", ").join(sets), sql.Placeholder(), sql.SQL(" AND ").join(same)
    )
    new = [_value_without(column, value, ids) for column, value in told.items()]
    return driver(connection).execute(change, [*new, place, *told.values()]).rowcount


_NAME_COLUMNS = """
    SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
      AND format_type(a.atttypid, NULL) IN ('text', 'text[]') AND (
          a.attname = ANY(%(names)s)
          OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY(i.indkey))
          OR EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = c.oid AND f.contype = 'f' AND a.attnum = ANY(f.conkey))
      )
"""
# Texts of keys are names; ids of keys are rows' own. A reference by an id that may not be null is of a row that goes itself.
_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, NULL) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
      AND format_type(a.atttypid, NULL) IN ('text', 'text[]', 'jsonb', 'uuid', 'uuid[]')
      AND NOT (format_type(a.atttypid, NULL) = 'uuid' AND a.attnotnull) AND a.attname <> ALL(%(names)s)
      AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY(i.indkey))
      AND NOT EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = c.oid AND f.contype = 'f' AND a.attnum = ANY(f.conkey))
      AND EXISTS (SELECT FROM pg_attribute g WHERE g.attrelid = c.oid AND g.attname = 'group_id' AND NOT g.attisdropped)
    ORDER BY c.relname, a.attnum
"""
