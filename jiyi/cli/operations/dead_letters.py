"""``jiyi dead``: what could not be done, and what is to become of it."""

from __future__ import annotations

import sys
from typing import Annotated
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.client import Client
from jiyi.protocol.base import DEFAULT_PAGE
from jiyi.protocol.operations import MAX_RESOLVED, DeadLetter, DeadLetterPage, LetterState, Resolved

app = typer.Typer(no_args_is_help=True, help="Dead letters: what could not be done.")

Ids = Annotated[list[UUID] | None, typer.Argument(help="Ids of open dead letters.", metavar="[ID]…")]
AllOf = Annotated[str | None, typer.Option("--all", metavar="KIND", help="All open ones of this kind, such as intake or embed.")]


@app.command("list")
@shows
def list_letters(
    client: Client,
    state: Annotated[LetterState, typer.Option(help="Which ones.")] = "open",
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as intake or embed.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows of the page.")] = DEFAULT_PAGE,
    before: Annotated[UUID | None, typer.Option(help="Only older than this one: the next page.")] = None,
) -> Shown:
    """Dead letters, newest first."""
    page = client.dead_letters.list(state=state, kind=kind, limit=limit, before=before)
    return Shown(page, lambda: _print_page(state, page))


def _print_page(state: LetterState, page: DeadLetterPage) -> None:
    table = output.table(f"{state} dead letters", "id", "created", "kind", "reason", grow=["reason"])
    for row in page.rows:
        output.row(table, row.letter_id, output.local_date(row.created_at), row.kind, output.cut(row.reason, 1_000, 1))
    output.listing(table, page.next, "--before", f"no {state} dead letters")


@app.command("show")
@shows
def show_letter(client: Client, letter_id: Annotated[UUID, typer.Argument(metavar="ID", help="Its id.")]) -> Shown:
    """One dead letter: the reason, the traceback, the message as it came."""
    letter = client.dead_letters.get(letter_id)
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


@app.command()
@shows
def replay(client: Client, letter_ids: Ids = None, all_of: AllOf = None) -> Shown:
    """Try again: what has been mended since goes through, the rest comes back."""
    _one_way(letter_ids, all_of)
    return _resolved("replayed", client.dead_letters.replay(letter_ids or [], kind=all_of), letter_ids, all_of)


@app.command()
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
    return _resolved("discarded", client.dead_letters.discard(letter_ids or [], kind=all_of), letter_ids, all_of)


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
