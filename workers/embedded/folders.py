"""Folders that are the user's alone, and a place for the sockets that is not too long for them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
import tempfile
from pathlib import Path

SOCKET_PATH_BYTES = 103  # macOS allows 103 bytes in a socket's path, Linux 107.


def make_traversable() -> int:
    """Mode of folders on the way to PostgreSQL's: its user may pass under root, but not look."""
    return 0o711 if os.geteuid() == 0 else 0o700


def private_folder(path: Path, mode: int = 0o700, *, check_owner: bool = True) -> None:
    """Make a folder, or correct its mode. Raises :class:`StackError` if it is somebody else's, or none."""
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()  # not stat: a link in the temporary folder may be somebody else's doing
    if check_owner and (not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid()):
        raise StackError(
            f"{path} is not a folder of yours (it belongs to user id {status.st_uid}): "
            "start Jiyi as that user, give it away (chown -R), or set JIYI_HOME to another folder."
        )
    if stat.S_IMODE(status.st_mode) != mode:
        path.chmod(mode)


def private_home(home: Path) -> None:
    """Make the home private, but not a shared folder (the user's own, ``/tmp``): its folders are, then."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = home.stat()
    shared = status.st_mode & stat.S_ISVTX or home in (Path.home(), Path(home.anchor))
    mode = stat.S_IMODE(status.st_mode) & ~0o077 | make_traversable() & 0o077
    if status.st_uid == os.geteuid() and not shared and stat.S_IMODE(status.st_mode) != mode:
        home.chmod(mode)


def socket_folder(home: Path, run_dir: Path, longest: str) -> Path:
    """The sockets' folder: ``run``, or a private temporary one if a path in it is too long or unusual.

    ``longest``: the longest path of a socket below it. Raises :class:`StackError`.
    """
    folder, path = run_dir, os.fsencode(run_dir / longest)
    # Commas separate hosts in PostgreSQL's addresses, and parsers differ about quoting: plain paths only.
    if len(path) > SOCKET_PATH_BYTES or not re.fullmatch(rb"[\w./@+-]+", path, re.ASCII):
        digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"jiyi-{os.geteuid()}-{digest}"
        if len(os.fsencode(folder / longest)) > SOCKET_PATH_BYTES:
            raise StackError(f"{folder}: too long for a unix socket; set TMPDIR to a shorter path.")
    private_folder(folder, make_traversable())
    return folder


class StackError(RuntimeError):
    """The embedded servers cannot run; the message names the thing, the problem and the fix."""


class HomeInUse(StackError):  # noqa: N818 – its name says what happened
    """Another running copy owns this home; ``pid`` and ``admin_url`` as far as they are known."""

    def __init__(self, home: Path, pid: int | None, admin_url: str | None) -> None:
        self.home, self.pid, self.admin_url = home, pid, admin_url
        owner = f"process {pid}" if pid else "another process"
        where = f" (its admin page: {admin_url})" if admin_url else ""
        super().__init__(
            f"{home} is in use: Jiyi already runs there as {owner}{where}. "
            "Use that copy, stop it first, or set JIYI_HOME to another folder."
        )


LOCK_BYTES = 4096  # the file holds a process id and one address.


class HomeLock:
    """Held from its making to :meth:`release`; the file says by whom. Raises :class:`HomeInUse`."""

    def __init__(self, home: Path, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # not inherited: no child keeps the lock
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.announce(None)
        except BlockingIOError:
            pid, admin_url = self._read()
            self.release()
            raise HomeInUse(home, pid, admin_url) from None
        except OSError:
            self.release()
            raise

    def announce(self, admin_url: str | None) -> None:
        """Leave word for a second copy that tries the same home."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps({"pid": os.getpid(), "admin_url": admin_url}).encode(), 0)

    def release(self) -> None:
        os.close(self._file)

    def _read(self) -> tuple[int | None, str | None]:
        try:
            owner = json.loads(os.pread(self._file, LOCK_BYTES, 0))
            return owner["pid"], owner["admin_url"]
        except (ValueError, KeyError, TypeError):  # the owner is just writing it
            return None, None
