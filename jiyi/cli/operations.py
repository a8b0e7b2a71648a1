"""``jiyi jobs``, ``run-job``, ``dead`` and ``stats``: what runs by itself, what could not be done, and what is owed."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Group
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import Cursor, Limit, Shown, shows
from jiyi.client.by_hand import JOB_SECONDS
from jiyi.client.client import Client
from jiyi.errors import JiyiError
from jiyi.protocol.base import DEFAULT_PAGE, JsonMapping, Rows
from jiyi.protocol.operations import MAX_RESOLVED, DeadLetter, JobState, LetterState, Resolved, ServiceStats, Tick

#: Beat looks at least once a minute: a job that is due for less is not late.
LATE_SECONDS = 90


class JobFailed(JiyiError):  # noqa: N818 – its name says what happened
    """A job was run, and failed."""

    code = "job_failed"


@shows
def jobs(client: Client) -> Shown:
    """Scheduled jobs of the service: how often, the last run, the next one."""
    states = client.jobs.list().rows
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
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for its end.")] = JOB_SECONDS,
) -> Shown:
    """Run a scheduled job now, for the whole service, and wait for its end."""
    return finished(client.jobs.run(name, timeout=timeout))


def finished(tick: Tick) -> Shown:
    """A run that has ended. Raises :class:`JobFailed`."""
    if tick.state == "failed":
        raise JobFailed(f"{tick.job} failed: {tick.error}")
    took = "" if tick.seconds is None else f" in {tick.seconds:.1f} s"
    sentence = f"{tick.job}: {tick.state}{took}: {brief(tick.summary, zeros=True) or 'nothing to do'}"
    return Shown(tick, lambda: output.line(sentence))


dead_letters_app = typer.Typer(no_args_is_help=True, help="Dead letters: what could not be done.")

Ids = Annotated[list[UUID] | None, typer.Argument(help="Ids of open dead letters.", metavar="[ID]…")]
AllOf = Annotated[str | None, typer.Option("--all", metavar="KIND", help="All open ones of this kind, such as intake or embed.")]


@dead_letters_app.command("list")
@shows
def list_letters(
    client: Client,
    state: Annotated[LetterState, typer.Option(help="Which ones.")] = "open",
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as intake or embed.")] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Shown:
    """Dead letters, newest first."""
    page = client.dead_letters.list(state=state, kind=kind, limit=limit, cursor=cursor)
    return Shown(page, lambda: _print_page(state, page))


def _print_page(state: LetterState, page: Rows[DeadLetter]) -> None:
    table = output.table(f"{state} dead letters", "id", "created", "kind", "reason", grow=["reason"])
    for row in page.rows:
        output.row(table, row.letter_id, output.local_date(row.created_at), row.kind, output.cut(row.reason, 1_000, 1))
    output.listing(table, page.next, f"no {state} dead letters")


@dead_letters_app.command("show")
@shows
def show_letter(client: Client, letter_id: Annotated[UUID, typer.Argument(metavar="ID", help="Its id.")]) -> Shown:
    """One dead letter: the reason, the traceback, the message as it came."""
    letter = client.dead_letters.get(id=letter_id)
    return Shown(letter, lambda: _print_letter(letter))


def _print_letter(letter: DeadLetter) -> None:
    console = output.stdout()
    table = output.table(str(letter.letter_id), "", "", grow=[""])
    table.show_header = False
    for name in ("state", "kind", "group_id", "subject_id", "attempts", "reason"):
        output.row(table, name, getattr(letter, name))
    output.row(table, "created", output.local_time(letter.created_at))
    console.print(table)
    for name, words in (("body", letter.body), ("traceback", letter.traceback)):
        if words:
            console.print(f"\n{name}", style="bold")
            console.print(output.block(words), soft_wrap=True)


@dead_letters_app.command()
@shows
def replay(client: Client, letter_ids: Ids = None, all_of: AllOf = None) -> Shown:
    """Try again: what has been mended since goes through, the rest comes back."""
    _one_way(letter_ids, all_of)
    return _resolved("replayed", client.dead_letters.resolve(action="replay", letter_ids=letter_ids or [], kind=all_of), letter_ids, all_of)


@dead_letters_app.command()
@shows
def discard(
    client: Client,
    letter_ids: Ids = None,
    all_of: AllOf = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Shown:
    """Give up on dead letters. Asks first."""
    _one_way(letter_ids, all_of)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("discarding without a terminal to ask at needs --yes")
        what = f"all open ones of kind {all_of}" if all_of else f"{len(letter_ids or []):,} dead letters"
        if not typer.confirm(f"Discard {what}?", err=True):
            output.notice("nothing was discarded")
            raise typer.Exit(1)
    return _resolved(
        "discarded", client.dead_letters.resolve(action="discard", letter_ids=letter_ids or [], kind=all_of), letter_ids, all_of
    )


def _one_way(letter_ids: list[UUID] | None, kind: str | None) -> None:
    if bool(letter_ids) == (kind is not None):
        raise typer.BadParameter("give either ids or --all KIND")


def _resolved(what: str, done: Resolved, letter_ids: list[UUID] | None, kind: str | None) -> Shown:
    count, asked = done.resolved, len(set(letter_ids or []))
    if count < asked:
        output.notice(f"only {count:,} of {asked:,} were open dead letters of this group")
    if kind is not None and count >= MAX_RESOLVED:
        output.notice("there may be more: run it again")
    if done.refused_again:
        output.notice(f"{done.refused_again:,} came back as new letters")
    return Shown(done, lambda: output.line(f"{count:,} {what}"))


#: Counts of the group in the order shown; what a newer service adds comes after them.
NAMES = {
    "agents": "agents",
    "events": "events",
    "nodes": "memories",
    "event_nodes": "… events",
    "thought_nodes": "… thoughts",
    "chat_nodes": "… chats",
    "not_embedded": "not embedded yet",
    "idle": "idle",
    "archived": "archived",
    "dead_letters": "open dead letters",
}


@shows
def stats(client: Client) -> Shown:
    """Counts of the group, pending work, and counters of the service."""
    counts = client.stats.show()
    return Shown(counts, lambda: stats_tables(client.group, counts, datetime.now(UTC)))


def stats_tables(group: str, found: ServiceStats, now: datetime) -> Group:
    counters = {**found.counters, "accesses not written yet": found.access_buffered}
    parts = [_counts(f"group {group}", {NAMES.get(name, name): value for name, value in found.group})]
    owed = output.table(
        "pending work (whole service)", "kind", "owed", "overdue", "retried", "oldest", right=["owed", "overdue", "retried", "oldest"]
    )
    for row in found.work_owed:
        output.row(owed, row.kind, row.owed, row.overdue, row.retried, output.age(row.oldest, now))
    if not found.work_owed:
        output.row(owed, "nothing")
    return Group(*parts, "", owed, "", _counts("counters (whole service)", counters), "", _indexes(found.indexes))


def _indexes(found: dict[str, dict[str, int]]) -> Table:
    table = output.table(
        "indexes in the retrieval workers", "worker", "agents", "memories", "MiB", "of", right=["agents", "memories", "MiB", "of"]
    )
    for worker, held in found.items():
        output.row(table, worker, held["indexes"], held["memories"], *(f"{held[name] / 2**20:,.0f}" for name in ("bytes", "limit_bytes")))
    if not found:
        output.row(table, "none lately")
    return table


def _counts(title: str, counts: JsonMapping) -> Table:
    table = output.table(title, "what", "count", right=["count"])
    for name, value in counts.items():
        output.row(table, name, value)
    return table
