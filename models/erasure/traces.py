"""Traces of what was erased, in tables, Valkey, logs and backups: blanked, and proved to be gone.

Tables come from the catalogue, so none is forgotten; :data:`NOT_MEMORIES` gives reasons for exceptions. Any
row may mention an id, which is no reason to delete it. Names that programs choose are no references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import sql
from pydantic_core import from_json, to_json
from sqlalchemy import Connection

from engine.erasure import Whom
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.connection import driver
from models.db.valkey import valkey
from models.erasure.cache_invalidation import MAX_KEYS, SCAN_COUNT, contents, mentions
from models.erasure.matching import UUIDS
from models.operations import backups

#: Tables that hold no memories, or the erasure itself.
NOT_MEMORIES = {
    "alembic_version": "the schema's revision",
    "api_keys": "keys of programs, named by operators",
    "embedding_models": "names of models",
    "erasing_ids": "the erasure's own list of ids",
    "erasures": "the erasure itself: its names go with its end",
    "groups": "names of tenants",
    "oauth_connections": "programs that people let in",
    "users": "accounts of the admin",
}
#: Columns whose values are names of agents.
AGENT_COLUMNS = ("agent_id", "persona_name")
#: Columns that hold a tenant's name, or numbers only: no texts of users.
NOT_TEXTS = {"group_id", "embedding", "key_hash", "content_hash"}
#: Ids that stay: a tombstone has its event's, that is what it is there for; an erasure is still pending.
OWN_IDS = {"events": {"event_id"}}
#: Tables of the service's own records, which name agents in texts. Elsewhere an agent's name is somebody's
#: word.
NAMING_AGENTS = {"audit_log", "dead_letters", "job_ticks"}
#: Rows read at once.
PAGE = 5_000
#: Places that a report names of each table.
MAX_PLACES = 20
#: Characters of a line of a log that are looked at.
MAX_LINE = 100_000
#: Keys of one group each, whose names say which.
_OF_OTHERS = ("jiyi:stream:", "jiyi:touched:")
#: What stands in a text, or in a list of texts, instead of an erased id: the form of an id, and nobody's.
NOBODY = "00000000-0000-0000-0000-000000000000"
#: Fields of JSON that only say which row another one replaces or repeats: without it they say nothing, and
#: go.
REFERRING_FIELDS = frozenset({"replaces", "entry"})
#: Columns of names that programs choose.
NAMES = frozenset(
    {"agent_id", "persona_name", "session_id", "correlation_id", "user_id", "run_id", "group_id"}
)


@dataclass(slots=True)
class Proof:
    """What was searched, and what was found: nothing, if all went well."""

    rows: Counter[str] = field(default_factory=Counter)
    keys: int = 0
    log_files: int = 0
    remaining: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, where: str, place: str) -> None:
        self.remaining[where] += 1
        places = self.places.setdefault(where, [])
        if len(places) < MAX_PLACES:
            places.append(place)

    @property
    def document(self) -> JsonObject:
        tables = dict(sorted(self.rows.items()))
        return {
            "looked_through": {"tables": tables, "keys": self.keys, "log_files": self.log_files},
            "not_looked_through": NOT_MEMORIES,
            "left": sum(self.remaining.values()),
            "places": self.places,
        }


def tables(connection: Connection) -> dict[str, list[Column]]:
    return _by_table(driver(connection).execute(_CATALOGUE))


def _by_table(rows: Iterable[Any]) -> dict[str, list[Column]]:
    columns_of: dict[str, list[Column]] = {}
    for table, column, kind in rows:
        columns_of.setdefault(table, []).append(Column(column, kind))
    return columns_of


def search_tables(connection: Connection, proof: Proof, group_id: str, whom: Whom, ids: set[str]) -> None:
    """Rows of the group and of the whole service, as text.

    A tombstone keeps its event's id. A name that a program chose is no id, whatever its form.
    """
    ids_of = names(connection)
    for table, columns in tables(connection).items():
        if table in NOT_MEMORIES:
            continue
        proof.rows[table] = 0  # an empty table was searched, too
        for row in _rows(connection, table, columns, ids_of.get(table, frozenset()), group_id):
            proof.rows[table] += 1
            place, agent_id, name, text = row
            is_mentioned = agent_id in whom.agents or (table in NAMING_AGENTS and whom.names_agent(text))
            is_mentioned = is_mentioned or whom.names_person(name) or whom.names_person(text)
            if is_mentioned or not ids.isdisjoint(UUIDS.findall(text)):
                proof.add(table, place)


def _rows(
    connection: Connection, table: str, columns: list[Column], names: Collection[str], group_id: str
) -> Iterator[Any]:
    """(place, agent, names, text) of each row, by a server's cursor: tables may exceed memory."""
    column_names = {name for name, _ in columns}
    left_out = NOT_TEXTS | OWN_IDS.get(table, set())
    texts = [name for name, kind in columns if name not in left_out and kind not in ("vector", "bytea")]
    of_names, others = ([name for name in texts if (name in names) is is_name] for is_name in (True, False))
    agent = next((name for name in AGENT_COLUMNS if name in column_names), None)
    query = sql.SQL(
        "SELECT ctid::text, {}, concat_ws(E'\\x01', {}), concat_ws(E'\\x01', {}) FROM {} {}"
    ).format(
        sql.SQL("NULL::text") if agent is None else sql.Identifier(agent),
        *(
            sql.SQL(", ").join(
                [sql.SQL("''"), *(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names_of)]
            )
            for names_of in (of_names, others)
        ),
        sql.Identifier(table),
        sql.SQL("WHERE group_id = {} OR group_id IS NULL").format(sql.Literal(group_id))
        if "group_id" in column_names
        else sql.SQL(""),
    )
    with driver(connection).cursor(name=f"proof_{table}") as cursor:
        cursor.itersize = PAGE
        yield from cursor.execute(query)


