"""The lock that one running copy holds on its home; the kernel releases it however that copy ends."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from workers.embedded.errors import HomeInUse

LOCK_BYTES = 4096  # the file holds a process id and one address.


class HomeLock:
    """Held from its making to :meth:`release`. The file says who holds it, and where its admin page is.

    Raises:
        HomeInUse: another running copy holds it.
    """

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
