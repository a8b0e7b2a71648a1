"""``jiyi doctor``: is everything all right? Asks the servers themselves, with web and workers down too."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import cast

import psycopg
from rich.text import Text
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from jiyi import __version__
from jiyi.cli import output
from jiyi.cli.shell import Invocation, report_error
from jiyi.errors import JiyiError
from jiyi.protocol.operations import Tick
from jiyi.settings import Settings, get_settings
from models.db.bounded_reads import SourceUnavailable, from_database, one_line, source
from models.db.connection import check_sessions
from models.db.scope import whole_service
from models.operations import numbers, overview
from models.operations.health_checks import Check, State, worst
from models.operations.worker_liveness import Worker
from models.queue.broker_queues import broker_client, redis_address
from workers import migrate

#: The exit status by the worst state, as monitoring programs want it.
EXITS: dict[State, int] = {"ok": 0, "unknown": 0, "attention": 1, "unreachable": 2}
#: Seconds by which a job may be late: it is looked for every minute, and may have to wait for a worker.
LATE_SECONDS = 600


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="jiyi doctor", description="Is everything all right?")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    try:
        settings = get_settings()
        for address in ("database_url", "broker_url", "redis_url"):
            settings.need(address)
        checks = examine(settings)
    except JiyiError as error:
        report_error(error, Invocation(json=options.json))
        return EXITS["unreachable"]
    if options.json:
        items = [{"name": check.name, "state": check.state, "detail": check.detail} for check in checks]
        output.document({"state": worst(checks), "checks": items})
    else:
        _show(checks)
    return EXITS[worst(checks)]


def _show(checks: list[Check]) -> None:
    colours: dict[State, str] = {"ok": "green", "unknown": "dim", "attention": "yellow", "unreachable": "red"}
    table = output.table("", "state", "what", "", grow=[""])
    for check in checks:
        output.row(table, Text(check.state, colours[check.state]), str(check.name), str(check.detail))
    output.show(table)
    wrong = [check for check in checks if EXITS[check.state]]
    sentence = f"{len(wrong)} of {len(checks)} need attention"
    output.line(sentence if wrong else f"all is well: {len(checks)} checks")


def examine(settings: Settings) -> list[Check]:
    """Every check there is, in the order in which one would look."""
    with whole_service():
        judged, records, alive = overview.of_service()
        return [
            *judged,
            jobs(settings),
            backups(settings, records.jobs),
            versions(alive.workers.value),
            _check_of("Database sessions", check_sessions, "are the service's own"),
            _check_of("Database revision", migrate.check, f"{migrate.newest()}, as this version needs it"),
            collation(),
            valkey_settings(settings),
        ]


def _check_of(name: str, look: Callable[[], None], detail: str) -> Check:
    """``detail``, or the sentence with which ``look`` refuses."""
    try:
        look()
        return Check(name, "ok", detail)
    except JiyiError as error:
        return Check(name, "attention", str(error))
    except (SQLAlchemyError, psycopg.Error) as error:
        return Check(name, "unknown", one_line(error))


def jobs(settings: Settings) -> Check:
    """Whether each scheduled job has run in its time."""
    name = "Jobs"
    try:
        states = from_database(lambda connection: numbers.job_states(connection, settings, datetime.now(UTC)))
    except SourceUnavailable as error:
        return Check(name, "unknown", error.reason)
    lags = {state.job: state.lag_seconds or 0.0 for state in states}
    late = [f"{job} ({seconds / 60:,.0f} min)" for job, seconds in lags.items() if seconds > LATE_SECONDS]
    if late:
        why = f"late: {', '.join(late)}: are beat and the workers of its queue running?"
        return Check(name, "attention", why)
    off = [state.job for state in states if state.every_seconds is None]
    in_time = f"{len(states) - len(off)} in their time"
    return Check(name, "ok", f"{in_time}; off: {', '.join(off)}" if off else in_time)


def backups(settings: Settings, runs: dict[str, Tick] | None) -> Check:
    """What the job ``verify_backup`` found, which has the backups' folder."""
    name = "Backups"
    if runs is None:
        return Check(name, "unknown", "the database did not answer")
    backup, verification = runs.get("backup"), runs.get("verify_backup")
    for run in (backup, verification):
        if run is not None and run.error:
            return Check(name, "attention", run.error)
    newest = None if verification is None else verification.summary.get("backup")
    if newest:
        return Check(name, "ok", f"the newest that was looked at: {newest}")
    if not settings.backup_hours:
        return Check(name, "ok", "off: set JIYI_BACKUP_DIR for one a day, or run `jiyi backup`")
    if backup is None:
        return Check(name, "unknown", "none yet")
    return Check(name, "ok", "made, and looked at once a day")


