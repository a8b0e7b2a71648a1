"""``jiyi dead``: what could not be done, and what is to become of it."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, checked, connect, given
from jiyi.client.client import Client
from jiyi.errors import NotFound
from jiyi.protocol.queries import DEFAULT_PAGE, DeadLettersQuery, ResolveQuery

app = typer.Typer(no_args_is_help=True, help="Dead letters: what could not be done.")

State = Literal["open", "replayed", "discarded"]
STATES: tuple[State, ...] = ("open", "replayed", "discarded")
#: The service closes at most so many letters at a time.
MAX_RESOLVED = 1_000
LAST_UUID = (1 << 128) - 1

Ids = Annotated[list[UUID] | None, typer.Argument(help="Ids of open dead letters.", metavar="[ID]…")]
AllOf = Annotated[str | None, typer.Option("--all", metavar="KIND", help="All open ones of this kind, such as intake or embed.")]


@app.command("list")
def list_letters(
    ctx: typer.Context,
    state: Annotated[State, typer.Option(help="Which ones.")] = "open",
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as intake or embed.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows of the page.")] = DEFAULT_PAGE,
    before: Annotated[UUID | None, typer.Option(help="Only older than this one: the next page.")] = None,
    as_json: Json = False,
) -> None:
    """Dead letters, newest first."""
    with connect(ctx) as client:
        page = client.page("dead_letters", DeadLettersQuery, state=state, limit=limit, **given(kind=kind, before=before))
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    made = output.table(f"{state} dead letters", "id", "created", "kind", "reason", grow=["reason"])
    for row in page.rows:
        reason = output.cut(row["reason"], 1_000, 1)
        output.row(made, row["letter_id"], output.local_date(row["created_at"]), row["kind"], reason)
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
    """One dead letter: the reason, the traceback, the message as it came (its first 2,000 characters)."""
    with connect(ctx) as client:
        letter = find(client, letter_id)
    if as_json:
        output.document(letter)
        return
    console = output.stdout()
    made = output.table(str(letter_id), "", "", grow=[""])
    made.show_header = False
    for name in ("state", "kind", "group_id", "subject_id", "attempts", "reason"):
        output.row(made, name, letter.get(name))
    output.row(made, "created", output.local_time(letter["created_at"]))
    console.print(made)
    for name in ("body", "traceback"):
        if letter.get(name):
            console.print(f"\n{name}", style="bold")
            console.print(output.block(letter[name]), soft_wrap=True)


def find(client: Client, letter_id: UUID) -> dict[str, Any]:
    """The letter of this id: the first below the next id, in the list of each state.

    Raises:
        NotFound: there is none in this group.
    """
    before = UUID(int=min(letter_id.int + 1, LAST_UUID))
    for state in STATES:
        page = client.page("dead_letters", DeadLettersQuery, state=state, before=before, limit=1)
        if page.rows and UUID(page.rows[0]["letter_id"]) == letter_id:
            return page.rows[0]
    raise NotFound(f"no dead letter {letter_id} in the group {client.group!r}; see `jiyi dead list`")


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
        query = checked(ResolveQuery, group_id=client.group, action=action, letter_ids=letter_ids or [], kind=kind)
        count = client.ask("resolve", query)["resolved"]
    asked = len(set(letter_ids or []))
    if count < asked:
        output.notice(f"only {count:,} of {asked:,} were open dead letters of this group")
    if kind is not None and count >= MAX_RESOLVED:
        output.notice("there may be more: run it again")
    if as_json:
        output.document({"resolved": count})
        return
    output.line(f"{count:,} {'replayed' if action == 'replay' else 'discarded'}")
