"""Bring the database up to date: ``python -m workers.migrate``."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from alembic import command

CHECKOUT = Path(__file__).parent.parent


def upgrade(revision: str = "head") -> None:
    """Apply the migrations up to ``revision``. Two at once take turns. Raises what the database raises."""
    command.upgrade(_config(), revision)


def revisions() -> set[str | None]:
    """All that :func:`upgrade` can start from; None: an empty database."""
    return {None, *(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())}


def _config() -> Config:
    return Config(CHECKOUT / "alembic.ini")


if __name__ == "__main__":
    upgrade()