def versions(workers: Iterable[Worker] | None) -> Check:
    """Whether all that runs is of this version."""
    name = "Versions"
    reported = {worker.report.version for worker in workers or [] if worker.counts}
    running = sorted(reported - {""})
    if not running:
        return Check(name, "unknown", f"{__version__} here, no worker has said its own")
    if running != [__version__]:
        others = f"workers are of {', '.join(running)}: restart those that were left behind"
        return Check(name, "attention", f"{__version__} here, {others}")
    return Check(name, "ok", f"{__version__} everywhere")


def collation() -> Check:
    """Whether texts still sort as the indexes were made: a library's update can change it."""
    try:
        return judge_collation(*from_database(_collation))
    except SourceUnavailable as error:
        return Check("Database collation", "unknown", error.reason)


def judge_collation(
    database: str, provider: str, locale: str, recorded: str | None, actual: str | None
) -> Check:
    """``recorded``: the collation's version when the database was made; ``actual``: now."""
    name, collation_name = "Database collation", f"{PROVIDERS.get(provider, provider)} {locale}"
    if recorded != actual and recorded is not None:
        now = f"is of {actual or 'none'} now"
        why = f"{collation_name} was of version {recorded} when the indexes were made, and {now}"
        reindex = f'REINDEX DATABASE CONCURRENTLY "{database}"'
        refresh = f'ALTER DATABASE "{database}" REFRESH COLLATION VERSION'
        return Check(name, "attention", f"{why}: rows may not be found. Run {reindex}, then {refresh}")
    if recorded is None:
        return Check(name, "ok", f"{collation_name}, which does not change")
    changes = "" if provider == BUILTIN else "; look again after updates of the operating system"
    return Check(name, "ok", f"{collation_name}, version {recorded}{changes}")


#: PostgreSQL's letters for whose collation it is.
BUILTIN = "b"
PROVIDERS = {BUILTIN: "builtin", "c": "libc", "i": "ICU"}


def _collation(connection: Connection) -> tuple[str, str, str, str | None, str | None]:
    return cast("tuple[str, str, str, str | None, str | None]", tuple(connection.execute(_COLLATION).one()))


# The column with the locale has had three names.
_COLLATION = text("""
    SELECT datname, CAST(datlocprovider AS text),
        coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', d.datcollate),
        d.datcollversion, pg_database_collation_actual_version(d.oid)
    FROM pg_database d WHERE datname = current_database()
""")


def valkey_settings(settings: Settings) -> Check:
    """Whether the broker keeps what it took: on its disk, and when its memory is full."""
    name = "Broker's settings"
    address = redis_address(settings.need("broker_url"))
    if address is None:
        return Check(name, "ok", "another broker than Valkey")
    try:
        info = source("broker").ask(lambda: cast("dict[str, str | int]", broker_client(address).info()))
    except SourceUnavailable as error:
        return Check(name, "unknown", error.reason)
    wrong = []
    if info.get("maxmemory_policy") != "noeviction":
        wrong.append("maxmemory-policy is not noeviction: it forgets when its memory is full")
    if not info.get("aof_enabled"):
        wrong.append("appendonly is off: what waits is lost when it ends")
    return Check(name, "attention" if wrong else "ok", "; ".join(wrong) or "keeps what it took")


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # what does not answer is in the table
    sys.exit(main())
