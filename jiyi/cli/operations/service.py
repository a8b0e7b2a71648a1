"""``jiyi up``, ``backup`` and ``restore``: what runs on the service's machine, from its checkout.

Its code is not in the client's wheel.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import jiyi
from jiyi.cli.shell import Json
from jiyi.errors import JiyiError

UP, BACKUP = "workers.up", "workers.backup"


class NoCheckout(JiyiError):  # noqa: N818 – its name says what happened
    """Only the client is installed."""

    code = "no_checkout"


def up(
    once: Annotated[bool, typer.Option("--once", help="End when it is ready.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Play the sample diary and answer three questions.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what the processes print.")] = False,
    as_json: Json = False,  # noqa: ARG001
) -> None:
    """Start the service with its own PostgreSQL and Valkey; Ctrl-C stops it."""
    become(UP, "jiyi up", [flag for flag, is_set in (("--once", once), ("--demo", demo), ("--verbose", verbose)) if is_set])


def backup(
    path: Annotated[Path | None, typer.Argument(help="A file that does not exist yet.", show_default="a new one")] = None,
    as_json: Json = False,
) -> None:
    """Copy the whole database to a file, running or not, and check that it can be read back."""
    arguments = ["backup", *([] if path is None else [str(path.absolute())])]
    become(BACKUP, "jiyi backup", [*arguments, *(["--json"] if as_json else [])])


def restore(
    path: Annotated[Path, typer.Argument(help="A backup.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the data that is there, after a backup of it.")] = False,
    as_json: Json = False,
) -> None:
    """Put a backup in the place of an empty database, while the service is stopped."""
    flags = [flag for flag, is_set in (("--force", force), ("--json", as_json)) if is_set]
    become(BACKUP, "jiyi restore", ["restore", str(path.absolute()), *flags])


def become(module: str, command: str, arguments: list[str]) -> None:
    """Run a module of the service in the place of this process."""
    root = checkout(command)
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    sys.stdout.flush()
    os.chdir(root)
    os.execve(sys.executable, [sys.executable, "-m", module, *arguments], {**os.environ, "PYTHONPATH": os.pathsep.join(paths)})  # noqa: S606 – the process becomes the other one


def checkout(command: str = "jiyi up") -> Path:
    """The folder that holds this package and the service's. Raises :class:`NoCheckout`."""
    root = Path(jiyi.__file__).resolve().parents[1]
    if not (root / "workers" / "up.py").is_file():
        raise NoCheckout(
            f"`{command}` needs a checkout of the service, and {root} is none: only the client is installed. "
            "Clone the repository and run it there, or set JIYI_BROKER_URL and JIYI_REDIS_URL to a running service"
        )
    return root
