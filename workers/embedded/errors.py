"""Why the embedded servers cannot run."""

from __future__ import annotations

from pathlib import Path


class StackError(RuntimeError):
    """The embedded servers cannot run; the message names the thing, the problem and the fix."""


class HomeInUse(StackError):  # noqa: N818 – its name says what happened
    """Another running copy owns this home.

    Args:
        home: the folder asked for.
        pid: process id of the running copy, if it is known.
        admin_url: address of its admin page, if it has announced one.
    """

    def __init__(self, home: Path, pid: int | None, admin_url: str | None) -> None:
        self.home, self.pid, self.admin_url = home, pid, admin_url
        owner = f"process {pid}" if pid else "another process"
        where = f" (its admin page: {admin_url})" if admin_url else ""
        super().__init__(
            f"{home} is in use: Jiyi already runs there as {owner}{where}. "
            "Use that copy, stop it first, or set JIYI_HOME to another folder."
        )
