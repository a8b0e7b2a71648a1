"""Backups: whole copies of the database in PostgreSQL's custom format, each beside its checksum."""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg

from jiyi.settings import get_settings
from models.folders import make_private
from models.operations import pg_tools
from models.operations.pg_tools import BackupError

#: Names of backups in their folder begin with their time, so that they sort by it. Only such files are ever deleted.
NAME = re.compile(r"jiyi-(\d{8}T\d{6}Z)\.dump")
TIME_FORM = "%Y%m%dT%H%M%SZ"
CHECKSUM = ".sha256"
#: Of a file that is being written; one that is left behind is no backup.
PARTIAL = ".partial"
#: No backup takes that long.
PARTIAL_SECONDS = 86_400


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
    """Copy the whole database to a new file, read it back, and only then give it its name.

    Args:
        path: where to; a file named after the time, in the folder of backups, unless given.
        keep: delete the oldest of more backups than this in that folder; none unless given.
        seconds: give up after so long.

    Raises:
        BackupError: it cannot be made, or there is such a file already.
    """
    at = datetime.now(UTC).replace(microsecond=0)
    path = path or _free_name(at)
    _refuse_to_overwrite(path)
    make_private(path.parent)
    partial = path.with_name(f".{path.name}.{uuid4().hex[:12]}{PARTIAL}")
    with pg_tools.connect() as connection:
        major = connection.info.server_version // 10_000
    address, environment = pg_tools.conninfo()
    try:
        pg_tools.run(
            [
                pg_tools.program("pg_dump", major),
                "--format=custom",
                "--no-owner",
                "--no-privileges",
                "--no-comments",
                "--no-password",
                f"--file={partial}",
                f"--dbname={address}",
            ],
            environment,
            seconds,
        )
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
    place = folder()
    paths = [path for path in place.iterdir() if NAME.fullmatch(path.name)] if place.is_dir() else []
    return sorted(paths, key=lambda path: path.name, reverse=True)


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
    """Read a backup as far as that needs no database; returns the number of its tables.

    Raises:
        BackupError: it is not what was written, or ``pg_restore`` cannot read it, or it holds no memories.
    """
    if not path.is_file():
        raise BackupError(f"there is no file {path}: give the path of a backup, as `jiyi backup` names it")
    noted = path.with_name(path.name + CHECKSUM)
    if noted.is_file() and noted.read_text(encoding="utf-8").split(maxsplit=1)[:1] != [_sha256(path)]:
        raise BackupError(f"{path} is not what was written: its checksum is not the one in {noted.name}")
    return contents(path)


def contents(path: Path) -> int:
    """The number of tables whose rows are in it."""
    with path.open("rb") as file:
        if file.read(5) != b"PGDMP":
            raise BackupError(f"{path} is no backup: it is not in PostgreSQL's custom format")
    listed = pg_tools.run([pg_tools.program("pg_restore"), "--list", path], os.environ)
    tables = re.findall(r"TABLE DATA \S+ (\S+)", listed)
    if "memory_nodes" not in tables:
        raise BackupError(f"{path} holds no memories: it is a copy of another database")
    return len(tables)


def revision(path: Path) -> str | None:
    """The schema's revision in a backup."""
    script = pg_tools.run([pg_tools.program("pg_restore"), "--data-only", "--table=alembic_version", "--file=-", path], os.environ)
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
    for left in folder().glob(f".jiyi-*{PARTIAL}"):
        if time.time() - left.stat().st_mtime > PARTIAL_SECONDS:
            left.unlink(missing_ok=True)


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