def search_valkey(proof: Proof, group_id: str, whom: Whom, ids: set[str]) -> None:
    """Every key of ours: its name and all that it holds, whatever its type."""
    own = {f":{len(group_id)}:{group_id}:{agent_id}" for agent_id in whom.agents}
    for count, key in enumerate(valkey().scan_iter(match="jiyi:*", count=SCAN_COUNT)):
        if count >= MAX_KEYS:
            proof.add("valkey", f"more than {MAX_KEYS:,} keys: not all were looked at")
            return
        proof.keys += 1
        name = key.decode("utf-8", "replace")
        if name.startswith(_OF_OTHERS) and not f"{name}:".startswith(
            tuple(f"{prefix}{group_id}:" for prefix in _OF_OTHERS)
        ):
            continue
        if name.startswith(valkey_keys.WORKING) and name.split(":", 3)[-1] != group_id:
            continue
        values = contents(key)
        if name.startswith(valkey_keys.ACCESS):  # everybody's: another group may have a memory of the same id
            values = (entry for entry in values if entry.endswith(b":" + group_id.encode()))
        if name == valkey_keys.RETRIEVALS:  # everybody's, too
            values = (entry for entry in values if from_json(entry)["group_id"] == group_id)
        is_mentioned = any(name.endswith(entry) for entry in own) or whom.names_person(name)
        if is_mentioned or any(mentions(entry, ids, whom) for entry in values):
            proof.add("valkey", ":".join(name.split(":")[:2]))


def log_files() -> list[Path]:
    """Those of the embedded copy, as far as they are on this machine."""
    folder = get_settings().home / "log"
    return sorted(path for path in folder.rglob("*.log*") if path.is_file()) if folder.is_dir() else []


