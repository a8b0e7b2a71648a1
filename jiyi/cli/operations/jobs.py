"""``jiyi jobs`` and ``jiyi run-job``: what runs by itself, and how it went."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.client import Client
from jiyi.client.operations import JOB_SECONDS
from jiyi.errors import JiyiError
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.operations import JobState, Tick

#: Beat looks once a minute: a job that is due for less is not late.
LATE_SECONDS = 90


class JobFailed(JiyiError):  # noqa: N818 – its name says what happened
    """A job was run, and failed."""

    code = "job_failed"


@shows
def jobs(client: Client) -> Shown:
    """Scheduled jobs of the service: how often, the last run, the next one."""
    states = client.jobs.list()
    return Shown(states, lambda: _print_jobs(states))


def _print_jobs(states: list[JobState]) -> None:
    output.show(jobs_table(states, datetime.now(UTC)))
    for row in states:
        if row.last is not None and row.last.error:
            output.notice(f"{row.job}: {row.last.error}")


def jobs_table(rows: list[JobState], now: datetime) -> Table:
    table = output.table(
        "", "job", "runs", "last", "state", "took", "next", "result", right=["last", "took", "next"], grow=["runs", "result"]
    )
    for row in rows:
        last = row.last
        ran = (None,) * 3 if last is None else (output.age(last.started_at, now), last.state, f"{last.seconds or 0:.1f} s")
        result = None if last is None else last.error or brief(last.summary)
        output.row(table, row.job, local(row.schedule, now), *ran, upcoming(row.next, now), result)
    return table


def local(schedule: str, now: datetime) -> str:
    """A schedule with its hour of the day, which is the service's in UTC, as it is here."""

    def here(match: re.Match[str]) -> str:
        at = now.astimezone(UTC).replace(hour=int(match[1]), minute=int(match[2]))
        return f"at {at.astimezone():%H:%M}"

    return re.sub(r"at (\d\d):(\d\d) UTC", here, schedule)


def upcoming(at: datetime | None, now: datetime) -> str | None:
    """``in 3 m``, ``due``, or how late it is."""
    if at is None:
        return None
    if at > now:
        return f"in {output.age(now, at)}"
    return "due" if (now - at).total_seconds() < LATE_SECONDS else f"{output.age(at, now)} late"


def brief(summary: JsonMapping, *, zeros: bool = False) -> str:
    """A summary in a line: numbers, and whatever else is short; nothing that is empty, nor (``zeros``) zero."""
    parts = []
    for name, value in summary.items():
        number = isinstance(value, int | float)
        text = f"{value:,}" if number else _short(value)
        if text and (value or (zeros and number)):
            parts.append(f"{name.replace('_', ' ')} {text}")
    return " · ".join(parts)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items() if isinstance(each, int | float) and each)
    return "" if isinstance(value, list) or value is None else str(value)


@shows
def run_job(
    client: Client,
    name: Annotated[str, typer.Argument(help="As `jiyi jobs` lists it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only tell what it would do.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for its end.")] = JOB_SECONDS,
) -> Shown:
    """Run a scheduled job now, for the whole service, and wait for its end."""
    return finished(client.jobs.run(name, dry_run=dry_run, timeout=timeout))


def finished(tick: Tick) -> Shown:
    """A run that has ended. Raises :class:`JobFailed`."""
    if tick.state == "failed":
        raise JobFailed(f"{tick.job} failed: {tick.error}")
    took = "" if tick.seconds is None else f" in {tick.seconds:.1f} s"
    sentence = f"{tick.job}: {tick.state}{took}: {brief(tick.summary, zeros=True) or 'nothing to do'}"
    return Shown(tick, lambda: output.line(sentence))
