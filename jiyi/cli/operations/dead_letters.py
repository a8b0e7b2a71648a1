"""``jiyi dead``: what could not be done, and what is to become of it."""

from __future__ import annotations

import sys
from typing import Annotated, Literal
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, connect
from jiyi.protocol.operations import MAX_RESOLVED, LetterState
from jiyi.protocol.queries import DEFAULT_PAGE

app = typer.Typer(no_args_is_help=True, help="Dead letters: what could not be done.")

Ids = Annotated[list[UUID] | None, typer.Argument(help="Ids of open dead letters.", metavar="[ID]…")]
AllOf = Annotated[str | None, typer.Option("--all", metavar="KIND", help="All open ones of this kind, such as intake or embed.")]


@app.command("list")
def list_letters(
    ctx: typer.Context,
    state: Annotated[LetterState, typer.Option(help="Which ones.")] = "open",
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as intake or embed.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows of the page.")] = DEFAULT_PAGE,
    before: Annotated[UUID | None, typer.Option(help="Only older than this one: the next page.")] = None,
    as_json: Json = False,
) -> None:
    """Dead letters, newest first."""
    with connect(ctx) as client:
        page = client.dead_letters.list(state=state, kind=kind, limit=limit, before=before)
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    made = output.table(f"{state} dead letters", "id", "created", "kind", "reason", grow=["reason"])
    for row in page.rows:
        output.row(made, row.letter_id, output.local_date(row.created_at), row.kind, output.cut(row.reason, 1_000, 1))
    if page.rows:
        output.stdout().print(made)
    else:
        output.notice(f"no {state} dead letters")
    if page.next is not None:
        output.notice(f"more: --before {page.next}")


@app.command("show")
def show_letter(
    ctx: typer.Context, letter_id: Annotated[UUID, typer.Argument(metavar="ID", help="Its id.")], as_json: Json = False
) -> None:
    """One dead letter: the reason, the traceback, the message as it came."""
    with connect(ctx) as client:
        letter = client.dead_letters.get(letter_id)
    if as_json:
        output.document(letter.model_dump(mode="json"))
        return
    console = output.stdout()
    made = output.table(str(letter_id), "", "", grow=[""])
    made.show_header = False
    for name in ("state", "kind", "group_id", "subject_id", "attempts", "reason"):
        output.row(made, name, getattr(letter, name))
    output.row(made, "created", output.local_time(letter.created_at))
    console.print(made)
    for name, words in (("body", letter.body), ("traceback", letter.traceback)):
        if words:
            console.print(f"\n{name}", style="bold")
            console.print(output.block(words), soft_wrap=True)


@app.command()
def replay(ctx: typer.Context, letter_ids: Ids = None, all_of: AllOf = None, as_json: Json = False) -> None:
    """Try again: what has been mended since goes through, the rest comes back."""
    _resolve(ctx, "replay", letter_ids, all_of, as_json=as_json)


@app.command()
def discard(
    ctx: typer.Context,
    letter_ids: Ids = None,
    all_of: AllOf = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Give up on dead letters. Asks first."""
    _one_way(letter_ids, all_of)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("discarding without a terminal to ask at needs --yes")
        what = f"all open ones of kind {all_of}" if all_of else f"{len(letter_ids or []):,} dead letters"
        if not typer.confirm(f"Discard {what}?", err=True):
            output.notice("nothing was discarded")
            raise typer.Exit(1)
    _resolve(ctx, "discard", letter_ids, all_of, as_json=as_json)


def _one_way(letter_ids: list[UUID] | None, kind: str | None) -> None:
    if bool(letter_ids) == (kind is not None):
        raise typer.BadParameter("give either ids or --all KIND")


def _resolve(
    ctx: typer.Context, action: Literal["replay", "discard"], letter_ids: list[UUID] | None, kind: str | None, *, as_json: bool
) -> None:
    _one_way(letter_ids, kind)
    with connect(ctx) as client:
        resolve = client.dead_letters.replay if action == "replay" else client.dead_letters.discard
        done = resolve(letter_ids or [], kind=kind)
    count = done.resolved
    asked = len(set(letter_ids or []))
    if count < asked:
        output.notice(f"only {count:,} of {asked:,} were open dead letters of this group")
    if kind is not None and count >= MAX_RESOLVED:
        output.notice("there may be more: run it again")
    if as_json:
        output.document(done.model_dump(mode="json"))
        return
    if done.refused_again:
        output.notice(f"{done.refused_again:,} came back as new letters")
    output.line(f"{count:,} {'replayed' if action == 'replay' else 'discarded'}")