def blank_logs(whom: Whom) -> int:
    """Overwrite lines that name the person (of older versions); how many. In place: others are appending."""
    blanked = 0
    for path in log_files() if whom.person is not None else []:
        with suppress(PermissionError), path.open("r+b") as file:
            start = 0
            for line in iter(file.readline, b""):
                if whom.names_person(line[:MAX_LINE].decode("utf-8", "replace")):
                    file.seek(start)
                    file.write(b"-" * len(line.rstrip(b"\r\n")))
                    file.seek(start + len(line))
                    blanked += 1
                start += len(line)
    return blanked


def search_logs(proof: Proof, whom: Whom) -> None:
    """The embedded copy's log files, where readable. Agents' names are no secret there."""
    for path in log_files() if whom.person is not None else []:
        proof.log_files += 1
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if whom.names_person(line[:MAX_LINE]):
                    proof.add("logs", f"{path.name}:{number}")


def backups_before(moment: datetime) -> list[Path]:
    """Backups that still hold what was erased at that moment, newest first."""
    return [path for path in backups.existing() if backups.made_at(path) <= moment]


def backups_left(before: Collection[Path]) -> JsonMapping:
    """How many of those backups are left, and when the last expires; those with chosen names stay."""
    remaining, others = [path for path in before if path.exists()], backups.others()
    settings = get_settings()
    later = len(backups.existing()) - len(remaining)
    goes = remaining and settings.backup_hours and not others
    hours = max(settings.backup_keep - later, 0) * settings.backup_hours if goes else None
    return {
        "folder": str(backups.folder()),
        "holding_it": len(remaining) + len(others),
        "gone_after_hours": hours,
    }


class Column(NamedTuple):
    """A column that may mention an id; ``type``: ``text``, ``text[]``, ``uuid``, ``uuid[]`` or ``jsonb``."""

    name: str
    type: str


def columns(connection: Connection) -> dict[str, list[Column]]:
    """Table → its columns that may mention ids of others, of the tables that hold rows of groups."""
    return _by_table(driver(connection).execute(_COLUMNS, {"names": sorted(NAMES)}))


def names(connection: Connection) -> dict[str, frozenset[str]]:
    """Table → columns of names that programs choose: :data:`NAMES`, and texts that are part of a key."""
    columns_of: dict[str, set[str]] = {}
    for table, name in driver(connection).execute(_NAME_COLUMNS, {"names": sorted(NAMES)}):
        columns_of.setdefault(table, set()).add(name)
    return {table: frozenset(some) for table, some in columns_of.items()}


def blank(
    connection: Connection, group_id: str, ids: Collection[str], besides: Collection[str]
) -> Counter[str]:
    """Take the ids out of all rows of the group, but for the tables ``besides``; rows changed, by table."""
    changed: Counter[str] = Counter()
    for table, holding in columns(connection).items():
        if table not in besides:
            count = _blank_table(connection, table, holding, group_id, frozenset(ids))
            if count:
                changed[table] = count
    return changed


def without(value: Any, ids: Collection[str]) -> Any:
    """A JSON value without the ids: referring fields go, other mentions become :data:`NOBODY`."""
    if isinstance(value, dict):
        remaining = {
            key: part for key, part in value.items() if not (key in REFERRING_FIELDS and part in ids)
        }
        return {_text_without(key, ids): without(part, ids) for key, part in remaining.items()}
    if isinstance(value, list):
        return [without(part, ids) for part in value]
    return _text_without(value, ids) if isinstance(value, str) else value


def _text_without(value: str, ids: Collection[str]) -> str:
    return UUIDS.sub(lambda match: NOBODY if match[0] in ids else match[0], value)


def _value_without(column: Column, value: str, ids: Collection[str]) -> str | None:
    """A column's value, as text, without the ids; None where it was nothing but one."""
    if column.type == "uuid":
        return None
    if column.type == "uuid[]":
        remaining = [part for part in value.strip("{}").split(",") if part and part not in ids]
        return f"{{{','.join(remaining)}}}"
    if column.type == "jsonb":
        return to_json(without(from_json(value), ids)).decode()
    # the text of a list of texts, too: an id changes nothing in how it is quoted
    return _text_without(value, ids)


