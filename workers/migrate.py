"""Bring the database up to date: ``python -m workers.migrate``."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config

from alembic import command

CHECKOUT = Path(__file__).parent.parent


def upgrade(revision: str = "head") -> None:
    """Apply the migrations up to ``revision``. Two at once take turns. Raises what the database raises."""
    command.upgrade(Config(CHECKOUT / "alembic.ini"), revision)


if __name__ == "__main__":
    upgrade()
