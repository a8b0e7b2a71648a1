"""``jiyi nodes``, ``keywords``, ``agents``, ``related`` and ``archive``: what is stored, and what was put away."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table

from jiyi.cli import operations as jobs
from jiyi.cli import output
from jiyi.cli.shell import Cursor, Json, Limit, MemoryOrigin, NodeKind, Shown, connect, given, show, shows
from jiyi.client.client import Client
from jiyi.protocol.base import DEFAULT_PAGE, Rows
from jiyi.protocol.memory import MAX_RESTORED, AgentState, KeywordStrength, Memory

Agent = Annotated[str, typer.Argument(help="Whose.")]
#: Cells of a keyword's bar, and lines of a description before it is cut.
BAR, MAX_LINES = 24, 3


@shows
def nodes(
    client: Client,
    agent: Agent,
    types: Annotated[list[NodeKind] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    origins: Annotated[list[MemoryOrigin] | None, typer.Option("--origin", help="Only what comes from here; may be repeated.")] = None,
    min_trust: Annotated[float | None, typer.Option(min=0, max=1, help="Trusted at least so much.")] = None,
    user: Annotated[str | None, typer.Option(help="What this user of the agent is told.")] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Shown:
    """An agent's memories, newest first."""
    filters = given(types=types, origins=origins, min_trust=min_trust)
    page = client.memory.list(agent_id=agent, cursor=cursor, limit=limit, user_id=user, **filters)
    return Shown(page, lambda: output.listing(_node_table(agent, page.rows), page.next))


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
    memories = client.memory.related(agent_id=agent, subject=subject, predicate=predicate, object=object_, limit=limit)
    return Shown(memories, lambda: Group(_node_table("events", memories.events), _node_table("thoughts", memories.thoughts)))


@shows
def keywords(
    client: Client,
    agent: Agent,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
    user: Annotated[str | None, typer.Option(help="Those of what this user of the agent is told.")] = None,
) -> Shown:
    """An agent's keywords, strongest first."""
    page = client.memory.keywords(agent_id=agent, user_id=user, cursor=cursor, limit=limit)
    return Shown(page, lambda: _print_keywords(agent, page))


def _print_keywords(agent: str, page: Rows[KeywordStrength]) -> None:
    table = output.table(agent, "keyword", "type", "strength", "", right=["strength"], grow=["keyword"])
    best = max((row.strength for row in page.rows), default=0)
    for row in page.rows:
        output.row(table, row.keyword, row.memory_type, row.strength, output.single(row.strength, best, BAR))
    output.listing(table, page.next)


@shows
def agents(client: Client, limit: Limit = DEFAULT_PAGE, cursor: Cursor = None) -> Shown:
    """The group's agents, with what is set for them."""
    page = client.agents.list(cursor=cursor, limit=limit)
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
    output.listing(table, page.next)


def _node_table(title: str, rows: list[Memory]) -> Table:
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


archive_app = typer.Typer(help="The archive: memories that are found only when they are asked for.")


@archive_app.callback(invoke_without_command=True)
def archive(ctx: typer.Context, as_json: Json = False) -> None:
    """Archive the group's faded memories now, as the job does every night.

    A memory fades when it was long not accessed, is of little importance, and no live thought rests on it.
    """
    if ctx.invoked_subcommand is not None:
        return
    with connect(ctx) as client:
        tick = client.jobs.run("archive", whole_service=False)
    show(jobs.finished(tick), as_json=as_json)


@archive_app.command("list")
@shows
def list_archived(
    client: Client, agent: Annotated[str, typer.Argument(help="Whose.")], limit: Limit = DEFAULT_PAGE, cursor: Cursor = None
) -> Shown:
    """An agent's archived memories, newest first."""
    page = client.memory.list(agent_id=agent, archived="only", cursor=cursor, limit=limit)
    return Shown(page, lambda: _print_page(agent, page))


def _print_page(agent: str, page: Rows[Memory]) -> None:
    table = output.table(agent, "id", "created", "archived", "why", "imp", "memory", right=["imp"], grow=["memory"])
    for row in page.rows:
        output.row(
            table,
            row.node_id,
            output.local_date(row.created_at),
            output.local_date(row.archived_at),
            row.archived_reason,
            row.poignancy,
            output.cut(row.description, 1_000, 1),
        )
    output.listing(table, page.next, f"nothing of {agent} is archived")


@archive_app.command()
@shows
def restore(
    client: Client,
    node_ids: Annotated[list[UUID] | None, typer.Argument(help="Ids of archived memories.", metavar="[ID]…")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="All of this agent.")] = None,
) -> Shown:
    """Bring archived memories back. It counts as an access, and takes an expiry that has passed away."""
    if bool(node_ids) == (agent is not None):
        raise typer.BadParameter("give either ids or --agent NAME")
    done = client.archive.restore(ids=[*(node_ids or [])], agent_id=agent)
    if node_ids and done.restored < len(set(node_ids)):
        output.notice(f"only {done.restored:,} of {len(set(node_ids)):,} were archived memories of this group")
    if done.restored >= MAX_RESTORED and agent is not None:
        output.notice("there may be more: run it again")
    return Shown(done, lambda: output.line(f"{done.restored:,} restored"))
