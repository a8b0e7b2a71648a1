"""``jiyi backup`` and ``jiyi restore``: on the running database, or the embedded one of a stopped service."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from jiyi.cli import output
from jiyi.cli.shell import Invocation, report_error
from jiyi.errors import JiyiError
from jiyi.protocol.base import JsonObject
from jiyi.settings import EMBEDDED_DATA, get_settings
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.erasure import progress
from models.operations import backups
from models.operations.backups import BackupError
from workers import ephemeral
from workers.embedded.stack import Stack, StackError
from workers.migrate import revisions, upgrade


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="jiyi", description="Back the database up, or restore it.")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("backup")
    making.add_argument("path", type=Path, nargs="?")
    restoring_ = commands.add_parser("restore")
    restoring_.add_argument("path", type=Path)
    restoring_.add_argument("--force", action="store_true", help="replace the data that is there")
    for command in (making, restoring_):
        command.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    try:
        if options.command == "backup":
            result = back_up(options.path)
        else:
            result = restore(options.path, force=options.force)
    except (StackError, JiyiError, OSError) as error:
        report_error(
            error if isinstance(error, JiyiError) else BackupError(str(error)), Invocation(json=options.json)
        )
        return 1
    text = result.pop("text")
    if options.json:
        output.document(result)
    else:
        output.line(str(text))
    return 0


def back_up(path: Path | None) -> JsonObject:
    """Without a path the oldest of too many backups go."""
    with database():
        backup = backups.make(path, keep=get_settings().backup_keep if path is None else None)
    return {
        "file": str(backup.path),
        "bytes": backup.bytes,
        "sha256": backup.sha256,
        "made_at": backup.made_at.isoformat(),
        "text": f"{backup.path} ({backup.bytes / 1e6:,.1f} MB)",
    }


def restore(path: Path, *, force: bool) -> JsonObject:
    """The backup may be older than this code: the restored database is migrated."""
    backups.verify(path)  # before a database is started, or made
    if (made_by := backups.revision(path)) not in revisions():
        raise BackupError(
            f"{path} was made by a later version of Jiyi (revision {made_by}): restore it with that one"
        )
    with database(may_be_new=True):
        rows = backups.restore(path, force=force)
        upgrade()
        again = _erase_again(path)
    data = {table: count for table, count in rows.items() if count and table not in backups.NO_DATA}
    counts = ", ".join(f"{count:,} {table}" for table, count in data.items())
    text = f"restored from {path}: {counts or 'no data'}{_erasures_text(again)}"
    return {"file": str(path), "rows": rows, "erasures": again, "text": text}


def _erase_again(path: Path) -> dict[str, int]:
    """Make erasures of agents after the backup pending again; counts of these and of other erasures since."""
    made_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    if backups.NAME.fullmatch(path.name):
        made_at = backups.made_at(path)
    with whole_service(), unit_of_work() as connection:
        return progress.apply_again(connection, made_at)


def _erasures_text(again: dict[str, int]) -> str:
    erased = f". {again['agents']} agents erased since are erased again when the service runs"
    agents = erased if again["agents"] else ""
    if not again["others"]:
        return agents
    return (
        f"{agents}. {again['others']} erasures of persons or memories since cannot be repeated, because"
        " nobody kept whom they were about: ask for them again with `jiyi erasure request` (their ids are in"
        " erasures.jsonl beside the backups)"
    )


@contextmanager
def database(*, may_be_new: bool = False) -> Iterator[None]:
    """The database that the settings name, or else the embedded one, started for as long as needed."""
    settings = get_settings()
    if settings.database_url:
        yield
        return
    if not may_be_new and not (settings.home / EMBEDDED_DATA).is_dir():
        raise BackupError(f"there is no database in {settings.home}, and JIYI_DATABASE_URL is not set")
    with Stack(settings.home) as stack:
        home, address = str(stack.home), stack.urls.database_url
        with ephemeral.environment(database_url=address, home=home):
            yield


if __name__ == "__main__":
    sys.exit(main())
