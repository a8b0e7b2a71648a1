"""``jiyi nodes``, ``keywords``, ``agents``, ``related``: what is stored."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Table

from jiyi.cli import bars, output
from jiyi.cli.shell import Json, NodeKind, connect, given
from jiyi.protocol.queries import DEFAULT_PAGE, Page

Agent = Annotated[str, typer.Argument(help="Whose.")]
Limit = Annotated[int, typer.Option(min=1, help="Rows of the page.")]
#: Cells of a keyword's bar, and lines of a description before it is cut.
BAR, MAX_LINES = 24, 3


def nodes(
    ctx: typer.Context,
    agent: Agent,
    types: Annotated[list[NodeKind] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    limit: Limit = DEFAULT_PAGE,
    before: Annotated[int | None, typer.Option(min=1, help="Only below this number: the next page.")] = None,
    as_json: Json = False,
) -> None:
    """An agent's memories, newest first."""
    with connect(ctx) as client:
        page = client.memory.nodes(agent, before=before, limit=limit, **given(types=types))
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    output.stdout().print(_node_table(agent, page.rows))
    _more(page, "--before")


def related(
    ctx: typer.Context,
    agent: Agent,
    subject: Annotated[str, typer.Option(help="Of the statement.")] = "",
    predicate: Annotated[str, typer.Option(help="Of the statement.")] = "",
    object_: Annotated[str, typer.Option("--object", help="Of the statement.")] = "",
    limit: Limit = DEFAULT_PAGE,
    as_json: Json = False,
) -> None:
    """Events and thoughts that share a keyword with a statement."""
    if not (subject or predicate or object_):
        raise typer.BadParameter("give at least one of --subject, --predicate, --object")
    with connect(ctx) as client:
        found = client.memory.related(agent, subject=subject, predicate=predicate, object=object_, limit=limit)
    if as_json:
        output.document(found)
        return
    console = output.stdout()
    for kind, rows in found.items():
        console.print(_node_table(kind, rows))


def keywords(
    ctx: typer.Context,
    agent: Agent,
    limit: Limit = DEFAULT_PAGE,
    offset: Annotated[int, typer.Option(min=0, help="Rows to skip: the next page.")] = 0,
    as_json: Json = False,
) -> None:
    """An agent's keywords, strongest first."""
    with connect(ctx) as client:
        page = client.memory.keywords(agent, offset=offset, limit=limit)
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    made = output.table(agent, "keyword", "type", "strength", "", right=["strength"], grow=["keyword"])
    best = max((row["strength"] for row in page.rows), default=0)
    for row in page.rows:
        output.row(made, row["keyword"], row["memory_type"], row["strength"], bars.single(row["strength"], best, BAR))
    output.stdout().print(made)
    _more(page, "--offset")


def agents(
    ctx: typer.Context,
    limit: Limit = DEFAULT_PAGE,
    after: Annotated[str, typer.Option(help="Only after this name: the next page.")] = "",
    as_json: Json = False,
) -> None:
    """The group's agents, with what is set for them."""
    with connect(ctx) as client:
        page = client.agents.list(after=after, limit=limit)
        group = client.group
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    made = output.table(
        group,
        "agent",
        "nodes",
        "events",
        "thoughts",
        "chats",
        "to reflection",
        "since",
        "settings",
        right=["nodes", "events", "thoughts", "chats", "to reflection"],
        grow=["settings"],
    )
    for row in page.rows:
        counts = row["type_counts"]
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        output.row(
            made,
            row["agent_id"],
            row["node_count"],
            *(counts.get(name, 0) for name in ("event", "thought", "chat")),
            row["importance_trigger_curr"],
            output.local_date(row["created_at"]),
            settings,
        )
    output.stdout().print(made)
    _more(page, "--after")


def _node_table(title: str, rows: list[dict[str, Any]]) -> Table:
    made = output.table(title, "#", "type", "created", "imp", "seen", "memory", right=["#", "imp", "seen"], grow=["memory"])
    fixed = [[row["node_count"], row["type"], output.local_time(row["created_at"]), row["poignancy"], row["access_count"]] for row in rows]
    widths = [
        max([cell_len(title), *(cell_len(str(output.cell_text(cell))) for cell in cells)])
        for title, *cells in zip(("#", "type", "created", "imp", "seen"), *fixed, strict=True)
    ]
    room = output.room(output.stdout().width, *widths)
    for cells, row in zip(fixed, rows, strict=True):
        output.row(made, *cells, output.cut(row["description"], room, MAX_LINES))
    return made


def _more(page: Page, option: str) -> None:
    if not page.rows:
        output.notice("nothing here")
    elif page.next is not None:
        output.notice(f"more: {option} {page.next}")
