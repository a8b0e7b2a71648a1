"""``jiyi nodes``, ``keywords``, ``agents``, ``related``: what is stored."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table

from jiyi.cli import bars, output
from jiyi.cli.commands import Shown, shows
from jiyi.cli.shell import NodeKind, given
from jiyi.client.client import Client
from jiyi.protocol.base import DEFAULT_PAGE, Rows
from jiyi.protocol.memory import AgentState, KeywordStrength, MemoryRow

Agent = Annotated[str, typer.Argument(help="Whose.")]
Limit = Annotated[int, typer.Option(min=1, help="Rows of the page.")]
#: Cells of a keyword's bar, and lines of a description before it is cut.
BAR, MAX_LINES = 24, 3


@shows
def nodes(
    client: Client,
    agent: Agent,
    types: Annotated[list[NodeKind] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    limit: Limit = DEFAULT_PAGE,
    before: Annotated[int | None, typer.Option(min=1, help="Only below this number: the next page.")] = None,
) -> Shown:
    """An agent's memories, newest first."""
    page = client.memory.nodes(agent, before=before, limit=limit, **given(types=types))
    return Shown(page, lambda: output.listing(_node_table(agent, page.rows), page.next, "--before"))


@shows
def related(
    client: Client,
    agent: Agent,
    subject: Annotated[str, typer.Option(help="Of the statement.")] = "",
    predicate: Annotated[str, typer.Option(help="Of the statement.")] = "",
    object_: Annotated[str, typer.Option("--object", help="Of the statement.")] = "",
    limit: Limit = DEFAULT_PAGE,
) -> Shown:
    """Events and thoughts that share a keyword with a statement."""
    if not (subject or predicate or object_):
        raise typer.BadParameter("give at least one of --subject, --predicate, --object")
    memories = client.memory.related(agent, subject=subject, predicate=predicate, object=object_, limit=limit)
    return Shown(memories, lambda: Group(*(_node_table(kind, rows) for kind, rows in memories.items())))


@shows
def keywords(
    client: Client,
    agent: Agent,
    limit: Limit = DEFAULT_PAGE,
    offset: Annotated[int, typer.Option(min=0, help="Rows to skip: the next page.")] = 0,
) -> Shown:
    """An agent's keywords, strongest first."""
    page = client.memory.keywords(agent, offset=offset, limit=limit)
    return Shown(page, lambda: _print_keywords(agent, page))


def _print_keywords(agent: str, page: Rows[KeywordStrength]) -> None:
    table = output.table(agent, "keyword", "type", "strength", "", right=["strength"], grow=["keyword"])
    best = max((row.strength for row in page.rows), default=0)
    for row in page.rows:
        output.row(table, row.keyword, row.memory_type, row.strength, bars.single(row.strength, best, BAR))
    output.listing(table, page.next, "--offset")


@shows
def agents(
    client: Client, limit: Limit = DEFAULT_PAGE, after: Annotated[str, typer.Option(help="Only after this name: the next page.")] = ""
) -> Shown:
    """The group's agents, with what is set for them."""
    page = client.agents.list(after=after, limit=limit)
    return Shown(page, lambda: _print_agents(client.group, page))


def _print_agents(group: str, page: Rows[AgentState]) -> None:
    numbers = ["nodes", "events", "thoughts", "chats", "to reflection"]
    table = output.table(group, "agent", *numbers, "since", "settings", right=numbers, grow=["settings"])
    for row in page.rows:
        counts = row.type_counts
        settings = " ".join(f"{name}={value}" for name, value in row.settings.items())
        output.row(
            table,
            row.agent_id,
            row.node_count,
            *(counts.get(name, 0) for name in ("event", "thought", "chat")),
            row.importance_trigger_curr,
            output.local_date(row.created_at),
            settings,
        )
    output.listing(table, page.next, "--after")


def _node_table(title: str, rows: list[MemoryRow]) -> Table:
    table = output.table(title, "#", "type", "created", "imp", "seen", "memory", right=["#", "imp", "seen"], grow=["memory"])
    fixed = [[row.node_count, row.type, output.local_time(row.created_at), row.poignancy, row.access_count] for row in rows]
    widths = [
        max([cell_len(title), *(cell_len(str(output.cell_text(cell))) for cell in cells)])
        for title, *cells in zip(("#", "type", "created", "imp", "seen"), *fixed, strict=True)
    ]
    room = output.room(output.stdout().width, *widths)
    for cells, row in zip(fixed, rows, strict=True):
        output.row(table, *cells, output.cut(row.description, room, MAX_LINES))
    return table
