"""alembic in databases of its own: from nothing to the newest, back, and from every earlier revision with data in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from models.db import connection as base
from tests.integration.threads import Threads
from workers import migrate
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.migrate import WrongRevision, upgrade

CHECKOUT = Path(__file__).resolve().parents[3]
ALEMBIC_SECONDS = 120
#: From the first to the newest.
REVISIONS = [script.revision for script in ScriptDirectory.from_config(Config(CHECKOUT / "alembic.ini")).walk_revisions()][::-1]

#: One row of each table, as the code of revision 0001 wrote them. Migrations are backward compatible with it.
ROWS = {
    "groups": {"group_id": "g"},
    "agents": {
        "group_id": "g",
        "agent_id": "klaus",
        "agent_key": "00000000-0000-7000-8000-000000000001",
        "settings": '{"mode": "stanford"}',
        "node_count": 1,
        "type_counts": '{"event": 1}',
        "importance_trigger_curr": 142.5,
        "importance_ele_n": 3,
    },
    "events": {
        "event_id": "00000000-0000-7000-8000-000000000002",
        "type": "memory.observed",
        "version": 1,
        "group_id": "g",
        "agent_id": "klaus",
        "session_id": "s",
        "occurred_at": "2026-03-01 08:00+00",
        "payload": '{"description": "Klaus reads 书"}',
        "outcome": "stored",
        "node_id": "00000000-0000-7000-8000-000000000002",
    },
    "memory_nodes": {
        "node_id": "00000000-0000-7000-8000-000000000002",
        "group_id": "g",
        "agent_id": "klaus",
        "session_id": "s",
        "type": "event",
        "node_count": 1,
        "type_count": 1,
        "depth": 0,
        "created_at": "2026-03-01 08:00+00",
        "subject": "Klaus",
        "predicate": "reads",
        "object": "书",
        "description": "Klaus reads 书",
        "embedding_key": "Klaus reads 书",
        "key_hash": "\\x01",
        "content_hash": "\\x02",
        "keywords": '{"Klaus","书"}',
        "keywords_lower": '{"klaus","书"}',
        "poignancy": 4,
        "is_idle": False,
        "filling": '[["Klaus", "hello"]]',
        "provenance": '{"source": "test"}',
        "embedding": "[0.25,0.5,1]",
        "embedding_model": "m",
    },
    "node_access": {"node_id": "00000000-0000-7000-8000-000000000002", "last_accessed": "2026-03-02 08:00+00", "access_count": 7},
    "kw_strength": {"group_id": "g", "agent_id": "klaus", "memory_type": "event", "keyword": "书", "strength": 5},
    "pending_work": {
        "kind": "strengthen",
        "subject_id": "00000000-0000-7000-8000-000000000002",
        "group_id": "g",
        "attempts": 2,
        "last_error": "none",
    },
    "dead_letters": {"letter_id": "00000000-0000-7000-8000-000000000003", "kind": "intake", "reason": "not JSON", "body": "{"},
    "job_ticks": {"job": "reconcile", "slot": "2026-03-01 08:00+00", "summary": '{"buried": 0}'},
}


class Database:
    """An empty database on the embedded server, and alembic as people call it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def alembic(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("alembic", *arguments)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A module of ours, in a process of its own."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JIYI_")}
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=CHECKOUT,
            env=environment | {"JIYI_DATABASE_URL": self.url, "JIYI_BROKER_URL": "memory://"},
            capture_output=True,
            text=True,
            timeout=ALEMBIC_SECONDS,
            check=False,
        )

    def run(self, *arguments: str) -> str:
        done = self.alembic(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def upgrade(self, revision: str = "head") -> None:
        """As the service does it, in this process: to start another takes longer than to migrate."""
        with environment(database_url=self.url):
            upgrade(revision)

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def tables(self) -> set[str]:
        found = self.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {name for (name,) in found} - {"alembic_version"}

    def columns(self, table: str) -> set[str]:
        found = self.query("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped", table)
        return {name for (name,) in found}

    def revision(self) -> str | None:
        return next((revision for (revision,) in self.query("SELECT version_num FROM alembic_version")), None)

    def fill(self, number: int = 0) -> None:
        """A row in each table; with another number, another one, of another group."""
        for table, row in ROWS.items():
            names = {"group_id": "g", "job": "reconcile"}
            own = {name: f"{value}{number or ''}" for name, value in names.items() if name in row}
            values = [
                str(value).replace("00000000-", f"{number:08}-") if "-7000-" in str(value) else value for value in (row | own).values()
            ]
            marks = ", ".join(["%s"] * len(row))
            self.query(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *values)

    def content(self, of: dict[str, list[str]]) -> dict[str, set[tuple[Any, ...]]]:
        """Each table's rows as text, of the columns given."""
        return {
            table: set(self.query("SELECT " + ", ".join(f"CAST({column} AS text)" for column in columns) + f" FROM {table}"))
            for table, columns in of.items()
        }


@pytest.fixture
def empty(database: Stack) -> Iterator[Database]:
    name = f"migrations_{uuid4().hex[:12]}"
    server = Database(database.urls.database_url)
    server.query(f"CREATE DATABASE {name}")
    try:
        yield Database(database.urls.database_url.replace("/jiyi?", f"/{name}?"))
    finally:
        server.query(f"DROP DATABASE {name} WITH (FORCE)")


def test_an_empty_database_is_brought_to_the_newest_revision_equals_the_models_and_back(empty: Database) -> None:
    empty.run("upgrade", "head")
    assert empty.revision() == REVISIONS[-1]
    assert empty.tables() >= ROWS.keys()
    assert "No new upgrade operations detected" in empty.run("check")
    empty.fill()
    empty.run("downgrade", "base")
    assert (empty.tables(), empty.revision()) == (set(), None)
    empty.upgrade()
    assert empty.query("SELECT count(*) FROM memory_nodes") == [(0,)]
    empty.query("ALTER TABLE kw_strength DROP COLUMN strength")
    assert empty.alembic("check").returncode != 0  # so the check above can fail


def test_an_upgrade_keeps_the_data_of_an_earlier_revision(empty: Database) -> None:
    """One database: at each revision rows are added as that revision's code wrote them; in the end none has changed."""
    before: dict[str, tuple[dict[str, list[str]], dict[str, set[tuple[Any, ...]]]]] = {}
    for number, revision in enumerate(REVISIONS, start=1):
        empty.upgrade(revision)
        empty.fill(number)
        columns = {table: sorted(empty.columns(table)) for table in ROWS}
        assert all(row.keys() <= set(columns[table]) for table, row in ROWS.items())
        before[revision] = columns, empty.content(columns)
        assert all(len(found) >= number for found in before[revision][1].values())  # work may be owed anew
    assert empty.revision() == REVISIONS[-1]
    for revision, (columns, rows) in before.items():
        missing = {table: set(columns[table]) - empty.columns(table) for table in ROWS}
        assert not any(missing.values()), f"columns that the code of {revision} still uses are gone: {missing}"
        after = empty.content(columns)  # a migration may add rows (work that is owed anew), but change none
        assert [(revision, table) for table in ROWS if not rows[table] <= after[table]] == []


def test_vectors_that_are_not_of_their_models_size_are_owed_anew(empty: Database) -> None:
    empty.upgrade("0022")
    empty.fill()
    empty.query("""
        INSERT INTO embedding_models (model, spec, dimensions, state, active_since) VALUES
            ('hashing-8', 'hashing:8', 2, 'active', now()),  -- taken from a caller's vector once
            ('m', 'compatible:m', 3, 'retired', now())
    """)
    first, model = "00000000-0000-7000-8000-00000000001", "hashing-8"
    others = [("1", "[1,2]", model), ("2", "[1,2,3,4,5,6,7,8]", model), ("3", "[1]", "m"), ("4", "[1,2]", "theirs"), ("5", None, None)]
    kept = [name for name in ROWS["memory_nodes"] if name not in ("node_id", "node_count", "type_count", "embedding", "embedding_model")]
    for last, vector, name in others:
        empty.query(
            f"INSERT INTO memory_nodes (node_id, node_count, type_count, embedding, embedding_model, {', '.join(kept)}) "
            f"SELECT %s, %s, node_count + %s, %s::vector, %s, {', '.join(kept)} FROM memory_nodes WHERE node_count = 1",
            first + last, int(last) + 1, int(last), vector, name,
        )  # fmt: skip
    before = empty.query("SELECT coalesce(max(changed_xid::text::bigint), 0) FROM memory_nodes")[0][0]
    empty.upgrade("0023")
    assert empty.query("SELECT dimensions FROM embedding_models ORDER BY model") == [(8,), (3,)]
    left = empty.query("SELECT node_count, embedding_model, vector_dims(embedding) FROM memory_nodes ORDER BY node_count")
    assert left == [(1, "m", 3), (2, None, None), (3, model, 8), (4, None, None), (5, "theirs", 2), (6, None, None)]
    owed = empty.query("SELECT subject_id::text FROM pending_work WHERE kind = 'embed' AND group_id = 'g' ORDER BY 1")
    assert owed == [(first + "1",), (first + "3",)]
    touched = empty.query("SELECT node_count FROM memory_nodes WHERE changed_xid::text::bigint > %s ORDER BY 1", before)
    assert touched == [(2,), (4,)]  # so indexes in memory read them again


def test_indexes_of_nearest_vectors_get_their_size_into_their_names(empty: Database) -> None:
    def names() -> list[str]:
        return [row[0] for row in empty.query("SELECT indexname FROM pg_indexes WHERE indexname LIKE 'memory_nodes_nearest%%' ORDER BY 1")]

    empty.upgrade("0023")
    before = [f"memory_nodes_nearest_{digit * 12}" for digit in "ab"]
    for name, size in zip(before, (3, 384), strict=True):
        empty.query(
            f"CREATE INDEX {name} ON memory_nodes USING hnsw ((embedding::vector({size})) vector_cosine_ops) "
            f"WHERE large AND embedding_model = 'm' AND vector_dims(embedding) = {size}"
        )
    empty.upgrade("0024")
    assert names() == [f"{before[0]}_3", f"{before[1]}_384"]
    empty.run("downgrade", "0023")
    assert names() == before


def test_two_upgrades_at_once_take_turns(empty: Database) -> None:
    with Threads(2) as pool:
        both = [future.result() for future in [pool.submit(empty.alembic, "upgrade", "head") for _ in range(2)]]
    assert [done.returncode for done in both] == [0, 0], both
    assert empty.revision() == REVISIONS[-1]


def test_a_lock_that_is_held_fails_the_migration_instead_of_queueing_everybody_behind_it(empty: Database) -> None:
    empty.upgrade()
    with psycopg.connect(empty.url.replace("+psycopg", "")) as connection:
        connection.execute("SELECT 1 FROM memory_nodes")  # an open transaction of somebody who reads
        refused = empty.alembic("downgrade", "base")
    assert refused.returncode != 0
    assert "lock timeout" in refused.stderr
    stopped_at = empty.revision()  # what came before it, and needs no lock on the table, is done
    assert stopped_at not in (None, "0001")
    assert empty.tables() >= ROWS.keys()
    empty.upgrade()
    assert empty.revision() == REVISIONS[-1]


def test_a_migration_may_take_longer_than_the_services_statements(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    empty.query("""
        CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.4); END';
        CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION slow()
    """)
    empty.upgrade("0004")
    monkeypatch.setattr(base, "STATEMENT_TIMEOUT_MS", 300)
    with environment(database_url=empty.url):
        upgrade("0005")
    assert empty.revision() == "0005"


def test_a_memorys_foreign_key_is_checked_by_the_primary_key_before_the_first_analyze(empty: Database) -> None:
    empty.upgrade()
    row = {**ROWS["memory_nodes"], "node_id": None, "node_count": None, "type_count": None}
    marks = ", ".join({"node_id": "gen_random_uuid()", "node_count": "n", "type_count": "n"}.get(column, "%s") for column in row)
    empty.fill()
    check = "EXPLAIN (GENERIC_PLAN) SELECT FROM ONLY memory_nodes x WHERE node_id = $1 AND group_id = $2 FOR KEY SHARE OF x"
    with psycopg.connect(empty.url.replace("+psycopg", "")) as connection:  # uncommitted, so nothing can be analysed meanwhile
        connection.execute(
            f"INSERT INTO memory_nodes ({', '.join(row)}) SELECT {marks} FROM generate_series(2, 300) n".encode(),
            [value for value in row.values() if value is not None],
        )

        def plan() -> str:
            return "\n".join(line for (line,) in psycopg.ClientCursor(connection).execute(check.encode()).fetchall())

        assert "using memory_nodes_pkey" in plan()
        connection.execute("SELECT pg_clear_attribute_stats(current_schema(), 'memory_nodes', 'group_id', false)")
        assert "using memory_nodes_pkey" not in plan()  # so the line above can fail


# Item 17: code and database that do not belong together


def run_module(empty: Database, *arguments: str, code: int) -> str:
    """Its one line on stderr, where it fails."""
    done = empty.python(*arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


def test_17_old_code_on_a_newer_database_and_an_unknown_revision_end_in_one_sentence(empty: Database) -> None:
    newer, unknown = "a later version has migrated it", "which no version of Jiyi has"
    with environment(database_url=empty.url):
        upgrade()
        for revision, words in (("abc", unknown), ("0000", unknown), ("9999", newer)):
            empty.query("UPDATE alembic_version SET version_num = %s", revision)
            for step in (upgrade, migrate.check):
                with pytest.raises(WrongRevision, match=f"'?{revision}'?.*{words}.*docs/operations.md$"):
                    step()
    for arguments in (("workers.migrate",), ("workers.procfile", "upkeep"), ("workers.procfile", "web")):
        told = run_module(empty, *arguments, code=1)
        assert told.count("\n") == 0, told
        assert newer in told
    assert empty.revision() == "9999"


def test_17_code_on_a_database_that_was_not_migrated_yet_says_what_to_run(empty: Database) -> None:
    told = run_module(empty, "workers.procfile", "intake", code=1)
    assert (told.count("\n"), "is empty" in told, "python -m workers.migrate" in told) == (0, True, True)
    with environment(database_url=empty.url):
        upgrade(REVISIONS[0])
        with pytest.raises(WrongRevision, match=f"is at revision {REVISIONS[0]}, this version needs {REVISIONS[-1]}"):
            migrate.check()
        with pytest.raises(WrongRevision, match="there is no revision 'nonsense'"):
            upgrade("nonsense")
    run_module(empty, "workers.migrate", code=0)
    assert empty.revision() == REVISIONS[-1]
