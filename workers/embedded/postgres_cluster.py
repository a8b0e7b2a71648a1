"""PostgreSQL's data folder: made whole or not at all, and checked before it is used."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import time
from pathlib import Path
from pwd import struct_passwd

import psutil

from workers.embedded.folders import StackError
from workers.embedded.programs import POSTGRES_VERSION, postgres_program
from workers.embedded.server import Server

log = logging.getLogger(__name__)

SUPERUSER = "postgres"  # the database role that owns everything.
INITDB_SECONDS = 120.0  # takes a second on a solid-state disk; slow network disks need more.
INITDB_OPTIONS = [
    f"--username={SUPERUSER}",
    "--auth-local=trust",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
]


def unfinished_folder(data: Path) -> Path:
    """Where a cluster is made before it is moved to ``data``."""
    return data.with_name(f"{data.name}.new")


def make_cluster(server: Server, user: struct_passwd | None) -> None:
    """Create the server's cluster, unless there is one: beside its place, then moved there whole.

    Args:
        server: whose data folder and log are used. It must not be running.
        user: the system user that it runs as, if that is not ours.

    Raises:
        StackError: the cluster is another version's, or cannot be made.
    """
    data = server.data
    if (data / "PG_VERSION").is_file():
        _check_version(data)
        _remove_stale_pid_file(data)
        return
    if data.exists():  # not a cluster; never delete what may be somebody's data
        aside = data.with_name(f"{data.name}.unfinished-{time.time_ns()}")
        data.rename(aside)
        log.warning("%s holds no finished database: moved to %s", data, aside)
    new = unfinished_folder(data)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if user:
        os.chown(new, user.pw_uid, user.pw_gid)
    child = server.run([str(postgres_program("initdb")), f"--pgdata={new}", *INITDB_OPTIONS], new, user)
    try:
        failed = child.wait(INITDB_SECONDS) != 0
    except subprocess.TimeoutExpired:
        failed = True
    if failed:
        raise server.failure("its data folder could not be created")
    new.rename(data)


def _check_version(data: Path) -> None:
    version = (data / "PG_VERSION").read_text(encoding="ascii", errors="replace").strip()
    if version != str(POSTGRES_VERSION):
        raise StackError(
            f"{data} was made by PostgreSQL {version or '(unknown)'}, and this is PostgreSQL {POSTGRES_VERSION}: "
            "dump it with the old version, or set JIYI_HOME to a new folder."
        )


def _remove_stale_pid_file(data: Path) -> None:
    """Remove a ``postmaster.pid`` that PostgreSQL itself would mistake for a running server's."""
    path = data / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError):
        first = path.read_bytes().split(b"\n")[0].strip()
        # A dead process's file stays: from it PostgreSQL learns which shared memory to look after.
        if not first.isdigit() or psutil.pid_exists(int(first)):
            path.unlink()  # no PostgreSQL works in our folder: workers.embedded.leftovers has seen to it