def _blank_table(
    connection: Connection, table: str, some: list[Column], group_id: str, ids: frozenset[str]
) -> int:
    names = [sql.Identifier(column.name) for column in some]
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(name) for name in names)
    mentions = sql.SQL(
        "SELECT ctid::text, {} FROM {} WHERE group_id = {} AND concat_ws(' ', {}) ~ {}"
    ).format(texts, sql.Identifier(table), sql.Literal(group_id), texts, sql.Literal(UUIDS.pattern))
    changes: list[tuple[str, dict[Column, str]]] = []
    with driver(connection).cursor(name=f"mentions_{table}") as cursor:
        cursor.itersize = PAGE
        for place, *values in cursor.execute(mentions):
            old_values = {
                column: value
                for column, value in zip(some, values, strict=True)
                if value is not None and not ids.isdisjoint(UUIDS.findall(value))
            }
            if old_values:
                changes.append((place, old_values))
    return sum(_change(connection, table, place, old_values, ids) for place, old_values in changes)


def _change(
    connection: Connection, table: str, place: str, old_values: dict[Column, str], ids: frozenset[str]
) -> int:
    """1, or 0 if the row was changed meanwhile: the proof finds it, and the erasure begins again."""
    sets = [
        sql.SQL("{} = {}::{}").format(sql.Identifier(column.name), sql.Placeholder(), sql.SQL(column.type))
        for column in old_values
    ]
    if table == "memory_nodes":  # indexes in memory read the row again
        sets.append(sql.Composed([sql.SQL("changed_xid = pg_current_xact_id()")]))
    same = [
        sql.SQL("{}::text = {}").format(sql.Identifier(column.name), sql.Placeholder())
        for column in old_values
    ]
    change = sql.SQL("UPDATE {} SET {} WHERE ctid = {}::tid AND {}").format(
        sql.Identifier(table), sql.SQL(", ").join(sets), sql.Placeholder(), sql.SQL(" AND ").join(same)
    )
    new = [_value_without(column, value, ids) for column, value in old_values.items()]
    return driver(connection).execute(change, [*new, place, *old_values.values()]).rowcount


_COLUMNS_OF = """
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
      AND c.relkind IN
"""
#: The column is part of a unique index, or refers to another table.
_IN_KEY = """(
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND a.attnum = ANY(i.indkey))
    OR EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = c.oid AND f.contype = 'f'
    AND a.attnum = ANY(f.conkey))
)"""
_TYPE, _IN_ORDER = "format_type(a.atttypid, NULL)", "ORDER BY c.relname, a.attnum"
_CATALOGUE = f"SELECT c.relname, a.attname, {_TYPE} {_COLUMNS_OF} ('r', 'p', 'm') {_IN_ORDER}"
_NAME_COLUMNS = f"""
    SELECT c.relname, a.attname {_COLUMNS_OF} ('r', 'p') AND {_TYPE} IN ('text', 'text[]')
      AND (a.attname = ANY(%(names)s) OR {_IN_KEY})
"""
# Texts of keys are names; ids of keys are rows' own. A reference by an id that may not be null is of a row
# that goes itself.
_COLUMNS = f"""
    SELECT c.relname, a.attname, {_TYPE} {_COLUMNS_OF} ('r', 'p')
      AND {_TYPE} IN ('text', 'text[]', 'jsonb', 'uuid', 'uuid[]')
      AND NOT ({_TYPE} = 'uuid' AND a.attnotnull) AND a.attname <> ALL(%(names)s) AND NOT {_IN_KEY}
      AND EXISTS (SELECT FROM pg_attribute g WHERE g.attrelid = c.oid AND g.attname = 'group_id'
      AND NOT g.attisdropped)
    {_IN_ORDER}
"""  # noqa: S608 – no value
