"""Jobs that make backups, and look whether there are any that can be read."""

from __future__ import annotations

from datetime import timedelta

from engine.operations.jobs import BACKUP_SECONDS
from jiyi.settings import get_settings
from models.operations import backups, pg_tools
from models.operations.pg_tools import BackupError
from tasks.framework.jobs import Run, job

#: Days: a service older than this needs a backup that is younger, or the check fails.
MAX_AGE_DAYS = 7


@job("backup")
def back_up(run: Run) -> None:
    """Back the database up to a new file, and delete the oldest of too many.

    Safe to repeat because a backup has a name of its own and overwrites nothing.
    """
    if run.dry:
        run.summary["folder"] = str(backups.folder())
        return
    made = backups.make(keep=get_settings().backup_keep, seconds=BACKUP_SECONDS)
    run.summary.update(file=str(made.path), bytes=made.bytes)


@job("verify_backup")
def verify_backup(run: Run) -> None:
    """Look whether there is a backup that is young enough and can be read.

    Safe to repeat because it only reads.
    """
    longest = timedelta(days=MAX_AGE_DAYS)
    newest = next(iter(backups.existing()), None)
    with pg_tools.connect() as connection:
        since = backups.first_stored(connection)
    wanted = since is not None and run.now - since > longest
    if newest is None:
        if wanted:
            raise BackupError(f"there is no backup in {backups.folder()}: make one with `jiyi backup`")
        run.summary["backup"] = None
        return
    age = run.now - backups.made_at(newest)
    run.summary.update(backup=str(newest), age_days=round(age / timedelta(days=1), 1), tables=backups.verify(newest))
    if wanted and age > longest:
        raise BackupError(f"the newest backup, {newest}, is {age.days} days old, more than {longest.days}")
