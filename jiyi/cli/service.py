"""``jiyi up``: the whole service on this machine. Its code lives in the checkout, not in the client's wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import jiyi
from jiyi.cli.shell import Json
from jiyi.errors import JiyiError

MODULE = "workers.up"


class NoCheckout(JiyiError):
    """Only the client is installed."""

    code = "no_checkout"


def up(
    once: Annotated[bool, typer.Option("--once", help="End when it is ready.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Play the sample diary and answer three questions.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what the processes print.")] = False,
    as_json: Json = False,  # noqa: ARG001
) -> None:
    """Start the service with its own PostgreSQL and Valkey; Ctrl-C stops it."""
    root = checkout()
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    sys.stdout.flush()
    os.chdir(root)
    flags = [flag for flag, is_set in (("--once", once), ("--demo", demo), ("--verbose", verbose)) if is_set]
    arguments = [sys.executable, "-m", MODULE, *flags]
    os.execve(sys.executable, arguments, {**os.environ, "PYTHONPATH": os.pathsep.join(paths)})


def checkout() -> Path:
    """The folder that holds this package and the service's. Raises :class:`NoCheckout`."""
    root = Path(jiyi.__file__).resolve().parents[1]
    if not (root / "workers" / "up.py").is_file():
        raise NoCheckout(
            f"`jiyi up` needs a checkout of the service, and {root} is none: only the client is installed. "
            "Clone the repository and run it there, or set JIYI_BROKER_URL and JIYI_REDIS_URL to a running service"
        )
    return root
