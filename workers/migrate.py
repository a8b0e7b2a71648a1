"""``python -m workers.migrate`` updates the database; and whether it and this code fit together."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text

from alembic import command
from jiyi.errors import JiyiError
from models.db.connection import check_sessions, engine
from workers import errors_in_one_line

CHECKOUT = Path(__file__).parent.parent
UPGRADING = "docs/operations.md"


class WrongRevision(JiyiError):  # noqa: N818 – its name says what happened
    """This code and the database do not belong together; says what to do."""

    code = "wrong_revision"


def upgrade(revision: str = "head") -> None:
    """Migrate to ``revision``; two at once take turns. Raises :class:`WrongRevision`, unchanged then."""
    known_revisions, database_revision = revisions(), current()
    if database_revision not in known_revisions:
        raise WrongRevision(_strange(database_revision))
    if revision not in known_revisions | {"head"}:
        last = f"the last one of this version is {newest()}. See {UPGRADING}"
        raise WrongRevision(f"there is no revision {revision!r}; {last}")
    command.upgrade(_config(), revision)


def check() -> None:
    """Raise :class:`WrongRevision` unless the database is at this code's last revision.

    For processes that begin; running ones go on, as migrations go with the code before them.
    """
    revision = current()
    if revision == newest():
        return
    if revision not in revisions():
        raise WrongRevision(_strange(revision))
    at = "is empty" if revision is None else f"is at revision {revision}"
    raise WrongRevision(
        f"the database {at}, this version needs {newest()}: run `python -m workers.migrate` first. See"
        f" {UPGRADING}"
    )


def current() -> str | None:
    """The revision that the database is at; None before the first migration."""
    with engine().connect() as connection:
        if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar_one() is None:
            return None
        at = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        return cast("str | None", at)


def revisions() -> set[str | None]:
    """All that :func:`upgrade` can start from; None: an empty database."""
    return {None, *(script.revision for script in _scripts().walk_revisions())}


def newest() -> str:
    """The last revision of this version."""
    head = _scripts().get_current_head()
    assert head is not None
    return head


def _strange(revision: str | None) -> str:
    if revision is not None and revision.isdecimal() and revision > newest():
        return (
            f"the database is at revision {revision}, and this version of Jiyi knows {newest()} as the last"
            " one: a later version has migrated it; run that one, or restore a backup from before. See"
            f" {UPGRADING}"
        )
    return (
        f"the database is at revision {revision!r}, which no version of Jiyi has: is it another program's?"
        f" See {UPGRADING}"
    )


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    return Config(CHECKOUT / "alembic.ini")


def main() -> None:
    with errors_in_one_line("migrate"):
        check_sessions()
        upgrade()


if __name__ == "__main__":
    main()
