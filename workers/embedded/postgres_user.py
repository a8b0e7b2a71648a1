"""The system user that PostgreSQL runs as: ours, but one of its own under root, which it refuses to run as."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
from pathlib import Path
from pwd import struct_passwd

from workers.embedded.errors import StackError
from workers.embedded.programs import pgserver, postgres_program

log = logging.getLogger(__name__)

SYSTEM_USER = "pgserver"


def server_user(data: Path, sockets: Path) -> struct_passwd | None:
    """Under root: make PostgreSQL's user, and let it reach its programs, its data and its sockets' folder.

    Returns:
        That user, or None where PostgreSQL runs as whoever runs Jiyi.

    Raises:
        StackError: the data belongs to somebody else, or the user cannot be made or let in.
    """
    if os.geteuid() != 0:
        _check_owner(data, os.geteuid())
        return None
    user = _make_user()
    install = postgres_program("postgres").parent.parent
    for folder in (install.parent.resolve(), data.parent, sockets.parent):
        for each in (folder, *folder.parents):
            _allow(each, stat.S_IXOTH)
    for path in (install, *install.rglob("*")):
        _allow(path, stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0))
    os.chown(sockets, user.pw_uid, user.pw_gid)
    if data.exists() and data.stat().st_uid == 0:
        os.chown(data, user.pw_uid, user.pw_gid)
    _check_owner(data, user.pw_uid)
    return user


def _make_user() -> struct_passwd:
    try:
        user: struct_passwd | None = pgserver().ensure_user_exists(SYSTEM_USER)
    except (subprocess.CalledProcessError, OSError) as error:
        user = None
        log.debug("useradd failed: %s", error)
    if user is None:
        raise StackError(
            f"PostgreSQL refuses to run as root and the system user {SYSTEM_USER!r} cannot be created: "
            f"create it (useradd --system {SYSTEM_USER}), or run Jiyi as an ordinary user."
        )
    return user


def _check_owner(path: Path, user: int) -> None:
    if path.exists() and path.stat().st_uid != user:
        raise StackError(
            f"{path} belongs to user id {path.stat().st_uid}, but PostgreSQL would run as user id {user}: "
            f"start Jiyi as the user who made it, give it away (chown -R {user} {path}), "
            "or set JIYI_HOME to another folder."
        )


def _allow(path: Path, bits: int) -> None:
    """Add the permission bits that a path lacks, and no more."""
    mode = path.stat().st_mode
    if mode & bits == bits:
        return
    try:
        path.chmod(stat.S_IMODE(mode) | bits)
    except OSError as error:
        raise StackError(
            f"{path} is closed to the system user {SYSTEM_USER!r}, as whom PostgreSQL runs under "
            f"root, and cannot be opened ({error.strerror}): chmod o+x {path}, set JIYI_HOME to "
            "a folder outside it, or run Jiyi as an ordinary user."
        ) from error
