"""A backup becomes the database. What was there stays aside until the new content is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from jiyi.polling import poll
from models.db import scope
from models.operations import backups
from models.operations.backups import BackupError
from models.retrieval.enlargement import MAX_BUILD_MB

#: Where the tables wait that are being replaced.
ASIDE = "jiyi_before_restore"
#: Seconds within which a connection that its program has closed is gone from the server, too.
ENDING_SECONDS = 2.0
#: Indexes of large agents' vectors are made in memory, and by one process: containers have little memory that
#: processes share.
FOR_INDEXES = f"-c maintenance_work_mem={MAX_BUILD_MB}MB -c max_parallel_maintenance_workers=0"
#: Transactions of another server may be ahead of this one's, and indexes in a worker's memory would read such
#: rows every time. They are set right while they are loaded: once a large agent's vectors are indexed, a
#: change of each row takes hours.
_AS_OF_NOW = """
    CREATE FUNCTION public.jiyi_as_of_now() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.changed_xid := least(NEW.changed_xid, pg_current_xact_id());
        RETURN NEW;
    END $$;
    CREATE TRIGGER as_of_now BEFORE INSERT ON public.memory_nodes FOR EACH ROW EXECUTE FUNCTION
    public.jiyi_as_of_now();
"""
#: Tables whose rows are no data that could be missed.
NO_DATA = {"alembic_version", "embedding_models", "job_ticks"}


def restore(path: Path, *, force: bool = False) -> dict[str, int]:
    """Put a backup's content in the place of the database's; rows by table.

    ``force``: replace data, after a backup of it. Raises :class:`BackupError`, with nothing changed: no sound
    backup, somebody connected, or data there.
    """
    backups.verify(path)
    with backups.connect() as connection:
        _refuse_company(connection)
        _refuse_leftovers(connection)
        counts = row_counts(connection)
        data = {table: rows for table, rows in counts.items() if rows and table not in NO_DATA}
        if data and not force:
            summary = ", ".join(f"{rows:,} {table}" for table, rows in sorted(data.items()))
            raise BackupError(
                f"the database has data ({summary}), and nothing was changed: restore into an empty one, or"
                " replace what is there with --force"
            )
        if data:
            backups.make()
        _move(connection, "public", ASIDE)
        try:
            _load(connection, path)
        except BaseException:
            _drop_tables(connection)
            _move(connection, ASIDE, "public")
            raise
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(ASIDE)))
        return row_counts(connection)


def row_counts(connection: psycopg.Connection) -> dict[str, int]:
    counts = {}
    for table in _tables(connection, "public"):
        row = connection.execute(
            sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("public", table))
        ).fetchone()
        assert row is not None
        counts[table] = int(row[0])
    return counts


def _load(connection: psycopg.Connection, path: Path) -> None:
    address, environment = backups.conninfo()
    command: list[str | Path] = [
        backups.program("pg_restore", connection.info.server_version // 10_000),
        "--single-transaction",
        "--no-owner",
        "--no-privileges",
        "--no-password",
        f"--dbname={address}",
    ]
    environment = {**environment, "PGOPTIONS": f"{environment.get('PGOPTIONS', '')} {FOR_INDEXES}"}

    def load(section: str) -> None:
        backups.run([*command, f"--section={section}", path], environment)

    load("pre-data")  # tables
    connection.execute(_AS_OF_NOW)
    load("data")
    connection.execute("DROP FUNCTION public.jiyi_as_of_now CASCADE")
    load("post-data")  # indexes, and all else that rests on rows
    connection.execute("ANALYZE")
    if scope.is_secured(connection):  # a backup has no roles, and none of their rights
        with connection.transaction():
            scope.establish(connection)


def _refuse_company(connection: psycopg.Connection) -> None:
    others = poll(lambda: _others(connection), lambda count: not count, ENDING_SECONDS)
    if others:
        raise BackupError(
            f"{others} programs are connected to the database: stop the service first, then restore"
        )


def _others(connection: psycopg.Connection) -> int:
    (count,) = connection.execute(_OTHERS).fetchone() or (0,)
    return int(count)


def _refuse_leftovers(connection: psycopg.Connection) -> None:
    if _tables(connection, ASIDE):
        raise BackupError(
            f"an earlier restore was interrupted; what was there before it is in the schema {ASIDE}: "
            "move it back, or drop it, before you restore"
        )


def _tables(connection: psycopg.Connection, schema: str) -> list[str]:
    rows: list[tuple[Any, ...]] = connection.execute(_TABLES, {"schema": schema}).fetchall()
    return [name for (name,) in rows]


def _move(connection: psycopg.Connection, source: str, target: str) -> None:
    """All tables, with their indexes and sequences, and our functions; extensions stay where they are."""
    with connection.transaction():
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(target)))
        for table in _tables(connection, source):
            move = sql.SQL("ALTER TABLE {} SET SCHEMA {}")
            connection.execute(move.format(sql.Identifier(source, table), sql.Identifier(target)))
        for function in _functions(connection, source):
            move = sql.SQL("ALTER FUNCTION {} SET SCHEMA {}")
            connection.execute(move.format(sql.SQL(function), sql.Identifier(target)))
        if source == ASIDE:
            connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(source)))


def _drop_tables(connection: psycopg.Connection) -> None:
    with connection.transaction():
        for table in _tables(connection, "public"):
            connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier("public", table)))
        for function in _functions(connection, "public"):
            connection.execute(sql.SQL("DROP FUNCTION {} CASCADE").format(sql.SQL(function)))


def _functions(connection: psycopg.Connection, schema: str) -> list[LiteralString]:
    """Those that are no extension's, each with its schema and its arguments' types, quoted as needed."""
    rows: list[tuple[Any, ...]] = connection.execute(_FUNCTIONS, {"schema": schema}).fetchall()
    return [name for (name,) in rows]


_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
# Its own name and arguments only: psycopg's Identifier knows no signatures.
_FUNCTIONS = """
    SELECT format('%%I.%%I(%%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = %(schema)s AND p.proname LIKE 'jiyi\\_%%'
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
        AND d.deptype = 'e')
    ORDER BY 1
"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %(schema)s ORDER BY tablename"
